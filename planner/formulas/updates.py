"""Seconds of an optimizer's update, on the card or on the host's processors."""

from __future__ import annotations

from planner.formulas.duration import Rate

TORCH = "torch 2.13 optim/adamw.py and fused_adam_utils.cuh (read)"

UPDATE_BYTES = Rate(
    "bytes of an optimizer's updates",
    "rounds * elements * (values * value_bytes + gradient_bytes + other_bytes)",
    unit="bytes",
    source=TORCH + "; bitsandbytes optimizers (read)",
    why="A fused update reads and writes weight and both moments once; one that runs operation by "
    "operation reads or writes a list of tensors twenty times; 8-bit moments are a byte each.",
    ignores="launches: a list of tensors takes few, one tensor at a time a few hundred",
)
CLIPPED_BYTES = Rate(
    "bytes of clipping gradients",
    "rounds * elements * 3 * gradient_bytes",
    unit="bytes",
    source="torch 2.13 nn/utils/clip_grad.py (read): norms, then every gradient scaled",
    why="Read for the norm, read and written for the scale.",
    ignores="the sum of norms over GPUs, one small collective",
)
HOST_UPDATE = Rate(
    "update by the host's processors",
    "rounds * ranks_per_node * elements * seconds_per_element",
    unit="seconds",
    source="efficiencies.json host-update-seconds and host-update-seconds-torch",
    why="All processes of a node share its processors and its memory.",
    ignores="how many cores and memory channels the host has",
)

VALUES = {
    "adamw-fused": 6,
    "adamw-foreach": 20,
    "adamw-8bit": 2,
    "paged-adamw-8bit": 2,
    "sgd": 2,
}
"""Reads and writes of one value each: weight and moments. Operation by operation: decay 2, first
moment 3, second 2 and 3, root 2, bias 2, epsilon 2, weight 4."""
MOMENT_BYTES = {"adamw-8bit": 4, "paged-adamw-8bit": 4}
"""Two moments of a byte, read and written."""
ZERO_BYTES = 10
"""DeepSpeed's fp32 copies: gradient cast (2 + 4), weight cast back (2, beside the 4 counted)."""
