"""When nothing fits: the closest plans and what each lacks, and the machine that would do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from planner import catalog
from planner.cost import cost
from planner.estimate import estimate
from planner.footprint import Footprint
from planner.plan import Plan, try_plan
from planner.plan.chosen import differences
from planner.plan.facts import facts_of
from planner.search.found import Miss
from planner.search.pool import Pool
from planner.search.space import Space
from planner.search.wish import Wish
from planner.units import read_bytes, read_count, read_seconds, read_usd

MOST = 5
TIMES_GPUS = 8
"""How many times as many GPUs are looked at."""

Winner = Callable[[Plan, Wish], Plan | None]
"""The balanced plan of a wish, or the aggressive one; None where nothing fits."""


def misses(plan: Plan, wish: Wish, space: Space, pool: Pool, winner: Winner) -> tuple[Miss, ...]:
    """What would do, then the closest plans; limits of the wish are left out of what would do."""
    return (*_would_do(plan, wish, winner), *_closest(plan, space, pool))


def _closest(plan: Plan, space: Space, pool: Pool) -> Iterator[Miss]:
    """The plans that lack least, each for another reason."""
    seen: set[str] = set()
    for one in pool.misses:
        made = space.made(one.changes)
        if made is None:
            continue
        footprint = estimate(made)
        reason = footprint.blockers[0] if footprint.blockers else footprint.worst.name
        if reason in seen:
            continue
        seen.add(reason)
        yield _miss(plan, footprint, lacks(footprint))
        if len(seen) >= MOST:
            return


def lacks(footprint: Footprint) -> str:
    """What is in the way of a plan: a blocker, bytes, or the wish's limits."""
    if footprint.blockers:
        return footprint.blockers[0]
    over = footprint.device_bytes - footprint.budget_bytes
    if over > 0:
        return f"{read_bytes(over)} over in {footprint.worst.name}"
    paid = cost(footprint)
    usd = "unknown" if paid.usd_run is None else read_usd(paid.usd_run)
    hours = "unknown" if paid.hours_run is None else read_seconds(paid.hours_run * 3600)
    return f"it fits, but takes {hours} and {usd}: over the deadline or the budget"


def _miss(plan: Plan, footprint: Footprint, said: str) -> Miss:
    return Miss(
        changes={one.field: one.after for one in differences(dict(plan), dict(footprint.plan))},
        lacks=said,
        device_bytes=footprint.device_bytes,
        budget_bytes=footprint.budget_bytes,
    )


def _would_do(plan: Plan, wish: Wish, winner: Winner) -> Iterator[Miss]:
    """The fewest GPUs of the plan's card, and the smallest card in as many."""
    bare = replace(wish, goal="fit", cards=(), budget_usd=0.0, deadline_hours=0.0)
    most = TIMES_GPUS * max(plan.gpus, wish.max_gpus, plan.gpus_per_node)
    more = winner(plan, replace(bare, goal="fewest-gpus", max_gpus=most))
    if more is not None:
        count = read_count(more.gpus, "GPU")
        yield _miss(plan, estimate(more), f"fits on {count} of this kind, not on fewer")
    for key in _larger(plan):
        values = {"gpu": key, "gpu_bytes": 0, "price_per_gpu_hour": 0.0}
        other, _ = try_plan({**plan.model_dump(), **values})
        fits = None if other is None else winner(other, bare)
        if fits is not None:
            name = facts_of(fits).gpu.name
            count = read_count(fits.gpus, "GPU")
            yield _miss(plan, estimate(fits), f"the smallest card that fits on {count}: {name}")
            return


def _larger(plan: Plan) -> list[str]:
    """Cards with more room than the plan's, the smallest first; one of each size."""
    own = facts_of(plan).budget_bytes
    found: dict[int, str] = {}
    for card in catalog.gpus():
        if card.budget_bytes and card.budget_bytes > own and card.bf16_flops_per_second:
            found.setdefault(card.budget_bytes // 2**30, card.key)
    return [found[size] for size in sorted(found)]
