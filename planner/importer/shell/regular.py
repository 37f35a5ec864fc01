"""``=~``: regular expressions of a script; those that could take long are refused."""

from __future__ import annotations

import re

from planner.importer.effort import Effort
from planner.importer.shell import patterns

CLASS = re.compile(r"\[:(\w+):\]")
MOST_CHARACTERS = 200
"""Of an expression, and of what it is tried on."""
MOST_REPEATS = 3
MOST_WAYS = 2_000_000_000
"""Ways to match that may have to be tried; as many as three repeats have in 200 characters."""
WAYS_OF_A_STEP = 20_000


def spans(written: str, subject: str, effort: Effort) -> list[tuple[int, int]] | None:
    """Where the expression and each of its groups match first; an empty list where nothing does.

    None: it is not tried. What is no expression matches nothing.
    """
    if len(written) > MOST_CHARACTERS or len(subject) > MOST_CHARACTERS:
        return None
    bare = re.sub(r"(?s)\\.", "", written)
    repeats = len(re.findall(r"[*+{]", bare))
    repeated = re.search(r"\)[*+{]", bare)
    if repeats > (1 if repeated else MOST_REPEATS) or re.search(r"\{\d*,?\d{3}", bare):
        return None
    alternatives = bare.count("|")
    ways = 2 ** bare.count("?") * (alternatives + 1) ** min(alternatives, max(bare.count("("), 1))
    turns = max(len(subject), 99 if repeated[0] == "){" else 0) if repeated else 1
    ways = ways**turns * (len(subject) + 1) ** (repeats + 1)
    if ways > MOST_WAYS:
        return None
    effort.spend(ways // WAYS_OF_A_STEP)
    try:
        match = re.search(CLASS.sub(lambda one: patterns.CLASSES.get(one[1], ""), written), subject)
    except re.error:
        return []
    return [match.span(group) for group in range(len(match.groups()) + 1)] if match else []
