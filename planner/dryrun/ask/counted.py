"""Plans counted from a dry run: the closed form's figures, and what the dry run adds to them.

A dry run is of one plan. What an edit of that plan does is the closed form's difference; it is
counted from the dry run's figure, so that what shows the one does not advise by the other. No
torch.
"""

from __future__ import annotations

from dataclasses import replace

from planner.dryrun.ask.answer import MEASURED, DryRun
from planner.estimate import judged
from planner.footprint import Footprint, Phase
from planner.plan import Plan
from planner.term import Term

WORLD = ("model", "config", "method", "framework", "framework_version", "torch_version", "gpu")
"""Fields in which a plan that is counted from a dry run does not differ from the dry run's."""
NAME = "what the dry run adds to the closed form"


def counts(found: DryRun, plan: Plan) -> bool:
    """Whether a plan's figures may be counted from this dry run."""
    own = found.footprint.plan
    return not found.otherwise and all(getattr(plan, f) == getattr(own, f) for f in WORLD)


def counted(found: DryRun, footprint: Footprint) -> Footprint:
    """A plan's estimate with what the dry run adds to each of its phases, judged anew.

    Of the dry run's own plan these are the dry run's figures, by the estimate's terms and one more.
    """
    closed = {(phase.name, phase.rank): phase for phase in found.estimate.phases}
    ran = (phase for phase in found.footprint.phases if phase.source == "dry run")
    pairs = {key: (closed[key], dry) for dry in ran for key in [(dry.name, dry.rank)]}
    phases = tuple(
        _counted(phase, *pairs[key]) if (key := (phase.name, phase.rank)) in pairs else phase
        for phase in footprint.phases
    )
    # A step that freed its cache to stay within the card does so again, unless it needs less.
    as_much = max(phase.device_bytes for phase in phases) >= found.footprint.device_bytes
    return judged(
        replace(
            footprint,
            source="dry run" if footprint.plan == found.footprint.plan else "estimate",
            phases=phases,
            error=MEASURED,
            alloc_retries=found.footprint.alloc_retries if as_much else 0,
        )
    )


def _counted(phase: Phase, closed: Phase, dry: Phase) -> Phase:
    """No total falls below one that it contains, and no bound beyond its figure."""

    def moved(total: str, least: int = 0) -> int:
        """A total of the phase with what the dry run adds to it."""
        was, now, own = (getattr(one, f"{total}_bytes") or 0 for one in (closed, dry, phase))
        return int(max(own + now - was, least))

    requested = moved("requested")
    allocated = moved("allocated", requested)
    reserved = moved("reserved", allocated)
    more = reserved - phase.reserved_bytes
    device = phase.device_bytes + more
    term = Term(
        name=NAME,
        role="process",
        category="allocator",
        bytes=more,
        low=min(moved("low"), device) - phase.low_bytes,
        high=moved("high", device) - phase.high_bytes,
        formula="dry run - closed form",
        inputs={"closed form": phase.reserved_bytes, "dry run": reserved},
        source="the dry run's reserved bytes in this phase",
        ignores="which tensors it is: Check with a dry run lists them",
    )
    host = moved("host") - (phase.host_bytes or 0)
    more_host = term._replace(bytes=host, host=True, low=None, high=None)
    return replace(
        phase,
        terms=(*phase.terms, term, *([more_host] if host > 0 else [])),
        requested_bytes=requested,
        allocated_bytes=allocated,
        reserved_bytes=reserved,
        device_bytes=device,
        inherited_bytes=min(moved("inherited"), reserved),
        host_bytes=None if phase.host_bytes is None else phase.host_bytes + max(host, 0),
        source="dry run",
    )
