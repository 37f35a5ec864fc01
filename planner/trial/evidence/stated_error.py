"""How far a plan's memory may be off: what trials and committed measurements on a GPU have shown.

By method and phase, signed, predicted against measured device bytes: below zero where the
prediction was too low. Where nothing was measured the error is unknown, and says so. No torch.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from planner.dryrun.ask.answer import DryRun
from planner.estimate import estimate, judged
from planner.footprint import Footprint, Phase, StatedError
from planner.plan import Plan
from planner.plan.factors import RUNGS, Rung
from planner.trial.ask.result import TrialResult, read_result
from planner.trial.evidence.calibration import counts, said_by

COMMITTED = Path(__file__).resolve().parents[3] / "accuracy" / "measured"
"""Measurements that come with this repository.

``gpu-*.json`` is of ``python -m accuracy.gpu``, ``trials-*.json`` of ``python -m accuracy.trials``.
"""

UNKNOWN = "nothing has been measured for {what}: the error is unknown. Keep at least 10% free."


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """One prediction of device bytes beside what was measured."""

    rung: Rung
    method: str
    phase: str
    gpu: str
    predicted_bytes: int
    measured_bytes: int

    @property
    def error(self) -> float:
        """Relative and signed; below zero where the prediction is too low."""
        return self.predicted_bytes / self.measured_bytes - 1


def stated(
    footprint: Footprint,
    own: Iterable[Compared] = (),
    committed: Iterable[Compared] | None = None,
) -> Footprint:
    """The footprint with the error that measurements state of each phase, and judged by it.

    A phase that nobody measured keeps None, and a footprint of such phases is returned as it is.

    Args:
        footprint: an estimate or a dry run.
        own: comparisons of stored trials, by :func:`of_trial`.
        committed: what :func:`committed_set` gives, which is the default.
    """
    kept, given = list(own), list(committed_set() if committed is None else committed)

    def known(phase: Phase) -> StatedError | None:
        if phase.rank != "trainer" or phase.source == "trial":
            return None
        method, rung = footprint.plan.method, phase.source
        found = stated_error(method, phase.name, rung=rung, own=kept, committed=given)
        return None if found.low is None else found

    phases = tuple(replace(phase, error=known(phase)) for phase in footprint.phases)
    if all(phase.error is None for phase in phases):
        return footprint
    return judged(replace(footprint, phases=phases))


def stated_of(found: DryRun, own: Iterable[Compared] = ()) -> DryRun:
    """A dry run with stated errors; unchanged where a fallback branch ran, of which none hold."""
    return found if found.fallback else replace(found, footprint=stated(found.footprint, own))


def stated_error(
    method: str,
    phase: str,
    *,
    rung: Rung = "estimate",
    own: Iterable[Compared] = (),
    committed: Iterable[Compared] | None = None,
) -> StatedError:
    """The error to expect of a phase's device bytes.

    Args:
        method: the plan's method.
        phase: the phase's name, such as that of the worst phase.
        rung: whose prediction is meant.
        own: comparisons of stored trials, by :func:`of_trial`.
        committed: what :func:`committed_set` gives, which is the default.

    Returns:
        The lowest and the highest error that was seen, or None for both.
    """
    found: list[Compared] = []
    counted: list[str] = []
    for what, some in (
        ("stored trial", own),
        ("committed measurement", committed_set() if committed is None else committed),
    ):
        meant = [one for one in some if (one.rung, one.method, one.phase) == (rung, method, phase)]
        found += meant
        if meant:
            counted.append(f"{len(meant)} {what}" + ("" if len(meant) == 1 else "s"))
    if not found:
        source = UNKNOWN.format(what=f"{phase} of {method} on a GPU")
        return StatedError(low=None, high=None, source=source)
    errors = [one.error for one in found]
    cards = ", ".join(sorted({one.gpu or "a card of no catalog" for one in found}))
    return StatedError(
        low=min(errors),
        high=max(errors),
        source=f"{' and '.join(counted)} of {method} on {cards}, {phase}, {rung} of device "
        "memory; below zero is predicted too low",
    )


def of_trial(result: TrialResult) -> Iterator[Compared]:
    """What a trial says about device bytes.

    Nothing when it ran on a CPU, was censored or is unfinished.
    """
    if not counts(result) or result.device.kind != "cuda" or result.measured is None:
        return
    method = result.planned().method
    for rung in RUNGS:
        said = said_by(rung, result)
        for phase in result.measured.phases:
            expected = said.get(phase.name) if phase.rank == "trainer" else None
            if expected and expected.device_bytes and phase.device_bytes:
                yield Compared(
                    rung=rung,
                    method=method,
                    phase=phase.name,
                    gpu=result.device.gpu,
                    predicted_bytes=expected.device_bytes,
                    measured_bytes=phase.device_bytes,
                )


@cache
def committed_set(folder: Path = COMMITTED) -> tuple[Compared, ...]:
    """Every comparison in the files that come with the repository; none where there are none.

    Raises:
        ValueError: when a file is not what these commands write.
    """
    kinds = (("gpu-*.json", _of_steps), ("trials-*.json", _of_trials))
    return tuple(
        one
        for pattern, read in kinds
        for path in sorted(folder.glob(pattern))
        for one in _of_file(path, read)
    )


def _of_file(
    path: Path, read: Callable[[Mapping[str, Any], str], Iterator[Compared]]
) -> Iterator[Compared]:
    try:
        data = json.loads(path.read_text("utf-8"))
        for row in data["cases"]:
            yield from read(row, str(data["gpu"]))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{path.name}: it is no file of measurements: {error!r}.") from None


def _of_trials(row: Mapping[str, Any], gpu: str) -> Iterator[Compared]:
    return of_trial(read_result(json.dumps(row["result"])))


def _of_steps(row: Mapping[str, Any], gpu: str) -> Iterator[Compared]:
    measured = row["measured"]
    last = (measured.get("steps") or [{}])[-1]
    if "failed" in measured or any(each.get("num_alloc_retries", 0) for each in last.values()):
        return
    others = int(row.get("others_bytes") or 0)
    plan = Plan(**row["plan"])
    today = {phase.name: phase.device_bytes for phase in estimate(plan).phases}
    dry = {name: sums["device_bytes"] for name, sums in row["predicted"]["dry run"].items()}
    sides: tuple[tuple[Rung, Mapping[str, Any]], ...] = (("estimate", today), ("dry run", dry))
    for rung, said in sides:
        for phase, real in last.items():
            size = int(real["reserved_bytes"]) + int(real["outside_bytes"]) - others
            if said.get(phase) and size > 0:
                yield Compared(
                    rung=rung,
                    method=plan.method,
                    phase=str(phase),
                    gpu=gpu,
                    predicted_bytes=int(said[phase]),
                    measured_bytes=size,
                )
