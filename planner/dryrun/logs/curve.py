"""What a log shows: each phase's peak, what is alive at it, and memory over time."""

from __future__ import annotations

from dataclasses import dataclass, field

from planner.dryrun.logs.log import BIRTH, DEATH, PHASE, SCRATCH, STEP, Log, Made

POINTS = 400
"""Points of a timeline; each is the highest instant of its stretch."""


@dataclass(slots=True)
class Peak:
    """The highest instant of a phase.

    ``shares`` are device bytes by (role, category); ``alive`` the largest tensors.
    """

    phase: str
    at: int = -1
    requested_bytes: int = 0
    scratch_bytes: int = 0
    scratch_op: str = ""
    host_bytes: int = 0
    op: str = ""
    module: str = ""
    shares: dict[tuple[str, str], int] = field(default_factory=dict)
    alive: list[tuple[int, Made]] = field(default_factory=list)

    @property
    def total_bytes(self) -> int:
        """Requested bytes and the kernel's scratch beside them."""
        return self.requested_bytes + self.scratch_bytes


@dataclass(slots=True)
class Point:
    """One point of a timeline: bytes by category at the highest instant of a stretch."""

    event: int
    phase: str
    op: str
    module: str
    by_category: dict[str, int]


def last_step(log: Log) -> int:
    """Where the last step begins: the steady state, once optimizer states exist."""
    return max((at for at, event in enumerate(log.events) if event[0] == STEP), default=0)


def peaks(log: Log) -> list[Peak]:
    """The peak of each phase in the last step, in the order they first begin."""
    found: dict[str, Peak] = {}
    start = last_step(log)
    live = host = 0
    current: Peak | None = None
    made = log.made
    for at, (kind, key, value) in enumerate(log.events):
        if kind in (BIRTH, DEATH):
            change = value if kind == BIRTH else -value
            if made[key].host:
                host += change
            else:
                live += change
        elif kind == PHASE:
            name = log.names[key]
            current = found.setdefault(name, Peak(name)) if value and at >= start else None
        if current is None or kind == DEATH:
            continue
        current.host_bytes = max(current.host_bytes, host)
        scratch = value if kind == SCRATCH else 0
        if live + scratch > current.total_bytes:
            current.at, current.requested_bytes, current.scratch_bytes = at, live, scratch
            current.scratch_op = log.names[key] if scratch else ""
    _describe(log, found)
    return list(found.values())


def _describe(log: Log, found: dict[str, Peak]) -> None:
    """What is alive at each peak, by a second pass."""
    wanted = {peak.at: peak for peak in found.values()}
    alive: set[int] = set()
    last = -1
    for at, (kind, key, _) in enumerate(log.events):
        if kind == BIRTH:
            alive.add(key)
            last = key
        elif kind == DEATH:
            alive.discard(key)
        if at in wanted:
            _compose(log, wanted[at], alive, last)


def _compose(log: Log, peak: Peak, alive: set[int], last: int) -> None:
    shares: dict[tuple[str, str], int] = {}
    groups: dict[Made, int] = {}
    for key in alive:
        made = log.made[key]
        if made.host:
            continue
        who = made.role, made.category
        shares[who] = shares.get(who, 0) + made.size_bytes
        groups[made] = groups.get(made, 0) + 1
    peak.shares = shares
    ranked = sorted(groups.items(), key=lambda pair: -pair[0].size_bytes * pair[1])
    peak.alive = [(count, made) for made, count in ranked[:40]]
    if last >= 0:
        peak.op, peak.module = log.made[last].op, log.made[last].module


def timeline(log: Log, points: int = POINTS) -> list[Point]:
    """Memory through the last step: the highest instant of each of ``points`` stretches.

    Every phase has a point of its own, however short it is.
    """
    start = last_step(log)
    stretch = max(1, (len(log.events) - start) // points)
    sums: dict[str, int] = {}
    found: list[Point] = []
    live, highest, phase, last = 0, -1, "", None
    for at, (kind, key, value) in enumerate(log.events):
        made = None
        if kind in (BIRTH, DEATH):
            made = log.made[key]
            if made.host:
                continue
            change = value if kind == BIRTH else -value
            live += change
            sums[made.category] = sums.get(made.category, 0) + change
        elif kind == PHASE:
            phase = log.names[key] if value else ""
        if at < start or not (kind == BIRTH or (kind == PHASE and value)):
            continue
        place = phase, (at - start) // stretch
        if place == last and live <= highest:
            continue
        op, module = (made.op, made.module) if made else ("", "")
        point = Point(at, phase, op, module, dict(sums))
        if place == last:
            found[-1] = point
        else:
            found.append(point)
        last, highest = place, live
    return found
