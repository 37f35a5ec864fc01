"""An out-of-memory message beside a plan: which phase and which tensor, how sure, what to change.

The plan's estimate says what is allocated when; advice on the plan says what a change does. Without
a plan the text alone speaks, and says what to give next.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from planner.advice.advice import Advice
from planner.advice.edits import KINDS, Edit
from planner.advice.suggestion import Suggestion
from planner.footprint import Footprint
from planner.importer import sentences
from planner.importer.allocations import allocations
from planner.importer.candidates import Candidate, candidates, near
from planner.importer.memory_errors.message import Message
from planner.importer.traceback_phases import phases_of
from planner.term import POOL, Term
from planner.units import read_bytes, read_count, read_listed
from planner.values.step_phases import LOAD, ROLLOUT

Sure = Literal["one tensor", "several tensors", "phase only", "nothing"]
"""Of what the text and the plan leave; with ``nothing`` a place is the plan's largest, no more."""

MOST = 5
"""Candidates and fixes that are told."""
EXPANDABLE = Edit(
    title="Use expandable segments", kind="memory", changes={"expandable_segments": True}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A moment of the plan's step, and what is asked for at it."""

    phase: str
    instant: str
    term: Term | None = None
    tensor_bytes: int | None = None
    """Of the one tensor; its term may be of many."""
    missed_bytes: int = 0
    """What was allocated, less what the plan has allocated by then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """What a message means; places and fixes are empty without a plan."""

    message: Message
    sure: Sure
    said: tuple[str, ...]
    """Sentences: what failed and why, where in the plan, and how sure that is."""
    following: tuple[str, ...]
    """What to do or to give next, which no change of the plan is."""
    places: tuple[Place, ...] = ()
    """The likeliest first."""
    fixes: tuple[Suggestion, ...] = ()
    """Changes to the plan, each estimated again; those first that cost least."""


def diagnose(message: Message, footprint: Footprint | None = None) -> Diagnosis:
    """What a message means, for a plan's estimate where there is one.

    Raises:
        ValueError: for what a formula refuses of the plan, naming the field.
    """
    if footprint is None:
        said = (*sentences.figures(message), *sentences.cause(message))
        following = (*sentences.following(message), SCRIPT)
        return Diagnosis(message=message, sure="nothing", said=said, following=following)
    sure, places, evidence = _places(message, footprint)
    return Diagnosis(
        message=message,
        sure=sure,
        said=(
            *sentences.figures(message),
            *sentences.cause(message),
            *evidence,
            *sentences.card(message, footprint),
        ),
        following=tuple(sentences.following(message)),
        places=places,
        fixes=tuple(_fixes(message, footprint, places)),
    )


SCRIPT = (
    "Paste the launch script or the configuration too: with the plan it follows which phase and "
    "which tensor this is, and what each change would do."
)


def _places(
    message: Message, footprint: Footprint
) -> tuple[Sure, tuple[Place, ...], tuple[str, ...]]:
    own = [one for one in footprint.phases if one.rank == "trainer"] or [*footprint.phases]
    names, call = phases_of(message.frames, [one.name for one in own])
    seen = (f"The traceback's {call} is in {read_listed(names)}.",) if names else ()
    if message.cause == "host RAM":
        return _most(footprint, host=True, seen=seen)
    if message.form.startswith(("vLLM", "SGLang")):
        return _engine(message, footprint)
    if "asked" in message.sizes and message.form == "torch":
        found = candidates(allocations(footprint.plan), message.sizes, names)
        if found:
            sure, places, words = _of_tensors(message, found)
            return sure, places, (*seen, *words)
        none = (
            f"No tensor of the plan has {read_bytes(message.sizes['asked'].bytes)}: the run has "
            "another batch, length, model or version than the plan, or the tensor is one of a "
            "kernel's own.",
        )
    else:
        none = ("The text names no size, so no tensor of the plan can be told.",)
    if names:
        phase = max((one for one in own if one.name in names), key=lambda one: one.own_bytes)
        return "phase only", (Place(phase=phase.name, instant=phase.instant),), (*seen, *none)
    return _most(footprint, host=False, seen=none)


def _of_tensors(
    message: Message, found: tuple[Candidate, ...]
) -> tuple[Sure, tuple[Place, ...], tuple[str, ...]]:
    """The candidates that suit, one of each phase and name, and how they are told."""
    allocated = message.sizes.get("allocated")
    suit = [one for one in found if near(one, allocated) and one.named == found[0].named]
    each = {one.place: one for one in reversed(suit or found)}
    likely = [each[place] for place in dict.fromkeys(one.place for one in suit or found)]
    places = tuple(
        Place(
            phase=one.allocation.phase,
            instant=one.allocation.instant,
            term=one.allocation.term,
            tensor_bytes=one.allocation.tensor_bytes,
            missed_bytes=one.missed_bytes,
        )
        for one in likely[:MOST]
    )
    first = likely[0].allocation
    said = (
        f"{read_bytes(message.sizes['asked'].bytes)} is the size of {_named(likely[0])}: by the "
        f"plan {read_bytes(first.before_bytes)} are allocated by then"
    )
    said += f", {read_bytes(allocated.bytes)} were." if allocated else "."
    if not suit:
        doubt = "The plan has as much allocated at no moment that asks for this size, so this is "
        doubt += "its nearest, and the run is likely another than the plan."
    elif len(likely) == 1:
        doubt = "It is the only tensor of that size at such a moment."
    else:
        others = read_listed([_named(one) for one in likely[1:MOST]])
        more = f" and {len(likely) - MOST} more" if len(likely) > MOST else ""
        doubt = f"Likeliest of {len(likely)} of that size at such moments; else {others}{more}."
    sure: Sure = "one tensor" if len(likely) == 1 and suit else "several tensors"
    return sure, places, (said, doubt)


def _named(one: Candidate) -> str:
    of = one.allocation
    whole = f"one of {of.many} in " if of.many > 1 else ""
    return f"{whole}{of.term.name} ({of.term.role}) in {of.phase}, {of.instant}"


def _engine(
    message: Message, footprint: Footprint
) -> tuple[Sure, tuple[Place, ...], tuple[str, ...]]:
    """An engine starts after models are loaded, and wakes for a rollout."""
    wanted = ROLLOUT if message.form in ("vLLM wake-up", "SGLang run") else LOAD
    phases = [one for one in footprint.phases if any(t.category == "engine" for t in one.terms)]
    if not phases:
        return "nothing", (), ("The plan has no rollout engine on its GPUs; the run has one.",)
    phase = next((one for one in phases if one.kind == wanted), phases[0])
    pool = next((term for term in phase.terms if term.name == POOL), None)
    place = Place(phase=phase.name, instant=phase.instant, term=pool)
    what = "wakes for the rollout" if wanted == ROLLOUT else "starts"
    said = f"It is the engine that {what}: {phase.name} of the plan."
    if footprint.pool is not None:
        holds = read_count(footprint.pool.sequences, "full-length sequence")
        said += f" By the plan its share is {read_bytes(footprint.pool.share_bytes)}: {holds}."
    return "phase only", (place,), (said,)


def _most(
    footprint: Footprint, *, host: bool, seen: tuple[str, ...]
) -> tuple[Sure, tuple[Place, ...], tuple[str, ...]]:
    """The phase that needs most, which is no evidence that it was this one."""
    phase = footprint.worst
    if host:
        phase = max(footprint.phases, key=lambda one: one.host_bytes or 0)
    terms = [term for term in phase.terms if term.host is host and term.category != "allocator"]
    term = max(terms, key=lambda one: one.bytes, default=None)
    needs = phase.host_bytes or 0 if host else phase.device_bytes
    where = "host RAM on a node" if host else "the card"
    said = f"By the plan {phase.name} needs most of {where}: {read_bytes(needs)}"
    said += f", {read_bytes(term.bytes)} of it {term.name}." if term else "."
    return "nothing", (Place(phase=phase.name, instant=phase.instant, term=term),), (*seen, said)


def _fixes(
    message: Message, footprint: Footprint, places: tuple[Place, ...]
) -> Iterator[Suggestion]:
    """What helps that phase, first what costs least; of fragmentation the allocator first."""
    if message.cause in ("another process", "process limit"):
        return
    advice = Advice(footprint)
    found: list[Suggestion] = []
    if message.cause == "engine's share":
        every = (*advice.share, *advice.singles, *advice.made)
        found = [one for one in every if one.kind == "engine" and not one.worse]
        found = [one for one in found if _right_way(message, one)]
    elif message.cause == "host RAM":
        found = [one for one in advice.made if _host_saved(one) > 0 and not one.worse]
    elif places:
        found = [*advice.lowering(places[0].phase)]
    once = {tuple(sorted(one.changes.items(), key=str)): one for one in sorted(found, key=_costs)}
    if message.cause == "fragmentation":
        one = advice.edited(EXPANDABLE)
        yield from (one,) if one is not None else ()
    yield from [*once.values()][:MOST]


def _right_way(message: Message, one: Suggestion) -> bool:
    """An engine without room for its cache wants no smaller share; one that fills the card does."""
    share = one.after.plan.gpu_memory_utilization - one.before.plan.gpu_memory_utilization
    larger = message.form in ("vLLM cache", "vLLM sequence", "SGLang start")
    return share >= 0 if larger else share <= 0


def _host_saved(one: Suggestion) -> int:
    return (one.before.host_bytes or 0) - (one.after.host_bytes or 0)


def _costs(one: Suggestion) -> tuple[int, float, int]:
    return KINDS.index(one.kind), max(one.seconds_lost or 0.0, 0.0), -one.saved_bytes
