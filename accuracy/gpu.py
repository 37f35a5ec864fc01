"""Measures this project's estimate on a real GPU, in one command.

``python -m accuracy.gpu --gpu h200-141gb --out measured.json`` runs real training steps of
real shapes with random weights on the local card and writes, per case and phase, what the
allocator and the driver counted beside what the estimate says; first the constants that
nobody has measured for the card: CUDA context and cuBLAS workspaces. Needs the test
requirements and a CUDA build of PyTorch; never downloads weights. Cases that cannot fit are
left out, cases that run out of memory are results.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import transformers

from accuracy.real_step import real_step
from planner import catalog
from planner.estimate import estimate
from planner.plan import Plan, try_plan

COUNTERS = {
    "requested_bytes": "requested_bytes.all.peak",
    "allocated_bytes": "allocated_bytes.all.peak",
    "active_bytes": "active_bytes.all.peak",
    "reserved_bytes": "reserved_bytes.all.peak",
}

LENGTHS = ((1, 512), (1, 4096), (4, 1024))
"""Micro-batch and tokens of a row."""

MODELS = (
    "Qwen/Qwen2.5-0.5B",
    "Qwen/Qwen3-0.6B",
    "meta-llama/Llama-3.2-1B",
    "google/gemma-3-1b-pt",
    "Qwen/Qwen2.5-1.5B",
    "Qwen/Qwen3-4B",
    "Qwen/Qwen2.5-7B",
)

SWITCHES: tuple[dict[str, Any], ...] = (
    {"gradient_checkpointing": "full"},
    {"gradient_checkpointing": "none"},
    {"gradient_checkpointing": "full", "batch_shape": "padded"},
    {"gradient_checkpointing": "full", "attention": "eager"},
    {"gradient_checkpointing": "full", "optimizer": "adamw-foreach"},
    {
        "gradient_checkpointing": "full",
        "finetuning": "lora",
        "lora_targets": "q_proj,k_proj,v_proj,o_proj,gate_proj,up_proj,down_proj",
        "master_dtype": "fp32",
    },
)


class CudaMeter:
    """Peaks of PyTorch's caching allocator, and what the driver sees in use."""

    @contextmanager
    def watch(self) -> Iterator[None]:
        """Nothing to switch on: the allocator always counts."""
        yield

    def reset_peak(self) -> None:
        """Start the allocator's peaks anew."""
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()

    def read(self) -> dict[str, int]:
        """The counters, the driver's used bytes, and how often the allocator had to retry."""
        torch.cuda.synchronize()
        stats = torch.cuda.memory_stats()
        free, total = torch.cuda.mem_get_info()
        found = {name: int(stats[key]) for name, key in COUNTERS.items()}
        return {
            **found,
            "device_used_bytes": total - free,
            "retries": int(stats["num_alloc_retries"]),
        }


def plans(gpu: str, models: Sequence[str] = MODELS) -> Iterator[Plan]:
    """Every case that is a plan and whose estimate stays below the card."""
    for model in models:
        for micro, length in LENGTHS:
            for switches in SWITCHES:
                for accumulate in (1, 2):
                    plan, _ = try_plan(
                        {
                            "model": model,
                            "method": "sft",
                            "gpu": gpu,
                            "gpus": 1,
                            "sharding": "none",
                            "master_dtype": "none",
                            "batch_shape": "full",
                            "logits": "full",
                            "prompts_per_step": micro * accumulate,
                            "micro_batch_size": micro,
                            "prompt_tokens": length // 2,
                            "response_tokens": length - length // 2,
                            **switches,
                        }
                    )
                    if plan is not None and estimate(plan).verdict.word != "out of memory":
                        yield plan


def compared(plan: Plan, measured: dict[str, Any]) -> dict[str, Any]:
    """A case's phases: measured beside estimated, with signed relative errors."""
    phases = {phase.name: phase for phase in estimate(plan).phases}
    rows = {}
    for name, counters in measured.items():
        row: dict[str, Any] = {"measured": counters, "estimated": {}, "error": {}}
        for level in ("requested_bytes", "allocated_bytes", "reserved_bytes"):
            said = getattr(phases[name], level)
            row["estimated"][level] = said
            row["error"][level] = round(said / counters[level] - 1, 5)
        row["estimated"]["device_bytes"] = phases[name].device_bytes
        rows[name] = row
    return {"plan": plan.model_dump(exclude_defaults=True), "phases": rows}


def constants() -> dict[str, Any]:
    """CUDA context and cuBLAS workspaces of this card, before anything else runs."""
    one = torch.ones(8, 8, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    torch.cuda.synchronize()
    free, total = torch.cuda.mem_get_info()
    context = total - free - torch.cuda.memory_reserved()
    before = torch.cuda.memory_allocated()
    product = one @ one
    forward = torch.cuda.memory_allocated() - before
    product.sum().backward()
    torch.cuda.synchronize()
    return {
        "card": torch.cuda.get_device_name(),
        "capability": ".".join(map(str, torch.cuda.get_device_capability())),
        "total_bytes": total,
        "context_bytes_with_other_processes": context,
        "after_first_product_bytes": forward,
        "after_first_backward_bytes": torch.cuda.memory_allocated() - before,
        "torch": torch.__version__,
        "transformers": transformers.__version__,
    }


def measure(plan: Plan, device: str, meter: Any) -> dict[str, Any]:
    """One case, run and compared; an out-of-memory error is its result."""
    config = dict(catalog.model(plan.model).config)
    try:
        return compared(plan, real_step(config, plan, meter, device))
    except torch.cuda.OutOfMemoryError as error:
        return {"plan": plan.model_dump(exclude_defaults=True), "out_of_memory": str(error)}
    finally:
        gc.collect()
        if device == "cuda":
            torch.cuda.empty_cache()


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs every case and writes the file anew after each, so that a stop loses nothing."""
    parser = argparse.ArgumentParser(prog="python -m accuracy.gpu", description=__doc__)
    parser.add_argument("--gpu", required=True, help="the card's key in the catalog")
    parser.add_argument("--out", required=True, type=Path, help="JSON file to write")
    parser.add_argument("--models", nargs="*", default=MODELS, help="models to run")
    given = parser.parse_args(arguments)
    catalog.gpu(given.gpu)
    if not torch.cuda.is_available():
        print("No CUDA device is here: run this on the card that --gpu names.", file=sys.stderr)
        return 2
    answer: dict[str, Any] = {"gpu": given.gpu, "constants": constants(), "cases": []}
    for plan in plans(given.gpu, given.models):
        answer["cases"].append(measure(plan, "cuda", CudaMeter()))
        given.out.write_text(json.dumps(answer, indent=1) + "\n", encoding="utf-8")
        print(json.dumps(answer["cases"][-1].get("phases", "out of memory"))[:400], flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
