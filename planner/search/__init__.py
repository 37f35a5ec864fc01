"""Search: a plan and a wish → three plans to launch, found by the estimate's own formulas."""

from planner.search.answer import search as search
from planner.search.found import Found as Found
from planner.search.found import Miss as Miss
from planner.search.found import Point as Point
from planner.search.found import Recommendation as Recommendation
from planner.search.found import Tie as Tie
from planner.search.wish import GOALS as GOALS
from planner.search.wish import USUAL as USUAL
from planner.search.wish import Wish as Wish
