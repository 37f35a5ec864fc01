"""verl's SFT trainer is another program with settings of its own."""

from planner.values.framework import Trainer

TRAINER = Trainer(missing="verl's SFT trainer is not planned.")
