"""The closed form beside dry runs over a grid that covers every possible pair of settings.

``python -m accuracy.grid --out FILE`` runs every plan of the grid dry (some minutes) and writes
what was measured; docs/accuracy.md compares it with the closed form of the moment. Imports torch
only in the processes that run.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from copy import deepcopy
from functools import cache, partial
from importlib.metadata import version
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from accuracy.pairs import Design, Row, all_pairs
from planner import catalog
from planner.plan import Plan, try_plan
from planner.plan.frameworks import OWN
from planner.plan.relevance import without_effect

MEASURED = Path(__file__).parent / "measured" / "closed-form-vs-dry-run.json"

ROWS = 320
"""The grid has at least as many plans: every pair once, then once more, until there are."""

MODELS = (
    "HuggingFaceTB/SmolLM2-135M",
    "meta-llama/Llama-3.2-1B",
    "Qwen/Qwen2.5-0.5B",
    "Qwen/Qwen3-0.6B",
    "mistralai/Mistral-7B-v0.1",
    "google/gemma-2-2b",
    "google/gemma-3-1b-pt",
    "microsoft/Phi-4-mini-instruct",
    "openai-community/gpt2",
    "EleutherAI/pythia-160m",
    "bigcode/starcoder2-3b",
    "HuggingFaceTB/SmolLM3-3B",
    "zai-org/glm-4-9b-chat-hf",
    "allenai/OLMo-2-0425-1B",
    "allenai/Olmo-3-1025-7B",
    "allenai/OLMoE-1B-7B-0924",
    "Qwen/Qwen3-30B-A3B",
)
"""A small model of each family with a derived sum, of vocabularies small and large."""

FACTORS: Mapping[str, tuple[Any, ...]] = {
    "method": ("sft", "dpo", "grpo", "ppo", "intuitor", "grade", "rloo", "reinforce++"),
    "model": MODELS,
    "finetuning": ("full", "lora", "qlora"),
    "lora_targets": ("all-linear", "q_proj,v_proj"),
    "lora_dropout": (0.0, 0.05),
    "dtype": ("bf16", "fp32"),
    "master_dtype": ("none", "fp32"),
    "gradient_checkpointing": ("none", "full"),
    "attention": ("eager", "sdpa", "flash"),
    "batch_shape": ("full", "padded", "packed"),
    "logits": ("full", "response", "chunked", "fused"),
    "logits_dtype": ("bf16", "fp32"),
    "entropy": (False, True),
    "optimizer": ("adamw-fused", "adamw-foreach", "sgd"),
    "liger": (False, True),
    "reference": (
        "copy",
        "adapter-disabled",
        "offloaded",
        "cached-logprobs",
        "cached-activations",
        "dual-output",
        "frozen-adapter",
    ),
    "base_dtype": ("compute", "fp32"),
    "autocast": (False, True),
    "optimizer_step": ("update", "micro-batch", "in-backward"),
    "temperature": (1.0, 0.7),
    "chunk_tokens": (64, 512),
    "critic": ("separate", "shared"),
    "kl": ("none", "loss", "reward"),
    "reward": ("rule", "model"),
    "rollout": ("hf", "vllm-colocated"),
    "self_certainty": ("full", "chunked-vocabulary", "chunked-tokens", "fused"),
    "self_certainty_gradient": (False, True),
    "grade_estimator": ("soft", "straight-through"),
    "grade_top_k": (0, 64),
    "grade_dense_scatter": (False, True),
    "grade_kl": ("none", "batch", "online", "online-metric"),
    "grade_reference_cache": (False, True),
    "grade_reward_input": ("dense", "sparse"),
    "grade_step_checkpointing": (False, True),
    "grade_autocast": (False, True),
    "shards": ("1", "8", "64", "64 in groups of 8"),
    "reshard_after_forward": (True, False),
    "offload": ("none", "optimizer-between-phases", "all-between-phases"),
    "activation_offload": (False, True),
    "lengths": ((64, 64), (128, 512), (512, 129), (1024, 1024), (1000, 3096)),
    "micro_batch_size": (1, 2, 4),
    "logprob_micro_batch_size": (1, 2, 4),
    "accumulation": (1, 2, 5),
    "updates": (1, 2),
}
"""What varies. Names are fields of a plan, except those that :func:`fields` spells out."""

GPUS = {
    "1": {"gpus": 1, "sharding": "none"},
    "8": {"gpus": 8, "sharding": "fsdp2"},
    "64": {"gpus": 64, "sharding": "fsdp2"},
    "64 in groups of 8": {"gpus": 64, "sharding": "fsdp2", "shard_size": 8},
}

OF_PLAN = ("shards", "lengths", "accumulation", "updates")
"""Factors that are several fields."""

GRADE = tuple(name for name in FACTORS if name.startswith("grade_"))
CERTAIN = ("self_certainty", "self_certainty_gradient")
CRITIC = ("critic",)
NO_RL = ("kl", "reward", "rollout", "entropy", *CRITIC, *CERTAIN, *GRADE)
WITHOUT: Mapping[str, tuple[str, ...]] = {
    "sft": ("reference", "logprob_micro_batch_size", *NO_RL),
    "dpo": NO_RL,
    "grpo": (*CRITIC, *CERTAIN, *GRADE),
    "rloo": (*CRITIC, *CERTAIN, *GRADE),
    "reinforce++": (*CRITIC, *CERTAIN, *GRADE),
    "ppo": (*CERTAIN, *GRADE),
    "intuitor": ("reward", *CRITIC, *GRADE),
    "grade": ("kl", "reward", "rollout", "entropy", "logits", "logits_dtype", *CRITIC, *CERTAIN),
}
"""Factors that a method's defaults decide."""

