"""Plain PyTorch: the step of this project itself (:mod:`planner.steps`)."""

from planner.values.framework import Framework
from planner.values.loss_code import AS_NAMED
from planner.values.sharding import SHARDINGS

FRAMEWORK = Framework(
    name="plain",
    label="Plain PyTorch",
    order=0,
    versions=("1",),
    loop_read="planner/steps, which is the loop itself",
    loss={"1": AS_NAMED},
    # DeepSpeed's communication_data_type is the dtype it trains in, unless one says otherwise.
    defaults=lambda values: (
        {"reduce_dtype": values.get("dtype", "bf16")}
        if getattr(SHARDINGS.get(str(values.get("sharding"))), "zero", 0)
        else {}
    ),
    steps_are_ours=True,
    looped_experts=("a trainer on transformers before 5", 1),
)
