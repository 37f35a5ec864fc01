"""Plans counted from a dry run: the closed form's figures, and what the dry run adds to them.

A dry run is of one plan. What an edit of that plan does is the closed form's difference; it is
counted from the dry run's figure, so that what shows the one does not advise by the other. No
torch.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from planner.dryrun.ask.answer import MEASURED, DryRun
from planner.estimate import judged
from planner.footprint import Footprint, Phase
from planner.plan import Plan
from planner.term import Term

WORLD = ("model", "config", "method", "framework", "framework_version", "torch_version", "gpu")
"""Fields in which a plan that is counted from a dry run does not differ from the dry run's."""
NAME = "what the dry run adds to the closed form"


class Offset(NamedTuple):
    """Bytes that a dry run adds to one phase of the closed form; below zero where it has less.

    ``least`` and ``most`` are what it adds to the distances of the bounds of the device bytes.
    """

    requested: int
    allocated: int
    reserved: int
    inherited: int
    host: int
    least: int
    most: int


class Offsets(NamedTuple):
    """What a dry run adds, by phase and rank: a value, so that answers can be kept by it."""

    plan: Plan
    phases: tuple[tuple[tuple[str, str], Offset], ...]
    device_bytes: int
    retries: int

    def hold(self, plan: Plan) -> bool:
        """Whether a plan may be counted from this dry run."""
        return all(getattr(plan, field) == getattr(self.plan, field) for field in WORLD)


def offsets_of(found: DryRun) -> Offsets | None:
    """What a dry run adds to the closed form; None where its figures do not lead."""
    if found.otherwise:
        return None
    closed = {(phase.name, phase.rank): phase for phase in found.estimate.phases}
    executed = [phase for phase in found.footprint.phases if phase.source == "dry run"]
    keyed = tuple(
        (key, _offset(closed[key], dry)) for dry in executed for key in [(dry.name, dry.rank)]
    )
    return Offsets(
        found.footprint.plan, keyed, found.footprint.device_bytes, found.footprint.alloc_retries
    )


def _offset(closed: Phase, dry: Phase) -> Offset:
    below, above = (
        [one.device_bytes - one.low_bytes for one in (dry, closed)],
        [one.high_bytes - one.device_bytes for one in (dry, closed)],
    )
    return Offset(
        requested=dry.requested_bytes - closed.requested_bytes,
        allocated=dry.allocated_bytes - closed.allocated_bytes,
        reserved=dry.reserved_bytes - closed.reserved_bytes,
        inherited=dry.inherited_bytes - closed.inherited_bytes,
        host=(dry.host_bytes or 0) - (closed.host_bytes or 0),
        least=below[0] - below[1],
        most=above[0] - above[1],
    )


def counted(offsets: Offsets, footprint: Footprint) -> Footprint:
    """A plan's estimate with what the dry run adds to each of its phases, judged anew.

    Of the dry run's own plan these are the dry run's figures, by the estimate's terms and one more.
    """
    added = dict(offsets.phases)
    phases = tuple(
        _counted(added[key], phase) if (key := (phase.name, phase.rank)) in added else phase
        for phase in footprint.phases
    )
    # A step that gave cached memory back to stay within the card does so again, unless it needs
    # less.
    as_much = max(phase.device_bytes for phase in phases) >= offsets.device_bytes
    return judged(
        replace(
            footprint,
            source="dry run" if footprint.plan == offsets.plan else "estimate",
            phases=phases,
            error=MEASURED,
            alloc_retries=offsets.retries if as_much else 0,
        )
    )


def _counted(added: Offset, phase: Phase) -> Phase:
    """No total falls below one that it contains."""
    requested = max(phase.requested_bytes + added.requested, 0)
    allocated = max(phase.allocated_bytes + added.allocated, requested)
    reserved = max(phase.reserved_bytes + added.reserved, allocated)
    more = reserved - phase.reserved_bytes
    term = Term(
        name=NAME,
        role="process",
        category="allocator",
        bytes=more,
        low=more - max(added.least, phase.low_bytes - phase.device_bytes),
        high=more + max(added.most, phase.device_bytes - phase.high_bytes),
        formula="dry run - closed form",
        inputs={"closed form": phase.reserved_bytes, "dry run": reserved},
        source="the dry run's reserved bytes in this phase",
        ignores="which tensors it is: Check with a dry run lists them",
    )
    terms = (*phase.terms, term)
    host = phase.host_bytes
    if host is not None and added.host > 0:
        host += added.host
        terms = (*terms, term._replace(bytes=added.host, host=True, low=None, high=None))
    return replace(
        phase,
        terms=terms,
        requested_bytes=requested,
        allocated_bytes=allocated,
        reserved_bytes=reserved,
        device_bytes=phase.device_bytes + more,
        inherited_bytes=min(max(phase.inherited_bytes + added.inherited, 0), reserved),
        host_bytes=host,
        source="dry run",
    )
