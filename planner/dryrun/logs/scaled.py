"""A log whose state has other sizes than what was executed: DeepSpeed's shards, or none on the GPU.

The step runs with whole weights and gradients where no code of ours shards them. Left as they are,
they would decide at which instant a phase peaks: the end of a backward, when all gradients are
there, where a shard of them leaves the peak with the activations.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from planner.dryrun.logs.curve import last_step
from planner.dryrun.logs.log import BIRTH, DEATH, Log, Made
from planner.footprint import Footprint

Whose = tuple[str, str]
"""A role and a category."""


def shares(
    log: Log,
    closed: Footprint,
    categories: Collection[str],
    executed: Collection[str] = (),
) -> dict[Whose, float]:
    """What part of the executed bytes of these categories the closed form has on the device.

    Terms named in ``executed`` are the step's own and no state.
    """
    most = _most(log, categories)
    estimated: dict[Whose, int] = {}
    for phase in closed.phases:
        in_phase: dict[Whose, int] = {}
        for term in phase.terms:
            if term.name not in executed and not term.host and phase.rank == "trainer":
                who = term.role, str(term.category)
                in_phase[who] = in_phase.get(who, 0) + int(term.bytes)
        for who, size in in_phase.items():
            estimated[who] = max(estimated.get(who, 0), size)
    return {who: estimated.get(who, 0) / whole for who, whole in most.items() if whole}


def scaled(log: Log, by: Mapping[Whose, float], away: Collection[str] = ()) -> Log:
    """The log with the device bytes of these roles and categories multiplied; none is left at 0.

    Of categories that are ``away`` nothing is left of what bears a weight's name: a loss's own
    gradients are of no weight yet.
    """
    made = {key: _resized(one, by, away) for key, one in log.made.items()}
    events = [
        (kind, key, made[key].size_bytes) if kind in (BIRTH, DEATH) else (kind, key, value)
        for kind, key, value in log.events
        if kind not in (BIRTH, DEATH) or made[key].size_bytes or not log.made[key].size_bytes
    ]
    return Log(events=events, made=made, names=log.names, notes=log.notes, rounds=log.rounds)


def _resized(one: Made, by: Mapping[Whose, float], away: Collection[str]) -> Made:
    part = 1.0 if one.host else by.get((one.role, one.category), 1.0)
    if one.category in away and one.module and not one.host:
        part = 0.0
    return one if part == 1.0 else one._replace(size_bytes=int(one.size_bytes * part))


def _most(log: Log, categories: Collection[str]) -> dict[Whose, int]:
    """Most live bytes of each role in these categories, in the last step."""
    start = last_step(log)
    live: dict[Whose, int] = {}
    most: dict[Whose, int] = {}
    for at, (kind, key, value) in enumerate(log.events):
        if at == start:  # weights and states are there, and stay
            most = dict(live)
        if kind not in (BIRTH, DEATH):
            continue
        one = log.made[key]
        if one.host or one.category not in categories:
            continue
        who = one.role, one.category
        live[who] = live.get(who, 0) + (value if kind == BIRTH else -value)
        if at >= start:
            most[who] = max(most.get(who, 0), live[who])
    return most
