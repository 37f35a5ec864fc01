"""What a plan's step allocates, in its order: each tensor, and what is allocated by then.

Read off the instants of a plan's phases: what is alive at one and was not at the one before is
allocated in between. Of a run's first step and of the next, since the optimizer's moments are made
in the first update. Only what the trainer's allocator holds; the rest is outside it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from planner.dryrun.allocator.rounding import block_size
from planner.estimate import phase_plans
from planner.formulas.allocator import held_bytes
from planner.phases.phase import PhasePlan
from planner.phases.scene import scene_of
from planner.plan import Plan
from planner.plan.facts import facts_of
from planner.term import OUTSIDE, Instant, Term

UPDATE = "optimizer step"
"""The instant of an update at which its moments are there."""


class Allocation(NamedTuple):
    """Tensors of one size of one term, allocated one after another."""

    phase: str
    instant: str
    term: Term
    tensor_bytes: int
    many: int
    before_bytes: int
    """Allocated when the first of them is asked for."""
    least_bytes: int
    """The same if no block had an end that was not cut off."""
    held_bytes: int
    """What each of them is allocated: rounded, with an end that is not cut off."""
    outside_bytes: int
    """What is on the card outside the allocator meanwhile."""
    unused_bytes: int
    """Of segments, what no tensor fills when all of them are there."""
    first: bool
    """In a run's first step."""

    @property
    def needs_bytes(self) -> int:
        """Of the card, when all of them are there."""
        after = self.before_bytes + self.many * self.held_bytes
        return after + self.unused_bytes + self.outside_bytes


Key = tuple[str, str, int]
RELEASED = "released by then: "
"""Begins the name of a term that takes from the one behind it, with bytes below 0."""


class Held(NamedTuple):
    """A term at an instant: its tensors, shortest form; fewer where some are released."""

    term: Term
    tensors: tuple[tuple[int, int], ...]
    """How many of how many bytes each."""


class Stretch(NamedTuple):
    """An instant of a step, and what is alive at it."""

    phase: str
    instant: str
    alive: dict[Key, Held]
    outside_bytes: int
    first: bool


def allocations(plan: Plan) -> tuple[Allocation, ...]:
    """Of two steps of the trainer, in their order.

    Raises:
        ValueError: for what a formula refuses of the plan, naming the field.
    """
    found: list[Allocation] = []
    before: dict[Key, Held] = {}
    for stretch in stretches(phase_plans(scene_of(plan, facts_of(plan)))):
        found += _allocated(before, stretch, plan.expandable_segments)
        before = stretch.alive
    return tuple(found)


def stretches(phases: Sequence[PhasePlan]) -> Iterator[Stretch]:
    """Instants of the load and two steps, without moments that no update has made yet."""
    made: set[str] = set()
    for first in (True, False):
        for phase in phases:
            if phase.rank != "trainer" or not (first or phase.kind.moment.loaded):
                continue
            for instant in phase.instants:
                if instant.name == UPDATE:
                    made.add(phase.kind.moment.updates)
                yield _stretch(phase.name, instant, made, first)


def _stretch(phase: str, instant: Instant, made: set[str], first: bool) -> Stretch:
    seen: Counter[tuple[str, str]] = Counter()
    alive: dict[Key, Held] = {}
    outside, released = 0, Counter[tuple[str, str]]()
    for term in instant.everything:
        if term.host or term.category == "allocator":
            continue
        if term.category in OUTSIDE:
            outside += int(term.bytes)
        elif term.bytes < 0:
            released[term.name.removeprefix(RELEASED), term.role] -= int(term.bytes)
        elif term.bytes and not ("moments" in term.name and term.role not in made):
            alive[term.name, term.role, seen[term.name, term.role]] = Held(term, tensors(term))
            seen[term.name, term.role] += 1
    for (name, role), size in released.items():
        if (key := (name, role, 0)) in alive:
            alive[key] = _without(alive[key], size)
    return Stretch(phase, instant.name, alive, outside, first)


def _without(held: Held, size_bytes: int) -> Held:
    """The term without tensors of so many bytes together, the last of them."""
    left = []
    for count, size in reversed(held.tensors):
        gone = min(size_bytes // size, count)
        size_bytes -= gone * size
        left.append((count - gone, size))
    return Held(held.term, tuple(reversed(left)))


def _allocated(before: dict[Key, Held], stretch: Stretch, expandable: bool) -> Iterator[Allocation]:
    allocated, least, unused, new = 0, 0, 0, []
    for key, held in stretch.alive.items():
        known = before[key].tensors if key in before else ()
        for at, (count, size) in enumerate(held.tensors):
            there = known[at] if at < len(known) else (0, size)
            kept = min(count, there[0]) if there[1] == size else 0
            mine, ends = _of_one(size, expandable)
            allocated, unused = allocated + kept * mine, unused + kept * ends
            least += kept * block_size(size)
            if count > kept:
                new.append((held.term, size, count - kept, mine, ends))
    for term, size, count, mine, ends in new:
        unused += count * ends
        of = stretch.phase, stretch.instant, term, size, count, allocated, least, mine
        yield Allocation(*of, stretch.outside_bytes, unused, stretch.first)
        allocated += count * mine
        least += count * block_size(size)


@lru_cache(maxsize=4096)
def _of_one(size_bytes: int, expandable: bool) -> tuple[int, int]:
    held, unused = held_bytes(_ANY._replace(bytes=size_bytes), expandable)
    return int(held), int(unused)


_ANY = Term("", "", "activations", 0, "", {}, "")


def tensors(term: Term) -> tuple[tuple[int, int], ...]:
    """How many tensors of how many bytes each a term is of."""
    if term.layout:
        return tuple((count, int(term.bytes * share + 0.5)) for count, share in term.layout)
    count = max(int(term.tensors), 1)
    return ((count, -(-int(term.bytes) // count)),)