GROUPED = ("grpo", "intuitor", "rloo")
"""Methods whose drawn plans have two responses a prompt."""
UNROLLED = {64: 4, 129: 7, 512: 8, 1024: 12, 3096: 16}
"""Responses of GRADE are as short as its documents have them, since every token is a forward."""


def fields(row: Row) -> dict[str, Any]:
    """The plan's fields of a row of the design."""
    values: dict[str, Any] = {key: value for key, value in row.items() if key not in OF_PLAN}
    method: Any = row["method"]
    for name in WITHOUT[method]:
        del values[name]
    values |= GPUS[str(row["shards"])]
    lengths: Any = row["lengths"]
    values["prompt_tokens"], values["response_tokens"] = lengths
    if method == "grade":
        values["response_tokens"] = UNROLLED[lengths[1]]
    return values | batches(row, values["gpus"], 2 if method in GROUPED else 1)


def batches(row: Row, gpus: int, group: int) -> dict[str, Any]:
    """Responses and prompts that make as many micro-batches and updates as the row says."""
    drawn: Any = row
    sequences = gpus * drawn["micro_batch_size"] * drawn["accumulation"]
    per_update = max(sequences // group, 1)
    return {
        "responses_per_prompt": group,
        "prompts_per_update": per_update,
        "prompts_per_step": per_update * drawn["updates"],
        "gpu": "h100-80gb",
    }


BLAMED = {
    "prompts_per_update": ("accumulation", "micro_batch_size", "shards"),
    "responses_per_prompt": ("method",),
    "sharding": ("shards",),
    "gradient_dtype": ("master_dtype", "dtype"),
    "response_tokens": ("lengths",),
}
"""Factors behind a field that the rules blame."""

KERNEL_METHODS = ("sft", "dpo", "grpo", "ppo", "intuitor", "rloo", "reinforce++")
KERNELS = MODELS[:6]
"""Models whose layers Liger's kernels run, with a derived sum."""
NEEDS: Mapping[tuple[str, object], Mapping[str, tuple[Any, ...]]] = {
    ("finetuning", "qlora"): {
        "method": KERNEL_METHODS,
        "shards": ("1",),
        "rollout": ("vllm-colocated",),
        "reference": ("adapter-disabled", "cached-logprobs"),
        "critic": ("separate",),
        "model": (*KERNELS, "HuggingFaceTB/SmolLM3-3B", "microsoft/Phi-4-mini-instruct"),
    },
    ("liger", True): {
        "model": KERNELS,
        "method": KERNEL_METHODS,
        "critic": ("separate",),
    },
    ("lora_dropout", 0.05): {"finetuning": ("lora", "qlora")},
    ("self_certainty", "fused"): {"method": ("intuitor",), "logits": ("fused",)},
    ("grade_autocast", True): {
        "method": ("grade",),
        "finetuning": ("lora",),
        "dtype": ("bf16",),
        "master_dtype": ("fp32",),
        "shards": ("1",),
    },
    ("reference", "adapter-disabled"): {"finetuning": ("lora", "qlora")},
    ("reference", "frozen-adapter"): {"finetuning": ("lora",), "critic": ("separate",)},
    ("base_dtype", "fp32"): {"finetuning": ("lora", "qlora"), "dtype": ("bf16",)},
    ("autocast", True): {
        "finetuning": ("lora",),
        "dtype": ("bf16",),
        "master_dtype": ("fp32",),
        "shards": ("1",),
    },
    ("optimizer_step", "in-backward"): {
        "optimizer": ("adamw-fused", "sgd"),
        "shards": ("1", "8", "64"),
        "method": KERNEL_METHODS,
    },
    ("chunk_tokens", 64): {"logits": ("chunked",)},
    ("reference", "dual-output"): {"finetuning": ("lora",), "kl": ("loss",), "liger": (False,)},
    ("reference", "cached-activations"): {"kl": ("loss",)},
    ("critic", "shared"): {"liger": (False,)},
}
"""What else a value asks for: only a hint of what to draw again, the rules have the last word."""


def _lacking(row: Row) -> set[str]:
    """Factors that keep a value of the row from being possible."""
    return {
        name
        for (factor, value), needed in NEEDS.items()
        if row[factor] == value
        for name, values in needed.items()
        if row[name] not in values
    }


def judged(row: Row) -> tuple[Row, Iterable[str]]:
    """The values of a row that have an effect in its plan; what to change when it has none."""
    plan, problems = try_plan(fields(row))
    if plan is None:
        names = {
            name for problem in problems for name in BLAMED.get(problem.field, (problem.field,))
        }
        return {}, (names & set(FACTORS)) | _lacking(row)
    idle = set(without_effect(plan)) | set(WITHOUT[plan.method])
    return {name: value for name, value in row.items() if name not in idle}, ()


@cache
def design() -> Design:
    """The grid as rows of factors: every possible pair, then again with other neighbours."""
    found = Design(FACTORS, judged, seed=2026)
    while len(found.rows) < ROWS:
        found.cover(ROWS)
    return found


def plans() -> Iterator[dict[str, Any]]:
    """Fields of every plan of the grid, each once."""
    yield from distinct(map(fields, design().rows))


def distinct(drawn: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Every plan's fields once."""
    seen = set()
    for values in drawn:
        key = json.dumps(values, sort_keys=True)
        if key not in seen:
            seen.add(key)
            yield values


def measure(values: dict[str, Any], code: str) -> dict[str, Any]:
    """One plan's dry run: peaks by phase in requested bytes, and what is behind them.

    ``code`` names the framework whose code runs.
    """
    import torch

    from planner.dryrun.logs.curve import peaks
    from planner.dryrun.run.execute import dry_run

    torch.set_num_threads(1)
    plan = Plan(**values)
    log = dry_run(plan, configs(plan), code=code)
    phases = {
        peak.phase: {"bytes": peak.total_bytes, "op": peak.op, "module": peak.module}
        for peak in peaks(log)
    }
    return {"fields": values, "phases": phases, "notes": list(dict.fromkeys(log.notes))}


def configs(plan: Plan) -> dict[str, dict[str, Any]]:
    """config.json fields by role."""
    # transformers writes into what a configuration is made of.
    policy = deepcopy(dict(catalog.model(plan.model).config))
    return {"policy": policy, "critic": policy, "reward": policy}


def versions() -> dict[str, str]:
    """What the measurements depend on."""
    return {name: version(name) for name in ("torch", "transformers", "peft")}


def drawn(found: Design) -> dict[str, Any]:
    """What a design covers: settings, pairs, and those that no valid plan has."""
    every = all_pairs(found.factors) - found.impossible
    return {
        "factors": len(found.factors),
        "pairs": len(every),
        "impossible": sorted(sorted(map(list, pair), key=repr) for pair in found.impossible),
    }


def write(out: Path, head: dict[str, Any], rows: list[dict[str, Any]]) -> None:
    """One row a line, so that differences can be read."""
    told = json.dumps(head)
    lines = ",\n".join(json.dumps(row) for row in rows)
    out.write_text(f'{told[:-1]}, "rows": [\n{lines}\n]}}\n', "utf-8")


def parser(**told: Any) -> argparse.ArgumentParser:
    """What a grid's command line takes."""
    found = argparse.ArgumentParser(**told)
    found.add_argument("--out", type=Path)
    found.add_argument("--workers", type=int, default=1)
    found.add_argument("--stride", type=int, default=1, help="run every so many plans only")
    return found


def run(
    chosen: Sequence[dict[str, Any]], workers: int, code: str = OWN
) -> list[dict[str, Any]]:
    """A row of every plan, in order."""
    rows: list[dict[str, Any]] = []
    # A fresh process now and then gives back what torch's caches keep; one that dies is an error.
    fresh = ProcessPoolExecutor(workers, get_context("spawn"), max_tasks_per_child=50)
    with fresh as pool:
        for done, row in enumerate(pool.map(partial(measured, code=code), chosen), 1):
            rows.append(row)
            print(f"{done} of {len(chosen)}", row.get("error", ""), flush=True)
    return rows


def measured(values: dict[str, Any], code: str = OWN) -> dict[str, Any]:
    """As :func:`measure`; a failure is a row with its message."""
    try:
        return measure(values, code)
    except Exception as error:  # noqa: BLE001
        return {"fields": values, "error": f"{type(error).__name__}: {error}"}


def main(arguments: list[str] | None = None) -> None:
    """Run the grid and write it."""
    given = parser(prog="python -m accuracy.grid", description=__doc__).parse_args(arguments)
    rows = run(list(plans())[:: given.stride], given.workers)
    write(given.out or MEASURED, {"versions": versions(), **drawn(design())}, rows)


if __name__ == "__main__":
    main()
