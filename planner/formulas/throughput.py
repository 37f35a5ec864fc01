"""What a step's seconds mean: tokens a second, the share of the card's peak, GPU-hours, dollars."""

from __future__ import annotations

from planner.formulas.duration import Rate

PALM = "Chowdhery et al. 2022 (PaLM, arXiv 2204.02311), appendix B"

TOKENS_PER_SECOND = Rate(
    "tokens per second and GPU",
    "tokens / (step_seconds * gpus)",
    unit="tokens per second",
    source="as public training reports count them (verl logs the same as perf/throughput)",
    why="A step's prompt and response tokens, divided by the step's seconds and by all GPUs, "
    "including the engine's.",
    ignores="padding, which is computed and is no token of anybody's",
)
MODEL_FLOPS_UTILIZATION = Rate(
    "model FLOPs utilization of the update (MFU)",
    "model_flops / (update_seconds * peak_flops_per_second)",
    unit="share of the peak",
    source=PALM,
    why="The minimum FLOPs of forward and backward, divided by the FLOPs that the card could do at "
    "its peak in the time of the update. Forward and backward need 6 FLOPs per parameter and token "
    "(4 where adapters train), plus those of attention.",
    ignores="recomputation; attention is counted as the mask needs it, half of what PaLM counts",
)
HARDWARE_FLOPS_UTILIZATION = Rate(
    "hardware FLOPs utilization of the update (HFU)",
    "performed_flops / (update_seconds * peak_flops_per_second)",
    unit="share of the peak",
    source=PALM,
    why="The same with everything that is computed a second time, as gradient checkpointing does.",
)
STEP_GPU_HOURS = Rate(
    "GPU-hours of a step",
    "(step_seconds * gpus + elsewhere_seconds * training_gpus) / 3600",
    unit="GPU-hours",
    source="arithmetic",
    why="Every GPU of the plan is paid for during the whole step; a reference on separate GPUs is "
    "paid for only while it scores.",
    ignores="starting, loading, validation and checkpoints",
)
RUN_GPU_HOURS = Rate(
    "GPU-hours of the run",
    "steps * step_gpu_hours + between_seconds * gpus / 3600",
    unit="GPU-hours",
    source="arithmetic",
    why="All steps, the scoring by a cached reference before the first step, and checkpoints and "
    "validations between steps.",
    ignores="starting and loading; checkpoints and validations that the plan does not have",
)
DOLLARS = Rate(
    "cost",
    "gpu_hours * usd_per_gpu_hour",
    unit="US dollars",
    source="arithmetic, at the plan's own price or the middle of the list prices",
    why="GPUs are paid for by the hour.",
    ignores="storage, traffic, and hours that are lost",
)
