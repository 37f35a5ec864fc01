"""The closed form beside dry runs of transformers' own Trainer, over plans drawn by lot.

``python -m accuracy.hf_drawn --plans 200`` prints each phase's signed error that is above a
thousandth, and how they are spread. Takes two seconds a plan on one core, and no network.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Iterator
from itertools import islice
from statistics import median
from typing import Any

from accuracy.framework_grid import FAMILIES, MODELS
from planner.dryrun.ask.answer import CUBLAS
from planner.dryrun.ask.request import configs_of
from planner.dryrun.logs import curve
from planner.dryrun.run.execute import dry_run
from planner.estimate import estimate
from planner.frameworks.hf_trainer import FRAMEWORK, own_step
from planner.plan import Plan, try_plan

TOLD = 1e-3
FACTORS: dict[str, tuple[Any, ...]] = {
    "model": (*MODELS, *FAMILIES),
    "finetuning": ("full", "lora"),
    "lora_targets": ("all-linear", "q_proj,v_proj"),
    "lora_dropout": (0.0, 0.1),
    "dtype": ("bf16", "bf16", "fp16", "fp32"),
    "master_dtype": ("none", "fp32"),
    "base_dtype": ("compute", "compute", "fp32"),
    "gradient_checkpointing": ("none", "full"),
    "activation_offload": (False, False, True),
    "optimizer": ("adamw-fused", "adamw-foreach", "adamw-8bit", "sgd"),
    "attention": ("eager", "sdpa", "flash"),
    "batch_shape": ("full", "padded"),
    "liger": (False, False, True),
    "micro_batch_size": (1, 2, 4),
    "prompts_per_step": (32, 64),
    "sharding": ("none", "ddp", "fsdp2"),
    "reshard_after_forward": (True, True, False),
    "offload": ("none", "none", "all"),
    "empty_cache": ("never", "every-step"),
}
LENGTHS = ((64, 64), (128, 512), (512, 129), (1000, 1048))


def drawn(seed: int) -> Iterator[Plan]:
    """Plans that its own code runs, without end."""
    lot = random.Random(seed)
    while True:
        fields = {name: lot.choice(values) for name, values in FACTORS.items()}
        fields |= dict(zip(("prompt_tokens", "response_tokens"), lot.choice(LENGTHS), strict=True))
        fields |= {"framework": FRAMEWORK.name, "method": "sft", "gpu": "h200-141gb"}
        fields["gpus"] = 1 if fields["sharding"] == "none" else 8
        plan, _ = try_plan(fields)
        if plan is not None and not own_step.refusal(plan):
            yield plan


def errors(plan: Plan) -> dict[str, float]:
    """Signed relative error of the closed form by phase; of more than a MB on the GPU."""
    log = dry_run(plan, configs_of(plan), code=FRAMEWORK.name)
    found = {phase.name: phase for phase in estimate(plan).phases}
    signed = {}
    for peak in curve.peaks(log):
        terms = found[peak.phase].terms
        besides = sum(int(term.bytes) for term in terms if term.name == CUBLAS)
        if peak.total_bytes > 2**20:
            own = int(found[peak.phase].requested_bytes) - besides
            signed[peak.phase] = own / peak.total_bytes - 1
    return signed


def main() -> int:
    """Draws, runs and prints."""
    parser = argparse.ArgumentParser(prog="python -m accuracy.hf_drawn", description=__doc__)
    parser.add_argument("--plans", type=int, default=200)
    parser.add_argument("--seed", type=int, default=42)
    given = parser.parse_args()
    every: list[float] = []
    for plan in islice(drawn(given.seed), given.plans):
        found = errors(plan)
        every += found.values()
        for phase, error in found.items():
            if abs(error) > TOLD:
                fields = {name: getattr(plan, name) for name in FACTORS}
                print(f"{100 * error:+.3f} %  {phase}: {fields}", flush=True)
    sizes = sorted(map(abs, every))
    print(
        f"{len(every)} phases of {given.plans} plans: {100 * min(every):+.4f} % to "
        f"{100 * max(every):+.4f} %, median {100 * median(sizes):.5f} %, "
        f"{sum(size <= TOLD for size in sizes)} within {100 * TOLD} %"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
