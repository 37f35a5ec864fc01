"""What autograd keeps of a forward pass, and what a layer needs while it runs.

Read in this order: ``workload`` (what a pass is run on), ``kinds`` (the sizes tensors
can have), ``tape`` (storages, their lives, and torch's backward order), ``operations``,
``norms``, ``linears``, ``kernels``, ``attention`` and ``decoder`` (the layers, written as
the modeling files are), ``compiled``, ``layers`` and ``model`` (the terms).
"""

from planner.formulas.activations.layers import (
    LAYER_INPUT,
    layer_backward_transient,
    layer_forward_transient,
    layer_saved,
)
from planner.formulas.activations.model import (
    AUTOCAST_COPIES,
    EMBEDDING_DROPOUT,
    LEAF,
    adapter_copies,
    autocast_weight_copies,
    checkpointed_saved,
    embeddings_leaf,
    final_norm_backward,
    given_tables,
    model_saved,
)
from planner.formulas.activations.workload import Workload

__all__ = [
    "AUTOCAST_COPIES",
    "EMBEDDING_DROPOUT",
    "LAYER_INPUT",
    "LEAF",
    "Workload",
    "adapter_copies",
    "autocast_weight_copies",
    "checkpointed_saved",
    "embeddings_leaf",
    "final_norm_backward",
    "given_tables",
    "layer_backward_transient",
    "layer_forward_transient",
    "layer_saved",
    "model_saved",
]
