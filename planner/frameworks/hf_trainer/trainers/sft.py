"""``Trainer``, whose model computes the loss of given tokens."""

from planner.values.framework import Trainer

TRAINER = Trainer(export="train.py")
