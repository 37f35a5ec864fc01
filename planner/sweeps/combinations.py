"""Combinations of choices, each with its grid of sizes: what each is judged by, made but once.

A sweep over choices is a list of plans that differ in fields whose values decide branches. Of two
of them most phases are the same; what they are made of is looked up by what it read
(:mod:`planner.phases.memory`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np

from planner.cautions.assumptions import left_out
from planner.cost import gpu_hours, price_of
from planner.estimate import unresolved
from planner.formulas.growth import may_grow
from planner.formulas.held import kind_of
from planner.formulas.throughput import (
    HARDWARE_FLOPS_UTILIZATION,
    MODEL_FLOPS_UTILIZATION,
    TOKENS_PER_SECOND,
)
from planner.numeric import Num, total
from planner.phases import engine
from planner.phases.baseline import groups
from planner.phases.experts import experts_left
from planner.phases.lost_gradients import loses_gradients
from planner.phases.memory import Memory, Past, Same
from planner.phases.phase import PhasePlan
from planner.phases.scene import Scene
from planner.phases.watched import Begun, Varying, WatchedPlan, begin, varying_parts, watched_scene
from planner.plan import Plan
from planner.plan.facts import Facts, fact_problems, facts_of, shape_broken
from planner.plan.rules import rules_of, untrained
from planner.rule import Rule
from planner.setup.coverage import too_long, uncovered
from planner.speeds import Speeds
from planner.sweeps.grid import Grid, Mesh
from planner.term import Bundle, Instant, Standing
from planner.timing.done import done_in, makes_update
from planner.timing.doubt import doubt_of, of_step
from planner.timing.phase import pass_seconds, work_terms
from planner.timing.step import Spent, seconds_of, step_seconds
from planner.totals.levels import MeshAdder
from planner.totals.peaks import Peak, Stood, above, bounds, peak_of
from planner.values.step_phases import StepPhase

UNKNOWN = float("nan")
KEPT = 20_000
"""Phases and bundles of which that is kept; more have little in common."""

Bundles = tuple[Stood, ...]
Made = TypeVar("Made")


class Slot(NamedTuple):
    """A phase of a combination: its instants by what they stand on."""

    kind: StepPhase
    rank: str
    pairs: tuple[tuple[Peak, Bundles], ...]


class Combination(NamedTuple):
    """What the grid of one combination is judged by."""

    grid: Grid
    kind: Hashable
    """What combinations that are judged together have in common."""
    slots: tuple[Slot, ...]
    figures: Mapping[str, Num]


class Combinations:
    """The combinations of one sweep, which share what they can."""

    def __init__(
        self, mesh: Mesh, varying: Collection[str] = (), speeds: Speeds | None = None
    ) -> None:
        """``varying`` are fields in which the plans differ, those of the mesh left out."""
        self._mesh, self._varying, self._speeds = mesh, frozenset(varying), speeds
        self._past: Past = defaultdict(dict)
        self._adders = {expandable: MeshAdder(expandable) for expandable in (False, True)}
        self._known: dict[tuple[Hashable, int], tuple[object, Any]] = {}

    def _once(self, key: Hashable, of: object, make: Callable[[], Made]) -> Made:
        """What was made of an object under a key; it is kept, so that no other has its id."""
        known = self._known.get((key, id(of)))
        if known is None:
            if len(self._known) > KEPT:
                self._known.clear()
            known = self._known[key, id(of)] = of, make()
        return cast("Made", known[1])

    def judged_by(self, plans: Sequence[Plan]) -> list[Combination | None]:
        """What each plan of the sweep is judged by; None where it is no plan, whatever its sizes.

        Plans need not have been held to the rules.
        """
        begun = [self._begun(plan) for plan in plans]
        possible = [one for one, _ in begun if one is not None]
        if not possible:
            return [None] * len(plans)
        parts = varying_parts(possible)
        return [None if one is None else self._made(one, valid, parts) for one, valid in begun]

    def _begun(self, plan: Plan) -> tuple[Begun | None, Num]:
        """A plan as far as its scene's parts, and where it is possible."""
        facts = self._facts_of(plan)
        if facts is None:
            return None, False
        begun = begin(Grid(plan, self._mesh), self._varying, facts, self._past)
        valid = self._valid(begun)
        if valid is False:
            return None, False
        begun.make()
        return begun, valid

    def _made(self, begun: Begun, valid: Num, varying: Varying) -> Combination | None:
        scene, memory, grid = watched_scene(begun, varying), begun.memory, begun.plan
        once: Any = WatchedPlan(grid.plan, self._varying, memory)
        if memory.ask((uncovered,), lambda: bool(uncovered(once, scene.setup, scene.facts))):
            return None
        long = memory.ask((too_long,), lambda: too_long(once, scene.setup, scene.facts))
        valid = valid & ~np.asarray(long) if np.any(long) else valid
        phases = unresolved(scene)
        slots = tuple(self._slot(scene, phase) for phase in phases)
        shape = tuple((slot.kind, slot.rank, len(slot.pairs)) for slot in slots)
        experts = experts_left(scene)
        kind = (shape, kind_of(grid), grid.empty_cache, may_grow(grid), bool(experts))
        beside = _figures(scene, grid, phases)
        return Combination(grid, kind, slots, {"valid": valid, **experts, **beside})

    def _facts_of(self, plan: Plan) -> Facts | None:
        """The catalog's rows; None where a name is not known."""
        try:
            facts = facts_of(plan)
        except ValueError:
            return None
        # One object for all combinations with a card, as those without a benchmark have.
        return self._once("facts", facts, lambda: facts_of(plan, self._speeds))

    def _valid(self, begun: Begun) -> Num:
        """Where the rules hold: False, or True, or an array of the grid's rows."""
        memory, facts = begun.memory, begun.facts
        seen: Any = begun.seen
        once: Any = WatchedPlan(begun.plan.plan, self._varying, memory)
        if memory.ask((fact_problems,), lambda: bool(fact_problems(once) or untrained(once))):
            return False
        rules = memory.ask((rules_of,), lambda: rules_of(seen))
        result, left = self._once("rules", rules, lambda: _open(rules, seen, memory))
        for rule in left:
            broken = _broken(rule, seen, memory)
            if broken is True:
                return False
            if broken is not False:
                result = result & ~broken
        broken = memory.ask((shape_broken,), lambda: shape_broken(seen, facts))
        if isinstance(broken, np.ndarray):
            return result & ~broken
        return False if broken else result

    def _slot(self, scene: Scene, phase: PhasePlan) -> Slot:
        expandable = scene.plan.expandable_segments
        peaks = self._once(
            ("peaks", expandable), phase, lambda: self._peaks_of(phase, expandable)
        )
        pairs = tuple(
            (peak, () if standing is None else self._bundle(scene, standing, expandable))
            for standing, peak in peaks
        )
        return Slot(phase.kind, phase.rank, pairs)

    def _peaks_of(self, phase: PhasePlan, expandable: bool) -> list[tuple[Standing | None, Peak]]:
        """The peaks of a phase's instants by what they stand on, that left out."""
        by_standing: dict[Standing | None, list[tuple[int, Instant]]] = {}
        for order, instant in enumerate(phase.instants):
            standings = [one for one in instant.shared if isinstance(one, Standing)]
            assert len(standings) <= 1, "an instant stands at one moment"
            standing = standings[0] if standings else None
            own = instant._replace(shared=tuple(one for one in instant.shared if one != standing))
            by_standing.setdefault(standing, []).append((order, own))
        adder = self._adders[expandable]
        return [
            (
                standing,
                peak_of(
                    [adder.totals(instant) for _, instant in instants],
                    [above(instant) for _, instant in instants],
                    [bounds(instant.everything) for _, instant in instants],
                    [order for order, _ in instants],
                ),
            )
            for standing, instants in by_standing.items()
        ]

    def _bundle(self, scene: Scene, standing: Standing, expandable: bool) -> Bundles:
        found: Bundles = ()
        memory = cast("Memory", scene.memory)
        for make, of in groups(standing):
            bundles = memory.ask((make, *of), partial(_tuple, make, scene, of))
            found += self._once(
                ("bundles", expandable), bundles, partial(self._stood, bundles, expandable)
            )
        return found

    def _stood(self, bundles: tuple[Bundle, ...], expandable: bool) -> Bundles:
        def made(bundle: Bundle) -> Stood:
            return (*self._adders[expandable].totals(Instant("", bundle)), *bounds(bundle))

        key = "stood", expandable
        return tuple(self._once(key, bundle, partial(made, bundle)) for bundle in bundles)


