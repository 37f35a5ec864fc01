"""What the page calls the values of a field of choices."""

from __future__ import annotations

import re

import pytest

from planner.plan import Plan
from planner.wording.choices import name, options
from planner.wording.fields import changes_in_words

CHOSEN = [field for field in Plan.model_fields if options(field)]


@pytest.mark.parametrize("field", CHOSEN)
def test_no_two_choices_of_a_field_read_alike(field: str) -> None:
    read = [name(field, value) for value in options(field)]
    assert len(set(read)) == len(read)


def test_changes_are_said_as_their_lists_show_them() -> None:
    words = changes_in_words({"logits": "fused", "micro_batch_size": 4, "activation_offload": True})
    assert re.search(r"→ fused linear cross-entropy, .* → 4, .* → on$", words)
