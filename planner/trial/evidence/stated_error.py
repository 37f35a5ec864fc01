"""How far a plan's memory may be off: what trials and committed measurements on a GPU have shown.

By method, phase and kind of plan (:mod:`planner.trial.evidence.kind`), signed, predicted against
measured device bytes: below zero where the prediction was too low. Of another kind than those
measured the error is unknown, and says what nothing covers. No torch.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from planner import catalog
from planner.dryrun.ask.answer import DryRun
from planner.estimate import estimate, judged
from planner.footprint import Footprint, Phase, StatedError
from planner.plan import Plan
from planner.plan.factors import RUNGS, Rung
from planner.plan.frameworks import framework_named
from planner.plan.methods import methods
from planner.trial.ask.result import TrialResult, read_result
from planner.trial.evidence.calibration import counts, said_by
from planner.trial.evidence.kind import ErrorKind, error_kind
from planner.units import read_count, read_listed
from planner.values.sharding import sharding_of

COMMITTED = Path(__file__).resolve().parents[3] / "accuracy" / "measured"
"""Measurements that come with this repository.

``gpu-*.json`` is of ``python -m accuracy.gpu``, ``trials-*.json`` of ``python -m accuracy.trials``.
"""

MADE_WHOLE = "made whole"
"""What a file says of its sharded models that were made whole on the card and then cut."""

KEEP = ". Keep at least 10% free."


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """One prediction of device bytes beside what was measured."""

    rung: Rung
    method: str
    phase: str
    gpu: str
    kind: ErrorKind
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

    A phase of which nobody measured the plan's kind keeps None, and so does every one of a
    framework whose loop nobody read. Where that is the worst one, what
    no measurement covers stands in the footprint's error and above its headline.

    Args:
        footprint: an estimate or a dry run.
        own: comparisons of stored trials, by :func:`of_trial`.
        committed: what :func:`committed_set` gives, which is the default.
    """
    kept = list(own)
    given = list(committed_set(of=footprint.plan.method) if committed is None else committed)
    kind = error_kind(footprint.plan)
    # Trials of such a framework ran the step of this project.
    unread = framework_named(footprint.plan.framework).unread

    def known(phase: Phase) -> StatedError | None:
        if phase.rank != "trainer" or phase.source == "trial":
            return None
        asked = footprint.plan.method, phase.name, kind
        if unread:
            return StatedError(low=None, high=None, source=f"not known, since {unread}{KEEP}")
        return stated_error(*asked, rung=phase.source, own=kept, committed=given)

    found = [known(phase) for phase in footprint.phases]
    worst = found[footprint.phases.index(footprint.worst)]
    if worst is not None and worst.low is None:
        line = f"Error of the peak {worst.source.removesuffix(KEEP)}"
        footprint = replace(footprint, error=worst, assumptions=(*footprint.assumptions, line))
    phases = tuple(
        replace(phase, error=None if one is None or one.low is None else one)
        for phase, one in zip(footprint.phases, found, strict=True)
    )
    return judged(replace(footprint, phases=phases))


def stated_of(found: DryRun, own: Iterable[Compared] = ()) -> DryRun:
    """A dry run with stated errors; unchanged where a fallback branch ran, of which none hold."""
    return found if found.fallback else replace(found, footprint=stated(found.footprint, own))


def stated_error(
    method: str,
    phase: str,
    kind: ErrorKind,
    *,
    rung: Rung = "estimate",
    own: Iterable[Compared] = (),
    committed: Iterable[Compared] | None = None,
) -> StatedError:
    """The error to expect of a phase's device bytes.

    Args:
        method: the plan's method.
        phase: the phase's name, such as that of the worst phase.
        kind: the plan's, by :func:`~planner.trial.evidence.kind.error_kind`.
        rung: whose prediction is meant.
        own: comparisons of stored trials, by :func:`of_trial`.
        committed: what :func:`committed_set` gives, which is the default.

    Returns:
        The lowest and the highest error that was seen, or None for both.
    """
    given = committed_set(of=method) if committed is None else committed
    alike = [
        (where, one)
        for where, some in (("stored trial", own), ("committed measurement", given))
        for one in some
        if (one.rung, one.method, one.phase) == (rung, method, phase)
    ]
    found = [(where, one) for where, one in alike if one.kind == kind]
    if not found:
        near = kind.lacking(sorted({one.kind for _, one in alike}))
        lacks = read_listed(near or (f"{phase} of {methods()[method].title}",))
        return StatedError(low=None, high=None, source=f"not measured for {lacks}{KEEP}")
    errors = [one.error for _, one in found]
    cards = read_listed(sorted({_card(one.gpu) for _, one in found}))
    counted = read_listed([read_count(n, what) for what, n in Counter(w for w, _ in found).items()])
    return StatedError(
        low=min(errors),
        high=max(errors),
        source=f"{counted} of {methods()[method].title} on {cards}, {phase}, "
        f"{rung} of device memory; below zero is predicted too low",
    )


