"""What a file of :mod:`accuracy.gpu` says: signed errors by level, method and phase. No torch.

Committed files are ``accuracy/measured/gpu-*.json``. The estimate is that of the moment, so that a
change of a formula shows; the dry run is the one recorded beside the measurement. Seconds are the
estimate's alone.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from accuracy.gpu_cases import executed
from planner.estimate import estimate
from planner.plan import Plan
from planner.trial.evidence.stated_error import MADE_WHOLE

FOLDER = Path(__file__).parent / "measured"
LEVELS = ("allocated", "reserved", "device")
CACHED = ("reserved", "device")
"""Levels that show what was whole on the card before it was sharded, in files that say so."""
SOURCES = ("estimate", "dry run")
TARGETS: Mapping[str, tuple[tuple[str, float], ...]] = {
    "allocated": (("median", 0.005),),
    "reserved": (("median", 0.03),),
    "device": (("median", 0.02), ("p95", 0.05)),
}
"""Largest absolute errors that the project aims at, over whole steps."""
WHOLE = "whole step"


@dataclass(frozen=True, slots=True, kw_only=True)
class Error:
    """One predicted number beside the measured one."""

    case: str
    method: str
    phase: str
    level: str
    source: str
    measured_bytes: int
    predicted_bytes: int

    @property
    def signed(self) -> float:
        """Relative error; negative where the prediction is too low."""
        return self.predicted_bytes / self.measured_bytes - 1


def files(folder: Path = FOLDER) -> list[dict[str, Any]]:
    """Every committed file of measurements on a GPU."""
    return [json.loads(path.read_text("utf-8")) for path in sorted(folder.glob("gpu-*.json"))]


def censored(row: Mapping[str, Any]) -> str:
    """Why a case's peaks are no measurement of what its plan needs; empty where they are."""
    found = row["measured"]
    if "failed" in found:
        return str(found["failed"]["kind"])
    last = found["steps"][-1] if found["steps"] else {}
    if any(phase.get("num_alloc_retries", 0) > 0 for phase in last.values()):
        return "allocator retried"
    return "" if last else "no phase was read"


def errors(rows: Iterable[Mapping[str, Any]], *, made_whole: bool = False) -> list[Error]:
    """Every comparison of cases that are not censored.

    Where sharded models were ``made_whole`` on the card and then cut, what was whole stayed in the
    allocator's cache, so of those cases only allocated bytes say something of their plan.

    The estimate's reserved and device bytes leave out what other phases left in the allocator's
    cache, so they are compared for the whole step only; the dry run's are compared phase by phase.
    """
    found: list[Error] = []
    for row in rows:
        if not censored(row):
            cut = made_whole and row["plan"]["sharding"] != "none"
            found.extend(one for one in _errors(row) if not (cut and one.level in CACHED))
    return found


def seconds(rows: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, float, float]]:
    """Phase, predicted and measured seconds of every phase of a last step that both have.

    A rollout's are left out: a run decodes every token, and has no engine.
    """
    for row in rows:
        if censored(row):
            continue
        said = {phase.name: phase.seconds for phase in executed(estimate(Plan(**row["plan"])))}
        for name, phase in row["measured"]["steps"][-1].items():
            if said.get(name):
                yield name, float(said[name] or 0), float(phase["seconds"])


def _errors(row: Mapping[str, Any]) -> Iterable[Error]:
    plan = Plan(**row["plan"])
    fresh = {
        phase.name: {f"{level}_bytes": getattr(phase, f"{level}_bytes") for level in LEVELS}
        for phase in executed(estimate(plan))
    }
    predictions = {"estimate": fresh, "dry run": row["predicted"]["dry run"]}
    others = int(row.get("others_bytes") or 0)
    real = {name: _levels(phase, others) for name, phase in row["measured"]["steps"][-1].items()}
    for source, phases in predictions.items():
        common = [name for name in real if name in phases]
        for level in LEVELS:
            key = f"{level}_bytes"
            pairs = [(name, real[name][key], phases[name][key]) for name in common]
            if set(common) == set(real):
                most = (WHOLE, max(p[1] for p in pairs), max(p[2] for p in pairs))
                pairs = [most] if source == "estimate" and level != "allocated" else [*pairs, most]
            for phase, measured, said in pairs:
                if measured:
                    yield Error(
                        case=row["name"],
                        method=plan.method,
                        phase=phase,
                        level=level,
                        source=source,
                        measured_bytes=measured,
                        predicted_bytes=said,
                    )


def _levels(phase: Mapping[str, Any], others_bytes: int) -> dict[str, int]:
    device = phase["reserved_bytes"] + phase["outside_bytes"] - others_bytes
    return {
        "allocated_bytes": int(phase["allocated_bytes"]),
        "reserved_bytes": int(phase["reserved_bytes"]),
        "device_bytes": int(device),
    }


def text(found: Sequence[Mapping[str, Any]] | None = None) -> str:
    """The section of docs/accuracy.md; it says so where nothing was measured."""
    measured = files() if found is None else found
    if not measured:
        return ABSENT
    return "\n\n".join(_of_file(one) for one in measured)


