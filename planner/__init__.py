"""Headroom: whether a reinforcement-learning post-training run fits, how fast, at what cost.

``from planner import Plan, estimate, sweep`` is enough for most. Loads pydantic and numpy
and nothing heavier: pandas comes with the first sweep, torch never.

Functions share their module's name (``planner.estimate.estimate``). They are imported
here at once, not on demand, because a module that is loaded later would be put in the
function's place. Reach into the modules by ``from planner.estimate import ...``.
"""

from planner.advice import recommend
from planner.estimate import estimate
from planner.footprint import Footprint
from planner.plan import Plan, try_plan
from planner.plan.link import from_query
from planner.plan.query import to_query
from planner.problem import PlanError, Problem
from planner.sweeps.table import sweep

__all__ = [
    "Footprint",
    "Plan",
    "PlanError",
    "Problem",
    "estimate",
    "from_query",
    "recommend",
    "sweep",
    "to_query",
    "try_plan",
]
