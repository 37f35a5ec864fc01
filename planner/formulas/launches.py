"""Seconds that the host launches kernels for in training, where the card computes for less.

One measurement is behind all of it: models so narrow that no kernel takes time, at 4 and at 12
layers (``accuracy/launch_runs.py``); the difference is eight layers. Each cost is kept as a
multiple of the same file's forward without autograd, 0.814 ms a layer, so that a host that launches
such a layer faster is faster at all of it.
"""

from __future__ import annotations

from planner.formulas.duration import Rate

MEASURED = (
    "accuracy/measured/launches-h200-141gb.json (torch 2.11.0, transformers 5.23.0, 4 and 12 "
    "layers of Qwen2), by its own forward without autograd"
)
A_LAYER = "efficiencies.json hf-step-seconds-per-layer, of a Llama layer's forward of 40 kernels"

LAUNCHES = Rate(
    "kernel launch overhead",
    "maximum(forwards * layers * kernels / usual_kernels * pass_by_forward * launch_seconds"
    " - computed_seconds, 0)",
    unit="seconds",
    source=f"{A_LAYER}; what a pass is of it: {MEASURED}",
    why="The host launches kernels while the card computes; the slower of the two sets the time. "
    "In a forward the head runs after the layers, so its computation hides none of their launches; "
    "in a backward the head runs first.",
    ignores="what a pass launches once: embedding, masks, head and loss; that more kernels are not "
    "all as dear, and another host: autocast's and adapters' are 0.75 to 1.1 of their number",
)
FORWARD = 1.18
"""Of a forward that records for a backward, by one that does not: 0.959 ms a layer. Under autocast
and with adapters 1.14 and 1.10 of their own."""
BACKWARD = 1.83
"""Of a backward: 1.493 ms. About twice as many kernels, from C++, and a node of the graph each."""
CHECKPOINTED = 1.09
"""More in a forward whose layers are checkpoints: 0.886 ms. Each saves the random states, and every
tensor that would be saved goes through a Python hook."""
RUN_AGAIN = 1.66
"""More in the backward, beside the forward that it repeats: 1.353 ms. The same hooks, states put
back and forth, and a backward that looks up each tensor again."""
BY_KERNELS = 0.75, 1.1
"""Least and most of what the number of kernels says: autocast launches 53 and adapters of all
projections 82 in place of 40, and took 0.79 and 0.75 of as much longer forward, 0.91 and 1.08
backward."""

HOOKS = Rate(
    "FSDP2 hook overhead",
    "maximum(layers * (gathers * launches_a_gather + reductions * launches_a_reduction)"
    " * launch_seconds - spare_seconds, 0)",
    unit="seconds",
    source=MEASURED + ", rank 0 of 8, collectives that bring nothing",
    why="Around each layer, FSDP2's Python hooks gather the layer's weights into one buffer, copy "
    "them out and free them; after the layer's backward they copy its gradients into one buffer "
    "and reduce them.",
    ignores="how many weights a layer has (12 were measured); FSDP1's and DeepSpeed's hooks, which "
    "nobody measured",
)
GATHER = 1.6
"""Of a layer and its release, by a layer's forward: 1.56 without autograd (1.271 ms), 1.70 with."""
REDUCTION = 2.4
"""The rest of what a layer's backward takes longer, 4.02 (3.272 ms), beside its gather."""
HOOKS_FACTORS = 0.8, 1.25
"""By whole passes of 12 layers in place of the difference: forward 2.0, backward 3.8; of 4 layers
backward 3.3."""

OUTLASTING = LAUNCHES.name, HOOKS.name
"""Terms of a pass that the card spends waiting."""

UPDATE = Rate(
    "optimizer launch overhead",
    "maximum(rounds * tensors * launches_a_tensor * launch_seconds - clipping_seconds, 0)",
    unit="seconds",
    source=f"{A_LAYER}; a tensor: {MEASURED}, step and zero_grad of fused AdamW; torch 2.13 "
    "optim/adamw.py (read): _init_group visits every tensor before the first kernel",
    why="The host loops over every trained tensor in Python while the card is still clipping "
    "gradients, and launches the update's kernels afterwards.",
    ignores="the clipping's own launches; lists of an update operation by operation; bitsandbytes, "
    "which updates one tensor at a time",
)
TENSOR = 0.010
"""Of a layer's forward without autograd: 8.3 microseconds a tensor."""
DTENSOR = 0.039
"""A shard of FSDP2's, each operation of which goes through Python: 31 microseconds."""
TENSOR_FACTORS = 0.6, 1.4
"""With checkpointed layers, which change nothing about it, 4.9; of adapters 11.4."""


def pass_by_forward(*, run: str, again: float, checkpointed: bool) -> float:
    """What a layer's pass takes to launch, by its forward without autograd.

    Args:
        run: ``score`` (no autograd), ``forward`` or ``backward``.
        again: times that a backward repeats the layer's forward.
        checkpointed: whether each layer is a checkpoint.
    """
    if run == "backward":
        return BACKWARD + again * FORWARD + checkpointed * RUN_AGAIN
    return 1.0 if run == "score" else FORWARD + checkpointed * CHECKPOINTED
