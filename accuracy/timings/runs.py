"""RL runs: whole steps where a plan can say how they trained, else the rollout alone.

Sources that publish a mean say nothing of the spread: it is that of the shape that the planner
offers (planner/lengths/typical.py).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from accuracy.timings.planned import LESSER, How, Left, Planned, card, model, parallel
from accuracy.timings.rows import Row
from planner.lengths.text import to_text
from planner.lengths.typical import typical
from planner.lengths.value import clipped

UNSAID = "the source does not say which card, or how many"
SET = "its project has set a constant of the time model since the split"
NO_LENGTHS = "neither lengths nor their caps are published"
CAPS = "lengths are not published: planned at their caps"
ROLLOUT_ALONE = "training is parallel in ways that no plan has, so the rollout alone is compared"

PROMPT_OF_MATHS = 200
"""Tokens of a maths question behind its template, where a source has caps alone: an assumption."""


MEASURED = "Qwen/Qwen3.5"
"""Models whose memory only the dry run knows: it has padded rows, not packed ones."""


def how(row: Row) -> How:
    """A run's row as a plan; ``KeyError`` for a project that nobody mapped."""
    known: dict[str, Callable[[Row], How]] = {
        "verl-project/verl": _verl,
        "OpenRLHF/OpenRLHF": lambda _: Left(reason=NO_LENGTHS),
        "RLinf/RLinf": _rlinf,
        "hiyouga/EasyR1": lambda _: Left(reason="images beside text"),
        "huggingface/open-r1": _open_r1,
        "NVIDIA-NeMo/RL": _nemo,
        "NovaSky-AI/SkyRL": lambda _: Left(reason=SET),
        "rllm-org/rllm": _rllm,
        "inclusionAI/AReaL": lambda _: Left(reason=NO_LENGTHS),
        "NVIDIA/NeMo-Aligner": lambda _: Left(reason="an engine that no plan has (TensorRT-LLM)"),
        "deepspeedai/DeepSpeedExamples": lambda _: Left(
            reason="an engine that no plan has (DeepSpeed's hybrid one)"
        ),
    }
    if row["gpu"] is None or row["gpus"] is None:
        return Left(reason=UNSAID)
    return known[row.project](row)


def _plan(row: Row, **more: Any) -> dict[str, Any]:
    """What all runs share; responses as :func:`lengths` where their mean is known, else capped.

    1,024 sequences at once are verl's default, and vLLM's on cards of 70 GiB and more.
    """
    told = row["parallel"]
    cap, mean = row["response_tokens_cap"], row["response_tokens_mean"]
    measured = model(row).startswith(MEASURED)
    return {
        "model": model(row),
        "method": "grpo",
        "gpu": card(row),
        "gpus": row["gpus"],
        "sharding": "fsdp2",
        "batch_shape": "padded" if measured else "packed",
        "attention": "sdpa" if measured else "flash",
        "rollout": "vllm-colocated",
        "rollout_tensor_parallel": told.get("gen_tp", 1),
        "max_num_seqs": 1024,
        "async_scheduling": not _in_turn(row),
        "response_tokens": round(cap),
        "length_distribution": lengths(mean, round(cap)) if mean else "",
        "kl": "none",
        **more,
    }


def _in_turn(row: Row) -> bool:
    """Whether its vLLM is from before 0.14 (January 2026), the first to schedule beside the card.

    By the date that the row gives as its version; a version alone says nothing of its engine's.
    """
    return bool(re.search(r"20(23|24|25)-", row["version"] or ""))


def lengths(mean: float, cap: int) -> str:
    """The offered shape, as wide as it is, moved until its mean under the cap is this one."""

    def under(scale: int) -> float:
        shape = typical(scale)
        return float(clipped(shape.bins, shape.longest, cap).mean)

    low, high = 1, 64 * cap
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if under(middle) < mean else (low, middle)
    return to_text(typical(low))


def _verl(row: Row) -> How:
    if row["method"] == "weight sync":
        return _sync(row)
    if "VLM" in row["model"]:
        return Left(reason="images beside text")
    split = parallel(row)
    mini = re.search(r"mini batch (\d+)", row["other"])
    common = {
        "prompts_per_step": row["prompts_per_step"],
        "responses_per_prompt": row["responses_per_prompt"],
        "prompts_per_update": int(mini[1]) if mini else row["prompts_per_step"],
    }
    if row["responses_per_prompt"] is None:
        return Left(reason=f"{split}-parallel training, and no rollout of its own is published")
    separate = re.search(r"(\d+) (?:rollout \+ (\d+) train|train \+ (\d+) rollout)", row["other"])
    prompts = {"prompt_tokens": 512 if "GSM8K" in row["other"] else 2048}
    lesser = LESSER.get(row["gpu"], "")
    if split:
        if separate or "rollout" not in row.figures:
            return Left(reason=f"{split}-parallel training, and no rollout of its own is published")
        return Planned(
            fields=_plan(row, **common, **prompts),
            lengths=False,
            only=("rollout",),
            assumed="; ".join(part for part in (ROLLOUT_ALONE, CAPS, lesser) if part),
        )
    if separate:
        engine = int(separate[1] if separate[2] else separate[3])
        common |= {"rollout": "vllm-separate", "rollout_gpus": engine}
        common |= {"rollout_overlap": "asynchronous"}
    if "GSM8K" in row["other"]:
        common |= {"kl": "loss", "max_tokens_per_micro_batch": 3000}
    return Planned(
        fields=_plan(row, **common, **prompts),
        lengths=False,
        assumed=CAPS + ("; tools' latency is in the rollout" if "tool" in row["other"] else ""),
    )




