"""A plan's phases played through the simulated allocator, on the largest card that is too small.

What is alive at each instant is the plan's; when a block is asked for, from where it comes and what
the allocator holds by then is the simulation's, which knows nothing of how a message is read.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple

from planner.dryrun.allocator.driver import OutOfDeviceMemory
from planner.dryrun.allocator.settings import AllocatorSettings
from planner.dryrun.allocator.simulator import Allocator
from planner.estimate import phase_plans
from planner.phases.scene import scene_of
from planner.plan import Plan
from planner.plan.facts import facts_of
from planner.term import OUTSIDE, Instant
from planner.units import MIB

GRAIN = 2 * MIB
"""Every segment is a multiple of it, so that a card a byte smaller holds one fewer."""
MOST_TENSORS = 60_000
FIRST = 1 << 49
"""A card on which everything fits; some plans ask for 75 TiB of one."""


class Asked(NamedTuple):
    """Tensors that are asked for together, or given back."""

    phase: str
    instant: str
    term: str
    place: int
    """Among the term's sizes."""
    keys: list[int]
    tensor_bytes: int
    freed: bool = False


class Turn(NamedTuple):
    """An instant: what goes, what comes, and what is outside the allocator meanwhile."""

    outside_bytes: int
    events: tuple[Asked, ...]


class Failed(NamedTuple):
    """The allocation that found no memory, and the counters of that moment."""

    phase: str
    term: str
    asked_bytes: int
    """The segment that would have been bought."""
    allocated_bytes: int
    reserved_bytes: int
    outside_bytes: int
    capacity_bytes: int
    first_step: bool


def turns(plan: Plan, dice: random.Random | None = None) -> list[tuple[bool, Turn]]:
    """Load and two steps; with ``dice`` the tensors of an instant come in any order."""
    phases = phase_plans(scene_of(plan, facts_of(plan)))
    alive: dict[tuple[str, str, int], list[Asked]] = {}
    updated: set[str] = set()
    found, key = [], 0
    for phase, step in chain(((one, 1) for one in phases), ((one, 2) for one in phases)):
        if phase.rank != "trainer" or (step == 2 and not phase.kind.moment.loaded):
            continue
        for instant in phase.instants:
            if instant.name == "optimizer step":
                updated.add(phase.kind.moment.updates)
            outside, wanted = _wanted(instant, updated)
            now: dict[tuple[str, str, int], list[Asked]] = {}
            events: list[Asked] = []
            born = []
            for name, sizes in wanted.items():
                held = {one.place: one for one in alive.pop(name, ())}
                now[name] = []
                for place, (count, size) in enumerate(sizes):
                    one = held.pop(place, None)
                    if one is not None and one.tensor_bytes != size:
                        events.append(one._replace(freed=True))
                        one = None
                    had = len(one.keys) if one else 0
                    if one is not None and had > count:
                        events.append(one._replace(keys=one.keys[count:], freed=True))
                        one = one._replace(keys=one.keys[:count])
                    if one is not None and one.keys:
                        now[name].append(one)
                    if count > had:
                        born.append((name, place, count - had, size, one))
                events += [one._replace(freed=True) for one in held.values()]
            events += [one._replace(freed=True) for left in alive.values() for one in left]
            if dice is not None:
                dice.shuffle(born)
            for name, place, count, size, one in born:
                keys = [*range(key, key + count)]
                key += count
                new = Asked(phase.name, instant.name, name[0], place, keys, size)
                events.append(new)
                if one is not None:
                    now[name].remove(one)
                    new = one._replace(keys=[*one.keys, *keys])
                now[name].append(new)
            alive = now
            found.append((step == 1, Turn(outside, tuple(events))))
    if key > MOST_TENSORS:
        raise ValueError("too many tensors to play")
    return found


def _wanted(
    instant: Instant, updated: set[str]
) -> tuple[int, dict[tuple[str, str, int], list[tuple[int, int]]]]:
    """What is outside at an instant, and of each term how many tensors of which size."""
    outside = 0
    wanted: dict[tuple[str, str, int], list[tuple[int, int]]] = {}
    released: dict[tuple[str, str, int], int] = {}
    for term in instant.everything:
        size = int(term.bytes)
        if term.host or term.category == "allocator":
            continue
        if term.category in OUTSIDE:
            outside += size
        elif size < 0:
            released[term.name.partition(": ")[2], term.role, 0] = -size
        elif size and ("moments" not in term.name or term.role in updated):
            number = sum(name[:2] == (term.name, term.role) for name in wanted)
            count = max(int(term.tensors), 1)
            wanted[term.name, term.role, number] = (
                [(many, int(size * share + 0.5)) for many, share in term.layout]
                if term.layout
                else [(count, -(-size // count))]
            )
    for name, size in released.items():
        for place, (count, each) in reversed([*enumerate(wanted.get(name, ()))]):
            gone = min(size // each, count)
            size -= gone * each
            wanted[name][place] = count - gone, each
    return outside, wanted


def play(
    played: Sequence[tuple[bool, Turn]], capacity_bytes: int, expandable: bool
) -> Failed | None:
    """The first allocation that fails on a card of so many bytes; None where all succeed."""
    allocator = Allocator(
        AllocatorSettings(expandable_segments=expandable, capacity_bytes=capacity_bytes)
    )
    outside_before = 0
    for first, turn in played:
        if turn.outside_bytes > outside_before:
            allocator.empty_cache()
        outside_before = turn.outside_bytes
        allocator._driver.capacity_bytes = capacity_bytes - turn.outside_bytes
        for event in turn.events:
            for key in event.keys:
                if event.freed:
                    allocator.free(key)
                    continue
                try:
                    allocator.allocate(key, event.tensor_bytes)
                except OutOfDeviceMemory as error:
                    return Failed(
                        event.phase,
                        event.term,
                        error.segment_bytes,
                        error.allocated_bytes,
                        error.reserved_bytes,
                        turn.outside_bytes,
                        capacity_bytes,
                        first,
                    )
    return None


def largest_too_small(played: Sequence[tuple[bool, Turn]], expandable: bool) -> Failed | None:
    """What fails on the largest card that is too small for what the trainer itself allocates."""
    low, high = 0, FIRST
    while high - low > GRAIN:
        middle = (low + high) // 2 // GRAIN * GRAIN
        if play(played, middle, expandable) is None:
            high = middle
        else:
            low = middle
    # Where it begins to fit is a whole number of segments beside what is outside at some instant.
    ends = {low + (turn.outside_bytes - low) % GRAIN for _, turn in played}
    fits = next(end for end in (*sorted(ends), high) if play(played, end, expandable) is None)
    return play(played, fits - 1, expandable)
