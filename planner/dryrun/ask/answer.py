"""From a dry run's plain data to a footprint, beside the estimate of the same plan. No torch.

Phases that the step does not execute by design (loading, an engine's rollouts, weight sync,
checkpoints) are the estimate's, and say so. Any other phase that only one side has is an error.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

from planner.dryrun.ask.stand_in import StandIn, stand_in
from planner.estimate import estimate, judged
from planner.footprint import Footprint, Phase, StatedError
from planner.formulas.growth import EXPERTS_LEFT, bounded
from planner.formulas.host import BY_DEEPSPEED
from planner.phases.host import ROLE as HOST_ROLE
from planner.plan import Plan
from planner.plan.methods import method_of
from planner.term import OUTSIDE, Category, Term
from planner.values.step_phases import Moment, StepPhase

CUBLAS = "cuBLAS workspaces"
MEASURED = StatedError(
    low=None,
    high=None,
    source="not yet measured on a GPU; on a CPU dry runs meet real ones (docs/accuracy.md)",
)
FELL_BACK = StatedError(
    low=None,
    high=None,
    source="a fallback branch ran in place of a GPU's: the true figure may be well below",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One phase's requested bytes: closed form and dry run; None where one has no such phase."""

    phase: str
    closed_bytes: int | None
    dry_bytes: int | None
    executed: bool
    """Whether the step is to execute the phase."""

    @property
    def difference(self) -> float | None:
        """Closed form against dry run, signed and relative."""
        if not self.dry_bytes or self.closed_bytes is None:
            return None
        return self.closed_bytes / self.dry_bytes - 1

    @property
    def error(self) -> str:
        """A sentence where one side lacks the phase though both should have it; else empty."""
        if self.closed_bytes is None:
            return f"{self.phase}: the step ran this phase, but the closed form has no such phase."
        if self.dry_bytes is None and self.executed:
            return f"{self.phase}: the closed form has this phase, but the step did not run it."
        return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DryRun:
    """The answer of a dry run, with the estimate it checks; answers can be kept by it."""

    footprint: Footprint
    estimate: Footprint
    comparisons: tuple[Comparison, ...]
    phases: tuple[Mapping[str, Any], ...]
    """As the worker wrote them: shares and the largest tensors at each peak."""
    timeline: tuple[Mapping[str, Any], ...]
    notes: tuple[str, ...]
    versions: Mapping[str, str]
    seconds: float
    standing: StandIn
    """What was executed in place of the plan."""
    lengths: tuple[Mapping[str, Any], ...] = ()
    """Reserved bytes over steps of different lengths, by order; empty when not asked for."""
    alloc_retries: int = 0
    """How often a step gives back cached memory to stay within the card (PyTorch's
    ``num_alloc_retries``)."""
    out_of_memory: bool = False
    """Whether the allocator runs out even so; then the figures are those of an endless card."""

    def __hash__(self) -> int:
        """By plan, since mappings have none: advice that is counted from it is kept by it."""
        return hash(self.footprint.plan)

    @property
    def fallback(self) -> bool:
        """Whether another branch ran than a GPU's, so that no measured error holds."""
        return _fallback(self.notes)

    @property
    def errors(self) -> tuple[str, ...]:
        """A sentence for each phase that one side lacks."""
        return tuple(one.error for one in self.comparisons if one.error)

    @property
    def otherwise(self) -> tuple[str, ...]:
        """Why its figures are not the plan's own; empty where they lead, the closed form beside.

        Another loss or layout ran, other kernels than a GPU's, or not the plan's phases.
        """
        fallback = [note for note in self.notes if _fallback((note,))]
        executed = any(phase.source == "dry run" for phase in self.footprint.phases)
        none = () if executed else ("The dry run executed no phase of this plan.",)
        return (*self.standing.otherwise, *fallback, *self.errors, *none)


def answer(plan: Plan, found: Mapping[str, Any]) -> DryRun:
    """The dry run of a plan from what the worker found."""
    closed = estimate(plan)
    standing = stand_in(plan, found.get("refused", ""))
    executed = [phase for phase in found["phases"] if phase["phase"] not in standing.beside]
    by_name = {phase["phase"]: phase for phase in executed}
    source = "dry run: torch {torch}, transformers {transformers}".format(**found["versions"])
    # What the executed step is compared with has no instants that it lacks.
    checked = estimate(plan, without=standing.lacks) if standing.lacks else closed
    estimated = {phase.name: phase.requested_bytes for phase in checked.phases}
    unforeseen = [_unforeseen(name, closed) for name in by_name if name not in estimated]
    dry = tuple(
        _phase(phase, by_name[phase.name], standing, source) if phase.name in by_name else phase
        for phase in (*checked.phases, *unforeseen)
    )
    both = zip(closed.phases, dry, strict=False)
    higher = (_higher(one, other, standing.lacks) for one, other in both)
    phases = (*higher, *dry[len(closed.phases) :])
    comparisons = tuple(
        Comparison(
            phase=phase.name,
            closed_bytes=estimated.get(phase.name),
            dry_bytes=phase.requested_bytes if phase.name in by_name else None,
            executed=phase.executed and phase.name not in standing.left_out,
        )
        for phase in dry
    )
    notes = tuple(dict.fromkeys((*standing.notes, *found["notes"])))
    footprint = replace(
        closed,
        source="dry run",
        phases=phases,
        error=FELL_BACK if _fallback(notes) else MEASURED,
        alloc_retries=int(found.get("alloc_retries", 0)),
        warnings=(*closed.warnings, *(one.error for one in comparisons if one.error)),
    )
    return DryRun(
        footprint=judged(footprint),
        estimate=closed,
        comparisons=comparisons,
        phases=tuple(executed),
        timeline=tuple(found["timeline"]),
        notes=notes,
        versions=found["versions"],
        seconds=float(found["seconds"]),
        standing=standing,
        lengths=tuple(found.get("lengths", ())),
        alloc_retries=int(found.get("alloc_retries", 0)),
        out_of_memory=bool(found.get("out_of_memory")),
    )


