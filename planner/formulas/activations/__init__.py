"""What autograd keeps of a forward pass, and what a layer needs while it runs."""

from planner.formulas.activations.layers import (
    checkpointed_saved,
    layer_backward_transient,
    layer_forward_transient,
    layer_saved,
    model_saved,
)
from planner.formulas.activations.workload import Workload

__all__ = [
    "Workload",
    "checkpointed_saved",
    "layer_backward_transient",
    "layer_forward_transient",
    "layer_saved",
    "model_saved",
]
