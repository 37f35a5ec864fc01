"""The estimator ``gae``, with a critic of its own."""

from planner.frameworks.trainer import Trainer
from planner.frameworks.verl.estimator import Estimator

TRAINER = Trainer(export=Estimator(name=lambda plan: "gae", critic=True))
