"""Plain PyTorch: the step of this project itself (:mod:`planner.steps`)."""

from dataclasses import replace

from planner.frameworks.framework import Framework
from planner.frameworks.loss import AS_NAMED

FRAMEWORK = Framework(
    name="plain",
    label="Plain PyTorch",
    order=0,
    versions=("1",),
    loss={"1": replace(AS_NAMED, name="plain 1")},
    steps_are_ours=True,
    loss_makes_reference=True,
    looped_experts=("a trainer on transformers before 5", 1),
)
