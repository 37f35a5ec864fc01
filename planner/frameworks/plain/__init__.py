"""Plain PyTorch: the step of this project itself (:mod:`planner.steps`)."""

from planner.frameworks.framework import Framework
from planner.frameworks.loss import AS_ASKED, LossCode

FRAMEWORK = Framework(
    name="plain",
    label="Plain PyTorch",
    order=0,
    versions=("1",),
    loss={
        "1": LossCode(
            name="plain 1",
            paths=AS_ASKED,
            formulas={
                "full": "materialised",
                "response": "materialised",
                "chunked": "chunks",
                "fused": "tiles",
            },
            copies_labels=True,
            counted_at_regather=True,
        )
    },
    steps_are_ours=True,
    loss_makes_reference=True,
    looped_experts=("a trainer on transformers before 5", 1),
)
