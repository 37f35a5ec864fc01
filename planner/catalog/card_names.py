"""What people call a card: ``A100``, ``RTX 4090``, ``NVIDIA H100 80GB PCIe``; a plan has its key.

A name is its words, each one of a card's own; gigabytes are those of the sticker. Where it is that
of several cards nobody guesses which.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from planner.catalog.gpu_catalog import Gpu, gpus
from planner.units import GIB

UNSAID = ("nvidia", "amd", "intel", "apple", "geforce", "tesla", "hbm2", "hbm2e", "hbm3", "hbm3e")
"""Words that drivers and people say besides, and that tell no card from another."""
WORDS = re.compile(r"rtx(?=\d)|\d+ ?gi?b?\b|[a-z0-9]+")
LONGEST = 64
USABLE = 0.9
"""Least share of a sticker's gigabytes that software sees: a T4's 14.6 of 16."""


@lru_cache(maxsize=1024)
def card_key(text: str) -> str:
    """The key of the card that a text names; the text as a key would be where it names none.

    Raises:
        ValueError: it is the name of several cards; the sentence lists their keys.
    """
    words = [word for word in WORDS.findall(text.lower()) if word not in UNSAID]
    key = "-".join(words)
    # A card whose usable bytes nobody has reported is named by its whole key alone.
    said = (card.key for card in gpus() if card.budget_bytes and words and _says(card, words))
    keys = [key] if any(card.key == key for card in gpus()) else [*said] or [key]
    if len(keys) > 1:
        raise ValueError(f"{text} may be {', '.join(keys[:-1])} or {keys[-1]}")
    return keys[0]


def _says(card: Gpu, words: Sequence[str]) -> bool:
    """Whether each of these words is one of the card's names, or its memory."""
    own = WORDS.findall(f"{card.key} {card.name}".lower())
    own += [word[:-1] for word in own if word.startswith("sxm")]
    sizes = {word: int(size[1]) for word in words if (size := re.fullmatch(r"(\d+) ?gi?b?", word))}
    usable = (card.budget_bytes or 0) / GIB
    return all(
        USABLE <= usable / sizes[word] <= 1 if word in sizes else word in own for word in words
    )