def _card(key: str) -> str:
    return catalog.gpu(key).name if key else "a card of no catalog"


def of_trial(result: TrialResult) -> Iterator[Compared]:
    """What a trial says about device bytes.

    Nothing when it ran on a CPU, was censored or is unfinished.
    """
    if not counts(result) or result.device.kind != "cuda" or result.measured is None:
        return
    plan = result.planned()
    try:
        kind = error_kind(plan).on(result.device.gpu)
    except ValueError:  # one that formulas refuse today
        return
    own = [phase for phase in result.measured.phases if phase.rank == "trainer"]
    measured = {phase.name: phase.device_bytes or 0 for phase in own}
    for rung in RUNGS:
        said = {name: phase.device_bytes or 0 for name, phase in said_by(rung, result).items()}
        yield from compared(rung, plan.method, kind, result.device.gpu, said, measured)


def compared(
    rung: Rung,
    method: str,
    kind: ErrorKind,
    gpu: str,
    said: Mapping[str, int],
    measured: Mapping[str, int],
) -> Iterator[Compared]:
    """Device bytes of the phases that both have, predicted beside measured.

    Of a dry run its largest phase alone: in the others the allocator keeps what that one took,
    which a dry run's phase does not say and an estimate's does.
    """
    common = [name for name, size in measured.items() if size > 0 and said.get(name)]
    if rung == "dry run" and common:
        common = [max(common, key=said.__getitem__)]
    for phase in common:
        yield Compared(
            rung=rung,
            method=method,
            phase=phase,
            gpu=gpu,
            kind=kind,
            predicted_bytes=said[phase],
            measured_bytes=measured[phase],
        )


@cache
def committed_set(folder: Path = COMMITTED, of: str = "") -> tuple[Compared, ...]:
    """Every comparison in the files that come with the repository; none where there are none.

    Args:
        folder: where the files are.
        of: a method, of whose plans alone they are then: each costs an estimate.

    Raises:
        ValueError: when a file is not what these commands write.
    """
    kinds = (("gpu-*.json", _of_steps), ("trials-*.json", _of_trials))
    return tuple(
        one
        for pattern, read in kinds
        for path in sorted(folder.glob(pattern))
        for one in _of_file(path, read, of)
    )


def _of_file(
    path: Path, read: Callable[[Mapping[str, Any], str, bool, str], Iterator[Compared]], of: str
) -> Iterator[Compared]:
    try:
        data = json.loads(path.read_text("utf-8"))
        for row in data["cases"]:
            yield from read(row, str(data["gpu"]), data.get("sharded") == MADE_WHOLE, of)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{path.name}: it is no file of measurements: {error!r}.") from None


def _of_trials(row: Mapping[str, Any], gpu: str, made_whole: bool, of: str) -> Iterator[Compared]:
    result = read_result(json.dumps(row["result"]))
    if not _left_out(result.planned(), made_whole, of):
        yield from of_trial(result)


def _left_out(plan: Plan, made_whole: bool, of: str) -> bool:
    """Whether it is another method's, or what was whole on the card is in the run's cache."""
    return plan.method != (of or plan.method) or made_whole and not sharding_of(plan).replicated


def _of_steps(row: Mapping[str, Any], gpu: str, made_whole: bool, of: str) -> Iterator[Compared]:
    measured = row["measured"]
    last = (measured.get("steps") or [{}])[-1]
    if "failed" in measured or any(each.get("num_alloc_retries", 0) for each in last.values()):
        return
    others = int(row.get("others_bytes") or 0)
    plan = Plan(**row["plan"])
    if _left_out(plan, made_whole, of):
        return
    today = {phase.name: phase.device_bytes for phase in estimate(plan).phases}
    dry = {name: sums["device_bytes"] for name, sums in row["predicted"]["dry run"].items()}
    sides: tuple[tuple[Rung, Mapping[str, Any]], ...] = (("estimate", today), ("dry run", dry))
    measured = {
        str(phase): int(real["reserved_bytes"]) + int(real["outside_bytes"]) - others
        for phase, real in last.items()
    }
    for rung, said in sides:
        yield from compared(rung, plan.method, error_kind(plan).on(gpu), gpu, said, measured)
