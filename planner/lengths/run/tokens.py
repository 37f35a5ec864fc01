"""Texts to numbers of tokens, by a model's own tokenizer. Imports transformers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from transformers import AutoTokenizer

from planner.lengths.counted import Tokenizer


def tokenizer_of(place: str) -> Tokenizer:
    """The counter of a folder's tokenizer, or of a Hub id's that is on this machine.

    The token that ends a response is counted; those that a template puts around it are not.

    Raises:
        ValueError: naming ``tokenizer``, where none can be read.
    """
    try:
        known: Any = AutoTokenizer.from_pretrained(
            place, local_files_only=True, trust_remote_code=False
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        first = str(error).strip().partition("\n")[0][:200]
        raise ValueError(f"tokenizer: none can be read from {place[:100]!r}: {first}") from None

    def count(texts: Sequence[str]) -> list[int]:
        ids = known(list(texts), add_special_tokens=False)["input_ids"]
        return [len(one) + 1 for one in ids]

    return count
