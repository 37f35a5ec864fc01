"""verl has none."""

from planner.values.framework import Trainer

TRAINER = Trainer(missing="verl has no DPO trainer.")
