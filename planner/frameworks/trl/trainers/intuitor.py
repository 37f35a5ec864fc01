"""Intuitor beside TRL's passes: GRPO's, with self-certainty in place of a reward."""

from planner.frameworks.trainer import Trainer
from planner.frameworks.trl.trainers.grpo import TRAINER as GRPO

TRAINER = Trainer(
    rules=GRPO.rules,
    not_exported="TRL has no self-certainty advantage; it would need a trainer of your own.",
)
