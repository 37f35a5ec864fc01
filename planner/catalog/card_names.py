"""What people call a card: ``A100``, ``RTX 4090``, ``NVIDIA H100 80GB PCIe``; a plan has its key.

A name is its words, each one of a card's own; gigabytes are those of the sticker. Where it is that
of several cards nobody guesses which.
"""

from __future__ import annotations

import re
from functools import cache

from planner.catalog.gpu_catalog import CUSTOM, Gpu, gpus
from planner.units import GIB

UNSAID = ("nvidia", "amd", "intel", "apple", "geforce", "tesla", "hbm2", "hbm2e", "hbm3", "hbm3e")
"""Words that drivers and people say besides, and that tell no card from another."""
WORDS = re.compile(r"rtx(?=\d)|\d+ ?gi?b?\b|[a-z0-9]+")
LONGEST = 64
USABLE = 0.9
"""Least share of a sticker's gigabytes that software sees: a T4's 14.6 of 16."""


@cache
def card_key(text: str) -> str:
    """The key of the card that a text names; the text as a key would be where it names none.

    Raises:
        ValueError: it is the name of several cards; the sentence lists their keys.
    """
    words = [word for word in WORDS.findall(text.lower()) if word not in UNSAID]
    key, known = "-".join(words), {CUSTOM, *(card.key for card in gpus())}
    if text in known or key in known or not words:
        return text if text in known or not words else key
    found = [each for each in gpus() if all(_said_of(each, word) for word in words)]
    # A card whose usable bytes nobody has reported is nobody's plan.
    keys = [each.key for each in found if each.budget_bytes] or [each.key for each in found]
    if len(keys) > 1:
        raise ValueError(f"{text} may be {', '.join(keys[:-1])} or {keys[-1]}")
    return keys[0] if keys else key


def _said_of(card: Gpu, word: str) -> bool:
    """Whether this word is one of the card's names, or its memory."""
    gigabytes = re.fullmatch(r"(\d+) ?gi?b?", word)
    if gigabytes and card.budget_bytes:
        return USABLE <= card.budget_bytes / GIB / int(gigabytes[1]) <= 1
    own = WORDS.findall(f"{card.key} {card.name}".lower())
    return word in own or word in (re.sub(r"(?<=sxm)\d$", "", each) for each in own)
