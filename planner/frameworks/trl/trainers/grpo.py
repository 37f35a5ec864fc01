"""``GRPOTrainer``."""

from typing import Any

from planner.frameworks.trainer import Trainer
from planner.frameworks.trl.own import Own
from planner.frameworks.trl.script import Script
from planner.rule import Rule


def _on_policy(plan: Any) -> bool:
    """One update follows responses of its own, which no other engine sampled."""
    return bool(plan.rollout == "hf" and plan.prompts_per_update == plan.prompts_per_step)


TRAINER = Trainer(
    rules=(
        Rule(
            "kl",
            lambda plan: plan.kl == "reward",
            "TRL's GRPO adds KL to the loss, never to the reward.",
            "Set kl to loss or none.",
        ),
    ),
    export=Script(
        samples=True, kl=("none", "loss"), entropy=True, weighted="density_grpo.py"
    ),
    own=Own(
        trainer="GRPOTrainer",
        config="GRPOConfig",
        rows="prompts",
        own_old_log_probs=_on_policy,
    ),
)
