"""One forward's terms, summed over steps whose rows grow by a token each."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any

from planner.formulas import soft_generation as soft
from planner.numeric import Num
from planner.term import Term

BLOCK = 128
"""A multiple of what any kernel pads rows to."""

PADDED_PAIRS = re.compile(r"\btokens \* round_up\(tokens, (\d+)\)")
PADDED_ROWS = re.compile(r"\bround_up\(tokens, (\d+)\)")
PAIRS = re.compile(r"\btokens \* tokens\b")
ROWS = re.compile(r"\btokens\b")


def over_steps(terms: Iterable[Term], tokens: Num, first_tokens: Num, steps: Num) -> Iterator[Term]:
    """One forward's terms over rows of ``tokens``, summed over steps of growing rows.

    ``tokens`` is a multiple of :data:`BLOCK`, so that no padding hides in it.
    """
    return (_over_steps(term, tokens, first_tokens, steps) for term in terms)


def _over_steps(term: Term, tokens: Num, first_tokens: Num, steps: Num) -> Term:
    common: dict[str, Any] = {"label": term.name, "tensors": term.tensors * steps}
    pairs, multiple = _growth(term.formula)
    unit = term.bytes // (tokens if pairs == 1 else tokens * tokens) if pairs else term.bytes
    if multiple:
        padded = soft.padded_units(first_tokens, steps, multiple, pairs=pairs == 2)
        return soft.STEP_PADDED(term.role, **common, unit_bytes=unit, padded_units=padded)
    if not pairs:
        return soft.STEP_CONSTANT(term.role, **common, step_bytes=unit, steps=steps)
    sizes = {"first_tokens": first_tokens, "steps": steps}
    if pairs == 2:
        return soft.STEP_PAIRS(term.role, **common, pair_bytes=unit, **sizes)
    return soft.STEP_ROWS(term.role, **common, token_bytes=unit, **sizes)


@lru_cache(maxsize=512)
def _growth(formula: str) -> tuple[int, int]:
    """By which power of the row's length a formula grows, and to what multiple it pads."""
    for pattern, power in ((PADDED_PAIRS, 2), (PADDED_ROWS, 1)):
        found = pattern.search(formula)
        if found:
            return power, int(found.group(1))
    if PAIRS.search(formula):
        return 2, 0
    return (1, 0) if ROWS.search(formula) else (0, 0)