ABSENT = """No measurement on a GPU has been committed yet. The command that takes them,
`python -m accuracy.gpu --gpu KEY --out accuracy/measured/gpu-KEY.json`, stands ready: its very
loop runs in the tests on a CPU. The targets are, over whole steps: allocated bytes within 0.5 %
(median), reserved within 3 % (median), device within 2 % (median) and 5 % (p95)."""


def _of_file(data: Mapping[str, Any]) -> str:
    rows = data["cases"]
    whole = data.get("sharded") == MADE_WHOLE
    kept = errors(rows, made_whole=whole)
    left = [row for row in rows if censored(row)]
    versions = next((row["measured"].get("versions") for row in rows), None) or {}
    said = ", ".join(f"{name} {value}" for name, value in versions.items())
    parts = [
        f"### {data['gpu']}",
        f"{len(rows)} cases, {len(rows) - len(left)} of them measured; driver "
        f"{data.get('driver') or 'not recorded'}, {said}.",
        _targets(kept),
        "By method, whole steps:\n\n" + _table(kept, lambda e: e.method, whole=True),
        "By phase:\n\n" + _table(kept, lambda e: e.phase, whole=False),
        _seconds(rows),
    ]
    if whole:
        parts.insert(2, CUT)
    if left:
        parts.append("Not compared:\n\n" + _left(left))
    return "\n\n".join(parts)


CUT = """Sharded plans ran as one rank of many, on models that were created whole and then
sharded (today a rank creates only its shard): the memory of the whole model stayed in the
allocator's cache, so only allocated bytes are compared for these plans."""


def _seconds(rows: Sequence[Mapping[str, Any]]) -> str:
    """The estimate's seconds beside the card's, by phase, short ones apart."""
    lines = [
        "| seconds of | cases | median | p5 | p95 | max |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    found = list(seconds(rows))
    kinds = [(name, [one for one in found if one[0] == name]) for name, *_ in found]
    long = [one for one in found if one[2] >= LONG_SECONDS]
    short = [one for one in found if one[2] < LONG_SECONDS]
    for name, chosen in (*dict(kinds).items(), ("long phases", long), ("short phases", short)):
        if chosen:
            lines.append(f"| {name} | {_spread([told / real - 1 for _, told, real in chosen])} |")
    return SECONDS + "\n\n" + "\n".join(lines)


LONG_SECONDS = 0.5
SECONDS = f"""The estimate's seconds beside those of the last step, timed by device events. Most
phases of at least {LONG_SECONDS} s keep the card busy; in most shorter ones the host launches
kernels more slowly than the card computes them."""


def _targets(found: Sequence[Error]) -> str:
    lines = [
        "| source | level | cases | median | p5 | p95 | max | target |",
        "|---|---|---:|---:|---:|---:|---:|---|",
    ]
    for source in SOURCES:
        for level in LEVELS:
            chosen = _signed(
                e for e in found if (e.source, e.level, e.phase) == (source, level, WHOLE)
            )
            if chosen:
                goals = "; ".join(_goal(chosen, *goal) for goal in TARGETS[level])
                lines.append(f"| {source} | {level} | {_spread(chosen)} | {goals} |")
    return "\n".join(lines)


def _table(found: Sequence[Error], group: Callable[[Error], str], *, whole: bool) -> str:
    lines = [
        "| | source | level | cases | median | p5 | p95 | max |",
        "|---|---|---|---:|---:|---:|---:|---:|",
    ]
    shown = [e for e in found if (e.phase == WHOLE) == whole]
    for name in dict.fromkeys(map(group, shown)):
        for source in SOURCES:
            for level in LEVELS:
                chosen = _signed(
                    e for e in shown if (group(e), e.source, e.level) == (name, source, level)
                )
                if chosen:
                    lines.append(f"| {name} | {source} | {level} | {_spread(chosen)} |")
    return "\n".join(lines)


def _left(rows: Sequence[Mapping[str, Any]]) -> str:
    lines = ["| case | why | estimate says |", "|---|---|---|"]
    for row in rows:
        said = estimate(Plan(**row["plan"])).verdict.word
        verdict = "capped" if row["cap_bytes"] else said
        lines.append(f"| {row['name']} | {censored(row)} | {verdict} |")
    return "\n".join(lines)


def _signed(found: Iterable[Error]) -> list[float]:
    return [error.signed for error in found]


def spread(signed: Sequence[float]) -> dict[str, float]:
    """Median, p5 and p95 of signed errors, and the one largest in size."""
    median, low, high = np.percentile(np.asarray(signed), [50, 5, 95])
    return {
        "median": float(median),
        "p5": float(low),
        "p95": float(high),
        "max": max(signed, key=abs),
    }


def _spread(signed: Sequence[float]) -> str:
    return " | ".join((str(len(signed)), *(f"{100 * v:+.2f} %" for v in spread(signed).values())))


def _goal(signed: Sequence[float], name: str, most: float) -> str:
    """A target and whether it is met; p95 is that of the sizes of the errors."""
    reached = abs(spread(signed)["median"])
    if name == "p95":
        reached = float(np.percentile(np.abs(np.asarray(signed)), 95))
    return f"{name} ≤ {100 * most:.1f} %: {'met' if reached <= most else 'missed'}"
