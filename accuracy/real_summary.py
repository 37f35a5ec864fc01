"""What a framework's real runs on a CPU say: of its dry runs, and these of the closed form."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from accuracy.cpu_summary import Errors
from planner.dryrun.ask.answer import CUBLAS
from planner.estimate import estimate
from planner.units import MIB

By = Callable[[Any], dict[str, float]]
"""Signed relative errors of a case, by phase."""


@cache
def stored(measured: Path) -> dict[str, Any]:
    """The committed runs, with their cases' rows by name."""
    found: dict[str, Any] = json.loads(measured.read_text("utf-8"))
    return {**found, "cases": {row["name"]: row for row in found["cases"]}}


@dataclass(frozen=True, slots=True)
class RealSummary:
    """The cases of a framework, and the file that their runs are in."""

    measured: Path
    cases: Sequence[Any]

    def stored(self) -> dict[str, Any]:
        """The committed runs."""
        return stored(self.measured)

    def dry_errors(self, case: Any) -> dict[str, float]:
        """Signed relative error of the stored dry run by phase, against the real run."""
        row = self.stored()["cases"][case.name]
        dry: dict[str, int] = row["dry_run_bytes"]
        return {phase: dry[phase] / real - 1 for phase, real in row["real_bytes"].items()}

    def closed_errors(self, case: Any) -> dict[str, float]:
        """The same of the closed form of the moment, against the stored dry run of a whole model.

        A phase with next to nothing on the GPU, where state is in host RAM, has no relative error.
        """
        dry = self.stored()["cases"][case.name]["whole_bytes"]
        return {
            phase.name: (phase.requested_bytes - besides) / dry[phase.name] - 1
            for phase in estimate(case.whole).phases
            if dry.get(phase.name, 0) > MIB
            for besides in [sum(int(term.bytes) for term in phase.terms if term.name == CUBLAS)]
        }

    def by_method(self, errors: By) -> str:
        """A table with a row for each method."""
        return "\n".join(self._by_method(errors))

    def _by_method(self, errors: By) -> Iterator[str]:
        yield "| method | cases | phases | 5th percentile | median | 95th percentile | largest |"
        yield "|---|---:|---:|---:|---:|---:|---:|"
        for name in (*dict.fromkeys(case.method for case in self.cases), "**all**"):
            cases = [case for case in self.cases if name in (case.method, "**all**")]
            found = [error for case in cases for error in errors(case).values()]
            yield Errors(name, len(cases), found).row

    def by_case(self) -> str:
        """A table with a row for each case: the phase that each tier meets worst."""
        lines = ["| case | dry run beside the real run | closed form beside the dry run |"]
        lines.append("|---|---:|---:|")
        for case in self.cases:
            worst = (_worst(each(case)) for each in (self.dry_errors, self.closed_errors))
            lines.append(f"| {case} | {' | '.join(worst)} |")
        return "\n".join(lines)


def _worst(errors: dict[str, float]) -> str:
    phase = max(errors, key=lambda name: abs(errors[name]))
    return f"{100 * errors[phase]:+.4f} % ({phase})"
