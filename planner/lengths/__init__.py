"""How long responses are: the plan's ``length_distribution`` as a value; and its mean prompt.

:func:`lengths_of` gives a plan's (or a sweep's grid's) lengths, cut at ``response_tokens``; a plan
that has no distribution has every response at its cap. Imports nothing of a plan.
"""

from planner.lengths.planned import at_caps as at_caps
from planner.lengths.planned import at_longest as at_longest
from planner.lengths.planned import lengths_of as lengths_of
from planner.lengths.planned import prompt_of as prompt_of
from planner.lengths.planned import says_prompts as says_prompts
from planner.lengths.planned import validation_lengths_of as validation_lengths_of
from planner.lengths.value import Alive as Alive
from planner.lengths.value import Lengths as Lengths
from planner.lengths.words import named as named
from planner.lengths.words import offered as offered
from planner.lengths.words import prompts as prompts
from planner.lengths.words import words as words
