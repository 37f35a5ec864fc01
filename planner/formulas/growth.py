"""What the cache grows to over steps of different lengths, which no step of one length shows.

Blocks that a short step left do not fit a longer one, which takes segments of its own; next time
both are cached. Nothing is given back but when the card is full: then whole free segments go, and
the run goes on. So growth ends no run, and the card bounds it. How fast it comes depends on the
order of lengths: half of the replays of a kind grew by nothing to 0.4 of what comes and goes in a
step, the worst by 0.4 to 1.1; none by more than 0.22 where the cache is emptied between phases or
segments expand. It is an upper bound therefore, with nothing at the centre.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from planner.formulas.formula import Formula
from planner.formulas.held import Kind, kind_of
from planner.numeric import Num, maximum
from planner.plan import Plan
from planner.term import Term

GROWTH: Mapping[Kind, int] = {
    Kind(False, False, False, False): 400,
    Kind(False, False, True, False): 708,
    Kind(False, True, False, False): 772,
    Kind(False, True, True, False): 982,
    Kind(True, False, False, False): 381,
    Kind(True, False, True, False): 846,
    Kind(True, True, False, False): 802,
    Kind(True, True, True, False): 975,
}
"""The most of each kind's replays, in thousandths of :func:`moving`."""

GROWN = Formula(
    "grown over steps of different lengths",
    "counted * maximum(minimum(most, card - reached), 0)",
    category="allocator",
    source="replays of dry runs through the simulated allocator (accuracy/measured/held.json): ten "
    "steps of 30 to 100% of the caps, in three drawn orders",
    why="A step with longer rows allocates new segments beside those that shorter steps left. The "
    "card's memory bounds this growth: when it is full, the allocator returns free segments before "
    "a request fails.",
    ignores="an engine that wakes beside it, which takes nothing back: empty the cache before",
)

EXPERTS_LEFT = Formula(
    "left by experts of other sizes",
    "counted * rows * (3 * hidden + 4 * expert_width) * value_bytes * minimum("
    "passes * layers * micro_batches, "
    "maximum(card - reached, 0) // (rows * (3 * hidden + 4 * expert_width) * value_bytes) + 1)",
    category="allocator",
    source="transformers 4.52 models/mixtral/modeling_mixtral.py, MixtralSparseMoeBlock: a loop "
    "over experts, whose tensors have the tokens that were routed to them: copied, both "
    "projections up, activated, product, projected down, weighted; best fit of "
    "c10/cuda/CUDACachingAllocator.cpp, torch 2.13.0",
    why="In every micro-batch and layer each expert gets a different number of tokens. At worst no "
    "layer of an update can reuse a block that an earlier layer left. The card's memory bounds "
    "this growth: when it is full, free memory is returned in pieces, and the next layer's experts "
    "may not fit into the pieces.",
    ignores="that a grouped product has the rows of all experts in one tensor, whose size only "
    "lengths change (rows of one length leave nothing there); later updates, which leave more; "
    "the few blocks that do not fit within one update where the cache is emptied after it",
)


def bounded(formula: Formula, of: Mapping[str, Num], card: Num, reached: Num) -> Term:
    """What the cache may hold more on a card, beyond what is reached: nothing at the centre."""
    inputs = {**of, "counted": 0, "card": card, "reached": reached}
    return formula.made("process", inputs, low=0, high=formula.of({**inputs, "counted": 1}))


def may_grow(plan: Plan) -> bool:
    """Whether steps may differ in length while nothing empties the cache between them.

    Expandable segments grow in place, and serve every length.
    """
    varied = plan.batch_shape != "full"
    return varied and plan.empty_cache == "never" and not plan.expandable_segments


def moving(of: Mapping[str, Num]) -> Num:
    """What growth follows, of a held term's inputs: what comes and goes, and what kinds need apart.

    All of the latter: a length that does not fit finds no tensor's block of another.
    """
    return of["needed"] - of["kept"] + of["apart"] - of["together"]


def most_growth(plan: Plan, held: Sequence[Term | None]) -> Num:
    """The most that the cache may hold more.

    Args:
        plan: the plan, or a sweep's grid.
        held: the held term of each phase of a step; None where nothing is held.
    """
    terms = [term for term in held if term is not None]
    if not terms or not may_grow(plan):
        return 0
    return GROWTH[kind_of(plan)] * maximum(*(moving(term.inputs) for term in terms)) // 1000
