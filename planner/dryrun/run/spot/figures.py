"""What a law is held to at a length: the bytes that a plan's peaks are made of.

The same figures of an observation and of the polynomials that were solved from others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from planner.dryrun.run.observation import Observation
from planner.formulas.length_law import error_of, law_of
from planner.formulas.polynomial import Polynomial, of_rank, value

PASSES = ("forward", "again", "backward")


def errors(
    measured: Mapping[str, Any], seen: Mapping[int, Observation], places: Iterable[int], *of: int
) -> dict[int, float]:
    """The share that a setting's polynomials miss at each held-out length.

    ``places`` has a layer of each kind; ``of`` is the rows and the rank of adapters (0 without).
    """
    at = tuple(places)
    return {
        tokens: error_of([*predicted(measured, tokens, *of)], [*shown(one, at)])
        for tokens, one in seen.items()
    }


def shown(one: Observation, places: Iterable[int]) -> Iterator[int]:
    """What each layer keeps, its highest instants with what stands beside it, and the rest."""
    beside = one.before + one.standing
    yield beside + one.after + max(one.norm.bytes if one.norm else (0,))
    for at in places:
        yield one.kept[at]
        for moments in (one.forward, one.again, one.backward):
            if moments:
                yield beside + one.kept[at] + max(moments[at].bytes)


def predicted(measured: Mapping[str, Any], tokens: int, rows: int, rank: int) -> Iterator[int]:
    """The same of polynomials."""
    second = law_of(measured).second(tokens)

    def at(polynomial: Polynomial) -> int:
        own = of_rank(polynomial, rank) if rank else polynomial
        return int(value(own, rows, tokens, second))

    beside = at(measured["before"]) + at(measured["standing"])
    yield beside + at(measured["after"]) + max(map(at, measured.get("norm", ())), default=0)
    for kind in measured["kinds"]:
        yield (kept := at(kind["kept"]))
        for name in PASSES:
            if name in kind:
                yield beside + kept + max(map(at, kind[name]))