def _unforeseen(name: str, closed: Footprint) -> Phase:
    """A phase that no estimate has: of the closed form's terms, those that all phases hold."""
    ours = [phase.terms for phase in closed.phases if phase.rank == "trainer"]
    known = method_of(closed.plan).phases
    return Phase(
        kind=next((one for one in known if one.name == name), StepPhase(name, Moment(name), None)),
        role="",
        rank="trainer",
        instant="",
        terms=tuple(term for term in ours[0] if all(term in terms for terms in ours)),
        requested_bytes=0,
        allocated_bytes=0,
        reserved_bytes=0,
        device_bytes=0,
        host_bytes=None,
        seconds=None,
    )


def _higher(closed: Phase, dry: Phase, lacks: frozenset[str]) -> Phase:
    """The phase as it ran, unless it is highest at an instant that the executed step lacks."""
    lacking = closed.instant in lacks and closed.requested_bytes > dry.requested_bytes
    return closed if lacking else dry


def _fallback(notes: tuple[str, ...]) -> bool:
    return any("fallback" in note.lower() for note in notes)


def _phase(closed: Phase, found: Mapping[str, Any], standing: StandIn, source: str) -> Phase:
    """The executed phase, with the estimate's terms for what is not in the step."""
    plan = standing.plan
    term = partial(Term, role="process", inputs={})
    terms = [
        term(
            name=f"{share['category']} in the dry run",
            role=share["role"] or "process",
            category=cast("Category", share["category"]),
            bytes=share["bytes"],
            formula="sum of live storages",
            source=source,
        )
        for share in found["shares"]
        if share["category"] not in standing.by_formula
    ]
    if found["scratch_bytes"]:
        terms.append(
            term(
                name=f"scratch of {found['scratch_op']}",
                category="buffers",
                bytes=found["scratch_bytes"],
                formula="kernel workspace table",
                source="planner/dryrun/run/workspaces.json",
            )
        )
    taken = [term for term in closed.terms if _by_formula(term, standing)]
    requested = sum(int(t.bytes) for t in (*terms, *taken) if t.category not in OUTSIDE)
    # The allocator replayed what was executed, with the workspaces; the rest is on top of it.
    more = requested - found["requested_bytes"]
    outside = sum(int(term.bytes) for term in closed.terms if term.category in OUTSIDE)
    reserved = found["reserved_bytes"] + more
    terms += taken
    if reserved > requested:
        terms.append(
            term(
                name="rounding, cached and fragmented memory",
                category="allocator",
                bytes=reserved - requested,
                formula="reserved - requested",
                inputs={"reserved": reserved, "requested": requested},
                source="the step's events in a simulated caching allocator (docs/allocator.md)",
            )
        )
    # No step of one routing shows what others leave, which bounds this figure, too.
    left = [one.inputs for one in closed.terms if one.name == EXPERTS_LEFT.name]
    terms += [bounded(EXPERTS_LEFT, of, of["card"], reserved + outside) for of in left]
    # Processes, what pinned buffers are rounded up to, and DeepSpeed's bound are the closed form's.
    ours = HOST_ROLE, BY_DEEPSPEED.name
    beside = [one for one in closed.terms if one.host and (one.role in ours or one.name in ours)]
    host = int(found["host_bytes"]) * min(plan.gpus_per_node, plan.gpus)
    host += sum(int(term.bytes) for term in beside)
    return replace(
        closed,
        instant=f"{found['op']} in {found['module'] or 'the step'}",
        terms=(*terms, *beside),
        requested_bytes=requested,
        allocated_bytes=found["allocated_bytes"] + more,
        reserved_bytes=reserved,
        device_bytes=reserved + outside,
        host_bytes=max(host, closed.host_bytes or 0),
        inherited_bytes=found["inherited_bytes"],
        source="dry run",
    )


def _by_formula(term: Term, standing: StandIn) -> bool:
    named = term.name == CUBLAS or term.name in standing.added
    by_formula = term.category in standing.by_formula and term.name not in standing.executed
    formula = term.category in OUTSIDE or by_formula
    return not term.host and (named or formula)
