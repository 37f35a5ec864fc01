"""Seconds of an optimizer's update, on the card or on the host's processors."""

from __future__ import annotations

from planner.formulas.duration import Rate

TORCH = "torch 2.13 optim/adamw.py and fused_adam_utils.cuh (read)"

UPDATE_BYTES = Rate(
    "bytes of an optimizer's updates",
    "rounds * elements * (values * value_bytes + gradient_bytes + other_bytes)",
    unit="bytes",
    source=TORCH + "; bitsandbytes optimizers (read)",
    why="A fused update reads and writes the weight and both moments once; an unfused (foreach) "
    "update reads or writes a list of tensors twenty times; 8-bit moments take one byte each.",
    ignores="launches, which are a term of their own",
)
CLIPPED_BYTES = Rate(
    "gradient clipping",
    "rounds * elements * 3 * gradient_bytes",
    unit="bytes",
    source="torch 2.13 nn/utils/clip_grad.py (read): norms, then every gradient scaled",
    why="Each gradient is read for the norm, then read and written to be scaled.",
    ignores="the sum of norms over GPUs, one small collective",
)
HOST_UPDATE = Rate(
    "optimizer step on the CPU",
    "rounds * ranks_per_node * elements * seconds_per_element",
    unit="seconds",
    source="efficiencies.json host-update-seconds: DeepSpeedCPUAdam",
    why="All processes of a node share its processors and its memory.",
    ignores="how many cores and memory channels the host has",
)
HOST_MEMORY = Rate(
    "kernels of one of the host's threads",
    "bytes_moved / bytes_per_second",
    unit="seconds",
    source="torch 2.13 (read): optim/adamw.py runs fused AdamW on CPU tensors, foreach or a loop "
    "where nobody asked for it; _fsdp_collectives.py adds gradients of later micro-batches on the "
    "CPU; distributed/run.py and accelerate's launch.py set OMP_NUM_THREADS to 1, Ray to an "
    "actor's one CPU; efficiencies.json host-thread-bytes-per-second",
    why="Under FSDP2's CPU offload each process updates its own shard in host RAM with the single "
    "thread that launchers give it, at the same time as the other GPUs' processes.",
    ignores="threads that somebody gives a process by hand: twice as fast in torchtune's pull "
    "request 993; hosts whose memory feeds fewer threads than they have GPUs",
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
ONE_PASS = ("adamw-fused", "sgd")
"""Go over their tensors once on the host, too; others make new ones, or quantise."""
MOMENT_BYTES = {"adamw-8bit": 4, "paged-adamw-8bit": 4}
"""Two moments of a byte, read and written."""
ZERO_BYTES = 10
"""DeepSpeed's fp32 copies: gradient cast (2 + 4), weight cast back (2, beside the 4 counted)."""
