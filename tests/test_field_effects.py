"""No framework ignores a field that a person set: it is honoured, refused by name, or told why."""

from __future__ import annotations

from functools import cache

import field_effects
from field_effects import EXPLAINED, Effect


@cache
def found() -> dict[str, dict[str, Effect]]:
    return field_effects.effects()


def test_the_page_says_what_the_product_does() -> None:
    assert field_effects.text(found()) == field_effects.PAGE.read_text("utf-8")


def test_what_moves_plain_pytorch_moves_every_framework_or_is_told() -> None:
    ignored = {
        (framework, name): effect.ignored
        for name, of in found().items()
        for framework, effect in of.items()
        if effect.ignored
    }
    assert {key: plans for key, plans in ignored.items() if key not in EXPLAINED} == {}
    assert EXPLAINED.keys() == ignored.keys(), "an explanation that nothing needs"


def test_no_sharding_leaves_a_field_without_effect_in_silence() -> None:
    """A gradient's dtype on its way, say: DeepSpeed sends it in one, and DDP does not."""
    assert field_effects.silent() == []
