"""The text of a plan's ``length_distribution``: one for each distribution, whoever wrote it.

``1~hist_tokens~count_tokens~count…``, ``1~lognormal_mean~spread`` or ``1~uniform_low~high``, in
tokens. Equal distributions have one text: lengths ascend, counts are in lowest terms.
"""

from __future__ import annotations

import re
from functools import lru_cache

from planner.lengths.shape import Histogram, Lognormal, Shape, histogram, lognormal, uniform
from planner.lengths.value import MOST_BINS
from planner.linktext import VERSION, parts, require

MAX_CHARACTERS = 2048
FAMILIES = {"lognormal": lognormal, "uniform": uniform}
KINDS = ("hist", *FAMILIES)

_KIND = re.compile("|".join(KINDS))
_WHOLE = re.compile(r"[1-9][0-9]{0,12}")


def to_text(shape: Shape) -> str:
    """The one text of a distribution."""
    if isinstance(shape, Histogram):
        return "_".join((f"{VERSION}~hist", *(f"{at}~{count}" for at, count in shape.counts)))
    if isinstance(shape, Lognormal):
        return f"{VERSION}~lognormal_{shape.mean}~{shape.spread}"
    return f"{VERSION}~uniform_{shape.low}~{shape.longest}"


@lru_cache(maxsize=256)
def from_text(text: str) -> Shape:
    """The distribution of a text.

    Raises:
        ValueError: what is wrong, as a part of a sentence that begins with the field's name.
    """
    (kind,), rest = parts(text, ("shape",), MAX_CHARACTERS)
    require(_KIND, kind, "the shape")
    if len(rest) > MOST_BINS:
        raise ValueError(f"has more than {MOST_BINS} bins")
    pairs = [_pair(part) for part in rest]
    if kind == "hist":
        return histogram(pairs)
    if len(pairs) != 1:
        raise ValueError(f"has {len(pairs)} pairs of numbers after {kind}, not one")
    return FAMILIES[kind](*pairs[0])


def _pair(text: str) -> tuple[int, int]:
    numbers = text.split("~")
    if len(numbers) != 2:
        raise ValueError(f"has {len(numbers)} numbers in a bin, not two")
    for number in numbers:
        require(_WHOLE, number, "a number of tokens or responses")
    return int(numbers[0]), int(numbers[1])


def canonical(text: str) -> str:
    """The text as links carry it; empty stays empty. ``ValueError`` as of :func:`from_text`."""
    return to_text(from_text(text)) if text else ""
