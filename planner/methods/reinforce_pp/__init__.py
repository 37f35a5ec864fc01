"""REINFORCE++: returns whitened over the whole batch in place of a critic or a group's spread.

With a baseline, each reward first loses the mean of its prompt's responses. Source: arXiv
2501.03262, as verl's estimators ``reinforce_plus_plus`` and ``reinforce_plus_plus_baseline`` have
it; TRL has no trainer for it.
"""

from __future__ import annotations

from planner.methods.reinforce_pp.fields import ReinforceFields, own
from planner.rule import Rule
from planner.values.method import POLICY, REFERENCE, REWARD_MODEL, Method
from planner.values.step_phases import OLD_LOG_PROBS, REFERENCE_LOG_PROBS, REWARD, sampled

METHOD = Method(
    name="reinforce++",
    title="REINFORCE++",
    label="REINFORCE++ · advantages whitened over the batch",
    order=40,
    roles=(POLICY, REFERENCE, REWARD_MODEL),
    phases=sampled(OLD_LOG_PROBS, REFERENCE_LOG_PROBS, REWARD),
    spellings=("reinforce-plus-plus",),
    fields=ReinforceFields,
    refused_elsewhere=("reinforce_baseline",),
    defaults={"kl": "reward", "critic": "none", "responses_per_prompt": 8},
    rules=(
        Rule(
            "responses_per_prompt",
            lambda plan: (own(plan).reinforce_baseline == "group")
            & (plan.responses_per_prompt < 2),
            "A group-mean baseline needs at least two responses per prompt.",
            "Set responses_per_prompt to 2 or more, or reinforce_baseline to none.",
        ),
    ),
)
