"""verl has none."""

from planner.frameworks.trainer import Trainer

TRAINER = Trainer(missing="verl has no DPO trainer.")
