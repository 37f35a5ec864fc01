"""verl has none."""

from planner.values.trainer import Trainer

TRAINER = Trainer(missing="verl has no DPO trainer.")
