"""What was ``PPOTrainer``; the last is in 1.12.0."""

from planner.values.framework import Trainer

TRAINER = Trainer(missing="TRL has had no PPO since 1.13.0.")
