"""Up to four plans beside each other: what differs, what each needs, which differences matter.

Nothing here has a formula of its own: every figure is of an estimate, and what a difference does
is found by making it alone, in the first plan, and by leaving it out alone, in the second. Both,
since differences that need each other (a smaller card beside a sharding) do nothing or cannot be
by themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

from planner.cost import Cost, cost
from planner.footprint import Footprint, Phase, training_of
from planner.plan import FIELDS, Plan, length_words, try_plan
from planner.plan.chosen import Change, differences
from planner.plan.facts import facts_of
from planner.plan.relevance import without_effect
from planner.throughput import Figure, read_figure, read_run, throughput
from planner.units import read_bytes, read_listed, read_seconds, read_seconds_between, read_usd

MATTERS = 0.01
"""A difference that moves no figure by this share of it does not matter."""
Estimated = Callable[[Plan], Footprint]


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """One plan of a comparison, with its estimate, its cost, and what its seconds yield."""

    name: str
    footprint: Footprint
    paid: Cost
    figures: dict[str, Figure]

    @property
    def plan(self) -> Plan:
        """The plan itself."""
        plan: Plan = self.footprint.plan
        return plan

    @property
    def runs(self) -> bool:
        """Whether it has the memory, and all its parts: else it has no seconds and no cost."""
        return self.footprint.priced

    @property
    def seconds(self) -> float | None:
        """Of a step, where it runs and that is known."""
        return self.footprint.step_seconds if self.runs else None


def old_and_new(
    before: Footprint, after: Footprint, read: Callable[[float], str] = read_bytes
) -> str:
    """Peak, verdict, a step's time and the run's cost, each before → after; those that it has.

    What does not run has no time and no cost. What reads alike before and after is said once.
    """
    parts = [("GPU peak", read(before.device_bytes), read(after.device_bytes))]
    words = before.verdict.word, after.verdict.word
    if "out of memory" not in words:
        seconds = before.step_seconds, after.step_seconds
        usd = cost(before).usd_run, cost(after).usd_run
        if seconds[0] is not None and seconds[1] is not None:
            parts.append(("step", read_seconds(seconds[0]), read_seconds(seconds[1])))
        if usd[0] is not None and usd[1] is not None:
            parts.append(("run", read_usd(usd[0]), read_usd(usd[1])))
    told = [f"{name} {old} → {new}" for name, old, new in parts if old != new]
    if words[0] != words[1]:
        told.insert(parts[0][1] != parts[0][2], " → ".join(words))
    if alike := [f"{name} {old}" for name, old, new in parts if old == new]:
        told.append(f"{read_listed(alike)} as before")
    return f"{', '.join(told)}."


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A setting that is not the same in all plans, with its value in each."""

    field: str
    values: tuple[Any, ...]
    idle: bool
    """Whether it changes nothing in any of the plans."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """What a change adds to a plan's peak, its step and its run; None where one is not known."""

    device_bytes: int
    seconds: float | None
    usd_run: float | None
    share: float
    """The largest of them against the figure that it is added to, unsigned."""
    verdict: tuple[str, str]
    """The verdict's word before and after."""

    @property
    def matters(self) -> bool:
        """Whether it moves the verdict, or a figure by more than a hundredth."""
        return self.share >= MATTERS or self.verdict[0] != self.verdict[1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """What a difference between two plans does.

    ``changes`` are several settings only where no plan can have one of them without the others.
    ``alone`` is the first plan with them, ``last`` the second plan against itself without them;
    each is None where that plan cannot be.
    """

    changes: tuple[Change, ...]
    alone: Moved | None
    last: Moved | None

    @property
    def matters(self) -> bool:
        """Whether it matters in either."""
        return self.telling is not None and self.telling.matters

    @property
    def telling(self) -> Moved | None:
        """Of the two the one that moves more; None where neither plan can be."""
        known = [one for one in (self.alone, self.last) if one is not None]
        return max(known, key=lambda one: (one.matters, one.share), default=None)

    @property
    def share(self) -> float:
        """What it is ranked by."""
        return 0.0 if self.telling is None else self.telling.share


def compared(named: Sequence[tuple[str, Plan]], estimated: Estimated) -> tuple[Compared, ...]:
    """Each plan with its estimate."""
    found = []
    for name, plan in named:
        footprint = estimated(plan)
        paid = cost(footprint)
        figures = throughput(footprint, paid)
        found.append(Compared(name=name, footprint=footprint, paid=paid, figures=figures))
    return tuple(found)


def figures_of(one: Compared, read: Callable[[float], str] = read_bytes) -> dict[str, str]:
    """What a plan needs, takes and costs, by what it is called, with intervals.

    Args:
        one: the plan.
        read: bytes as the reader wants them, with the unit.
    """
    footprint, known = one.footprint, one.figures
    training, pool = training_of(footprint.phases), footprint.pool
    step = between_seconds(footprint, footprint.step_seconds) if one.runs else DOES_NOT_RUN
    unknown = "not known" if one.runs else DOES_NOT_RUN
    figure = {key: read_figure(found) for key, found in known.items()}
    host, price = footprint.host_bytes, one.paid.price_per_gpu_hour
    return {
        "Verdict": footprint.verdict.word if one.runs else why_not(footprint),
        "GPUs": f"{one.plan.gpus:,} × {facts_of(one.plan).gpu.name}",
        "GPU peak": f"{read(footprint.device_bytes)} of {read(footprint.budget_bytes)}",
        "Worst phase": footprint.worst.name,
        "Training needs": f"{read(training.training_bytes)} in {training.name}",
        "The engine takes": "nothing here" if pool is None else read(pool.share_bytes),
        "Host RAM per node": "not known" if host is None else read(host),
        "Step time": step,
        "Times assume": length_words.words(one.plan),
        "Tokens/s per GPU": figure.get("tokens_per_second_per_gpu", unknown),
        "The run": read_run(one.paid) if one.runs else DOES_NOT_RUN,
        "GPU-hours": figure.get("gpu_hours_run", unknown),
        "Cost of run": figure.get("usd_run", unknown),
        "Price per GPU-hour": "not listed" if price is None else read_usd(price),
    }


DOES_NOT_RUN = "does not run"


def why_not(footprint: Footprint) -> str:
    """The verdict's word, or that something else than memory stands in the way."""
    verdict = footprint.verdict
    return DOES_NOT_RUN if footprint.blockers and not verdict.incomplete else verdict.said


def between_seconds(of: Footprint | Phase, seconds: float | None) -> str:
    """Seconds with their interval."""
    if seconds is None:
        return "not known"
    return read_seconds_between(seconds, of.low_seconds, of.high_seconds)


def differing(plans: Sequence[Plan]) -> tuple[Difference, ...]:
    """The settings in which the plans are not all the same, in the order of a plan's fields."""
    idle = [without_effect(plan) for plan in plans]
    return tuple(
        Difference(
            field=field,
            values=values,
            idle=all(field in one for one in idle),
        )
        for field in FIELDS
        if len(set(values := tuple(getattr(plan, field) for plan in plans))) > 1
    )


def effects(before: Plan, after: Plan, estimated: Estimated) -> tuple[Effect, ...]:
    """What each difference between two plans does, what does most first."""
    first, second = estimated(before), estimated(after)
    found: list[Effect] = []
    stuck: list[Effect] = []
    for change in differences(dict(before), dict(after)):
        one = _effect(first, second, (change,), estimated)
        (found if one.alone or one.last else stuck).append(one)
    # A method needs its critic and a framework its version: pairs, then all that is left.
    while stuck:
        one = stuck.pop(0)
        pairs = (_effect(first, second, one.changes + two.changes, estimated) for two in stuck)
        place, pair = next(
            ((at, pair) for at, pair in enumerate(pairs) if pair.alone or pair.last), (-1, None)
        )
        if pair is None:
            rest = tuple(change for two in stuck for change in two.changes)
            pair, stuck = _effect(first, second, one.changes + rest, estimated), []
        else:
            del stuck[place]
        found.append(pair)
    found.sort(key=lambda one: (not one.matters, -one.share))
    return tuple(found)


def _effect(
    first: Footprint, second: Footprint, changes: tuple[Change, ...], estimated: Estimated
) -> Effect:
    alone, _ = try_plan({**first.plan.model_dump(), **{one.field: one.after for one in changes}})
    undone = {one.field: one.before for one in changes}
    without, _ = try_plan({**second.plan.model_dump(), **undone})
    return Effect(
        changes=changes,
        alone=None if alone is None else moved(first, estimated(alone)),
        last=None if without is None else moved(estimated(without), second),
    )


def read_moved(one: Moved, read: Callable[[float], str] = read_bytes) -> tuple[str, str, str, str]:
    """What a change adds to peak, step and cost, signed, and what becomes of the verdict."""
    before, after = one.verdict
    return (
        _signed(one.device_bytes, read),
        _signed(one.seconds, read_seconds),
        _signed(one.usd_run, read_usd),
        "" if before == after else f"{before} → {after}",
    )


def _signed(value: float | None, read: Callable[[float], str]) -> str:
    if value is None:
        return "—"
    text = read(abs(value))
    return "±0" if text == read(0) else f"{'+' if value > 0 else '−'}{text}"


def distinct(names: Sequence[str], taken: Collection[str] = ()) -> tuple[str, ...]:
    """Names that tell plans apart: a letter where there is none, and behind one that is taken."""
    found: list[str] = []
    for letter, name in zip("ABCDEFGH", names, strict=False):
        given = name or f"Plan {letter}"
        while given in found or given in taken:
            given += f" ({letter})"
        found.append(given)
    return tuple(found)


def moved(before: Footprint, after: Footprint) -> Moved:
    """What leads from one estimate to another."""
    own, paid = before.device_bytes, (cost(before).usd_run, cost(after).usd_run)
    added = after.device_bytes - own
    seconds, seconds_share = _added(before.step_seconds, after.step_seconds)
    usd, usd_share = _added(*paid)
    return Moved(
        device_bytes=added,
        seconds=seconds,
        usd_run=usd,
        share=max(abs(added) / max(own, 1), seconds_share, usd_share),
        verdict=(before.verdict.word, after.verdict.word),
    )


def _added(before: float | None, after: float | None) -> tuple[float | None, float]:
    if before is None or after is None:
        return None, 0.0
    return after - before, abs(after - before) / before if before else 0.0


def summary(plans: Sequence[Compared]) -> str:
    """Which of the plans run, which of those only just, and which is fastest and cheapest."""
    running = [one for one in plans if one.runs]
    count, names = len(plans), [one.name for one in running]
    if not running:
        return f"None of the {count} plans fits."
    if len(running) < count:
        others = read_listed([one.name for one in plans if not one.runs])
        few = len(running) == 1
        said = [f"Only {names[0]} fits" if few else f"{len(running)} plans fit, all but {others}"]
    else:
        said = ["Both plans fit" if count == 2 else f"All {count} plans fit"]
    tight = [one.name for one in running if one.footprint.verdict.word == "tight"]
    if tight:
        said[0] += f", {read_listed(tight)} tightly"
    if len(running) > 1:
        said += [
            *_least("fastest", [(one.name, one.seconds) for one in running]),
            *_least("cheapest", [(one.name, one.paid.usd_run) for one in running]),
            *_least("least memory", [(one.name, one.footprint.device_bytes) for one in running]),
        ]
    return f"{'; '.join(said)}."


def _least(word: str, values: Sequence[tuple[str, float | None]]) -> list[str]:
    """Whose value is the least; those within a hundredth of it are as good."""
    known = [(name, value) for name, value in values if value is not None]
    if len(known) < len(values) or not known:
        return []
    least = min(value for _, value in known)
    names = [name for name, value in known if value <= least * (1 + MATTERS)]
    return [] if len(names) == len(known) else [f"{word}: {read_listed(names)}"]
