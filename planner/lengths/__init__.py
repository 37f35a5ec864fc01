"""How long responses are: a plan's ``length_distribution`` as a value.

:mod:`planner.plan.lengths` gives those of a plan. Imports nothing of one.
"""

from planner.lengths.value import Alive as Alive
from planner.lengths.value import Lengths as Lengths
