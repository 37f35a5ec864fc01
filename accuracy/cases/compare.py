"""Each plan of a public case, answered by today's estimate."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from planner.estimate import estimate
from planner.footprint import Footprint
from planner.plan.link import from_query_string
from planner.trial.evidence.stated_error import stated
from planner.units import GIB

FILE = Path(__file__).with_name("rows.json")
REFUSED = "refused"
FITS = "fits"
DIED = "out of memory"
RAN = "ran"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """One plan of a case: how the run ended, and the estimate."""

    case: Mapping[str, Any]
    number: int
    """Of the plan among the case's, from 0."""
    plan: str
    """As a query string, as it was typed."""
    before: str
    """The word at the commit that ``rows.json`` names, or ``refused``."""
    ended: str
    """``out of memory``, ``ran``, or empty where the run is not this plan's."""
    measured: Mapping[str, Any] | None
    """Published GiB and which total they are of; None where nothing was published."""
    footprint: Footprint | None
    """None where the plan is refused."""
    refusal: str

    @property
    def word(self) -> str:
        """Of the verdict, or ``refused``."""
        return REFUSED if self.footprint is None else self.footprint.verdict.word

    @property
    def error(self) -> float | None:
        """Predicted over measured, less one; below zero where it is predicted too low."""
        if self.measured is None or self.footprint is None:
            return None
        total = f"{self.measured['level']}_bytes"
        trainers = [one for one in self.footprint.phases if one.rank == "trainer"]
        most: int = max(getattr(one, total) for one in trainers)
        return most / (self.measured["gib"] * GIB) - 1

    @property
    def false_fit(self) -> bool:
        """Whether a run that died is said to fit; those whose cause is open are counted apart."""
        return self.ended == DIED and self.word == FITS and not self.case.get("apart")

    @property
    def lost(self) -> bool:
        """Whether a run that ran was said to fit before, and no longer is."""
        return self.ended == RAN and self.before == FITS and self.word != FITS

    @property
    def newly_refused(self) -> bool:
        """Whether it was answered before."""
        return self.word == REFUSED and self.before != REFUSED


@cache
def read() -> Mapping[str, Any]:
    """``rows.json``."""
    rows: Mapping[str, Any] = json.loads(FILE.read_text("utf-8"))
    return rows


@cache
def answered(some: frozenset[str] = frozenset()) -> tuple[Answered, ...]:
    """Every plan of every case, or of the cases named."""
    return tuple(_answered(some))


def _answered(some: frozenset[str]) -> Iterator[Answered]:
    for case in read()["rows"]:
        if some and case["id"] not in some:
            continue
        for number, one in enumerate(case["plans"]):
            footprint, refusal = _answer(one["plan"])
            yield Answered(
                case=case,
                number=number,
                plan=one["plan"],
                before=one["before"],
                ended=one.get("ended", ""),
                measured=one.get("measured"),
                footprint=footprint,
                refusal=refusal,
            )


def _answer(text: str) -> tuple[Footprint | None, str]:
    reading = from_query_string(text)
    if reading.problems or reading.plan is None:
        return None, " ".join(one.sentence for one in reading.problems)
    return stated(estimate(reading.plan)), ""
