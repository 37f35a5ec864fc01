"""``GRPOTrainer``."""

from planner.frameworks.trainer import Trainer
from planner.frameworks.trl.own import Own
from planner.frameworks.trl.script import Script
from planner.rule import Rule

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
    own=Own(trainer="GRPOTrainer", config="GRPOConfig", rows="prompts"),
)
