"""The estimators ``reinforce_plus_plus`` and ``reinforce_plus_plus_baseline``."""

from planner.frameworks.verl.estimator import Estimator
from planner.values.framework import Trainer

NAMES = {"none": "reinforce_plus_plus", "group": "reinforce_plus_plus_baseline"}

TRAINER = Trainer(
    export=Estimator(
        name=lambda plan: NAMES[plan.reinforce_baseline],
        fields={name: {"reinforce_baseline": baseline} for baseline, name in NAMES.items()},
    )
)
