"""How long responses are: the plan's ``length_distribution`` as a value; and its mean prompt.

:func:`lengths_of` gives a plan's (or a sweep's grid's) lengths, cut at ``response_tokens``; a plan
that has no distribution has every response at its cap. Imports nothing of a plan.
"""

from planner.lengths.planned import (
    at_caps,
    at_longest,
    lengths_of,
    prompt_of,
    says_prompts,
    validation_lengths_of,
)
from planner.lengths.value import Alive, Bin, Lengths
from planner.lengths.words import named, offered, prompts, words

__all__ = [
    "Alive",
    "Bin",
    "Lengths",
    "at_caps",
    "at_longest",
    "lengths_of",
    "named",
    "offered",
    "prompt_of",
    "prompts",
    "says_prompts",
    "validation_lengths_of",
    "words",
]