def _tuple(make: Callable[..., Iterable[Bundle]], scene: Scene, of: tuple[Any, ...]) -> Any:
    return tuple(make(scene, *of))


def _open(rules: tuple[Rule, ...], seen: Any, memory: Memory) -> tuple[Num, list[Rule]]:
    """What rules that read nothing that varies come to, and the others."""
    result: Num = True
    left = []
    for rule in rules:
        if memory.leaf((rule.broken,), lambda rule=rule: _plain(rule.broken(seen))).reads:  # type: ignore[misc]
            left.append(rule)
        else:
            broken = _broken(rule, seen, memory)
            result = result & (~broken if isinstance(broken, np.ndarray) else not broken)
    return result, left


def _broken(rule: Rule, seen: Any, memory: Memory) -> Num:
    return memory.ask((rule.broken,), lambda: _plain(rule.broken(seen)))


def _plain(broken: Num) -> Num:
    """A truth value, or an array of them."""
    return np.asarray(broken, dtype=bool) if np.ndim(broken) else bool(broken)


def _figures(scene: Scene, grid: Grid, phases: tuple[PhasePlan, ...]) -> dict[str, Num]:
    """What is known of a combination beside its peaks: numbers, or arrays of its mesh."""
    memory = cast("Memory", scene.memory)

    def ask(make: Callable[..., Made], *of: Any) -> Made:
        key = (make, *map(Same, of))
        return memory.ask(key, lambda: make(scene, *of))  # type: ignore[no-any-return]

    each_step = [phase for phase in phases if phase.per_step]
    steps = [
        Spent(phase.kind, phase.rank, *ask(_seconds, phase.work, phase.times))
        for phase in each_step
    ]
    step = step_seconds(grid.rollout_overlap, steps)
    seconds: Num = UNKNOWN if step is None else step
    updating = [phase for phase in phases if makes_update(phase)]
    done = ask(done_in, *(phase.work for phase in updating))
    kinds = {phase.kind for phase in updating}
    updates = [one.seconds for one in steps if one.kind in kinds]
    known = [one for one in updates if one is not None]
    doubt = ask(doubt_of)
    between, elsewhere = ask(pass_seconds) or (UNKNOWN, UNKNOWN)
    whole = of_step(doubt, grid.rollout_overlap, seconds, phases)
    least, most = between * doubt.low, between * doubt.high
    timed: dict[str, Num] = {
        one.kind.name: UNKNOWN if one.seconds is None else one.seconds for one in steps
    }
    for phase in phases:
        if phase.occasions:
            each, _ = ask(_seconds, phase.work, phase.times)
            timed[phase.kind.name] = UNKNOWN if each is None else each
            each = phase.occasions * timed[phase.kind.name]
            own = ask(doubt_of, phase.kind, phase.times)
            between, least, most = between + each, least + each * own.low, most + each * own.high
    price, peak = ask(_price), ask(_peak_flops)
    made = cast("Plan", grid)
    step_hours, run_hours = gpu_hours(made, seconds, between, elsewhere)
    ends = {"low": (whole.low, least), "high": (whole.high, most)}
    bounds: dict[str, Num] = {}
    for end, (by, around) in ends.items():
        bounds[f"{end}_between_seconds"] = around
        _, hours = gpu_hours(made, seconds * by, around, elsewhere * by)
        bounds[f"{end}_gpu_hours_run"] = hours
    update = ask(doubt_of, updating[0].kind) if updating else doubt
    used = None
    if peak is not None and known and len(known) == len(updates):
        used = {"update_seconds": sum(known), "peak_flops_per_second": peak}
    return {
        "budget_bytes": scene.facts.budget_bytes,
        "host_limit_bytes": grid.host_ram_per_node or np.inf,
        "blocked": ask(_blocked),
        "incomplete": bool(ask(left_out)),
        "engine_bytes": ask(_pool),
        "step_seconds": seconds,
        "between_seconds": between,
        "low": whole.low,
        "high": whole.high,
        "update_low": update.low,
        "update_high": update.high,
        "tokens_per_second_per_gpu": TOKENS_PER_SECOND(
            tokens=done.tokens, step_seconds=seconds, gpus=grid.gpus
        ),
        "mfu": UNKNOWN
        if used is None
        else MODEL_FLOPS_UTILIZATION(model_flops=done.model_flops, **used),
        "hfu": UNKNOWN
        if used is None
        else HARDWARE_FLOPS_UTILIZATION(performed_flops=done.performed_flops, **used),
        "gpu_hours_per_step": step_hours,
        "gpu_hours_run": run_hours,
        **bounds,
        "usd_per_gpu_hour": UNKNOWN if price is None else price,
        **{f"seconds: {name}": each for name, each in timed.items()},
    }


def _seconds(scene: Scene, *of: Any) -> tuple[Num | None, Num]:
    return seconds_of(work_terms(scene, *of))


def _price(scene: Scene) -> float | None:
    return price_of(scene.plan).per_gpu_hour


def _peak_flops(scene: Scene) -> float | None:
    return scene.facts.gpu.flops_per_second(scene.plan.dtype)


def _pool(scene: Scene) -> Num:
    held = engine.held(scene, "awake")
    return total([term.bytes for term in held if term.category == "engine" and not term.host])


def _blocked(scene: Scene) -> Num:
    return (np.asarray(engine.shortfall_bytes(scene)) > 0) | loses_gradients(scene)