def _sync(row: Row) -> How:
    half = row["gpus"] // 2
    return Planned(
        fields={
            "model": model(row),
            "method": "grpo",
            "gpu": card(row),
            "gpus": row["gpus"],
            "sharding": "fsdp2",
            "rollout": "vllm-separate",
            "rollout_gpus": half,
            "prompts_per_step": half,
            "responses_per_prompt": 2,
            "kl": "none",
        },
        only=("weight sync",),
        assumed="Megatron's shards planned as FSDP2's; with its checkpoint engine or without, "
        "one plan",
    )


def _rlinf(row: Row) -> How:
    return Planned(
        fields=_plan(
            row,
            prompts_per_step=32,
            responses_per_prompt=16,
            prompt_tokens=PROMPT_OF_MATHS,
            gpu_memory_utilization=0.55,
            max_num_seqs=64,
            async_scheduling=True,
        ),
        only=("rollout",),
        exact=True,
        # examples/math/config/qwen2.5-1.5b-grpo-megatron.yaml: attention_backend, top_k. Attention
        # is 0.7 of what is predicted, at 0.9 of the card's bandwidth as FlashAttention's table has
        # it; kernels that pack no query heads were seen to take 2.2 times as long at such sizes
        # (sgl-project/sglang issue 5630, H20, 64 rows behind 12,000 tokens).
        assumed=ROLLOUT_ALONE + "; batch of its config (512 of 16 a prompt, 64 a card), maths "
        "questions of 200 tokens; SGLang, which schedules beside the card, as vLLM; its config "
        "decodes with Triton's attention, which has no table, planned with FlashAttention's",
    )


def _open_r1(row: Row) -> How:
    return Planned(
        fields=_plan(
            row,
            sharding="zero2",
            gradient_dtype="bf16",
            rollout="vllm-separate",
            rollout_gpus=1,
            gpu_memory_utilization=0.7,
            batch_shape="padded",
            prompts_per_step=2,
            responses_per_prompt=7,
            micro_batch_size=2,
            prompt_tokens=PROMPT_OF_MATHS,
            kl="loss",
        ),
        rounds=8,
        assumed="maths questions of 200 tokens; TRL of 2025-02 generated anew for each of eight "
        "accumulated micro-batches: eight plain steps of one, seven updates too many",
    )


def _nemo(row: Row) -> How:
    split = parallel(row)
    if split:
        return Left(reason=f"{split}-parallel training, and no rollout of its own is published")
    if "distillation" in row["method"]:
        return Left(reason="distillation")
    prompt = int(_found(r"mean prompt ~(\d+)", row["note"]))
    apart = re.search(r"(\d+) train \+ (\d+) generation", row["note"])
    more: dict[str, Any] = {}
    if apart:
        more = {"rollout": "vllm-separate", "rollout_gpus": int(apart[2])}
        more |= {"rollout_overlap": "one-step-off"}
    samples = row["prompts_per_step"] * row["responses_per_prompt"]
    cap = row["sequence_tokens"]
    return Planned(
        fields=_plan(
            row,
            sharding="zero1",
            gpus_per_node=4,
            prompts_per_step=row["prompts_per_step"],
            responses_per_prompt=row["responses_per_prompt"],
            prompts_per_update=512 // row["responses_per_prompt"],
            micro_batch_size=row["micro_batch"],
            max_tokens_per_micro_batch=4096,
            gpu_memory_utilization=0.6,
            prompt_tokens=prompt,
            response_tokens=cap - prompt,
            length_distribution=lengths(row["response_tokens_mean"], cap - prompt),
            kl="loss",
            **more,
        ),
        exact=True,
        tokens=samples * (prompt + row["response_tokens_mean"]),
        assumed="Megatron without tensor or pipeline parallelism as data parallel with a sharded "
        "optimizer; its recipe checkpoints layers and packs rows of 4,096",
    )


def _rllm(row: Row) -> How:
    return Planned(
        fields=_plan(
            row,
            sharding="fsdp1",
            prompts_per_step=row["prompts_per_step"],
            responses_per_prompt=row["responses_per_prompt"],
            prompts_per_update=64,
            max_tokens_per_micro_batch=32768,
            prompt_tokens=1024,
            kl="loss",
        ),
        lengths=False,
        assumed=f"{CAPS}; batches of DeepScaleR's script",
    )


def _found(pattern: str, text: str) -> str:
    found = re.search(pattern, text)
    if found is None:
        raise ValueError(f"{pattern!r} is not in {text[:60]!r}.")
    return found[1]
