"""The estimator of the same name."""

from planner.frameworks.verl.estimator import Estimator
from planner.values.framework import Trainer

TRAINER = Trainer(
    export=Estimator(name=lambda plan: "rloo", fields={"rloo": {}, "rloo_vectorized": {}})
)
