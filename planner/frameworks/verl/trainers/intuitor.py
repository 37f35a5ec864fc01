"""Intuitor beside verl's passes; its authors' trainer is a fork of verl."""

from planner.values.framework import Trainer

TRAINER = Trainer(
    not_exported="verl has no Intuitor estimator; its authors' fork is another package."
)
