"""prime-rl's trainer: FSDP2, fp32 masters, checkpointed layers, a chunked head.

Its baselines state every setting (benchmarks/scripts/run_single_benchmark.py) and report
``max_memory_reserved`` of rank 0 of the trainer. Source of the differences: prime-rl of
early 2026, read 2026-11: ``trainer/model.py``, ``trainer/sft/train.py``,
``trainer/models/layers/lm_head.py``, ``trainer/models/layers/lora/multi_linear.py``.
"""

from __future__ import annotations

from typing import Any

from accuracy.prediction import Mapping, Predicted, Unpredicted
from accuracy.quantity import Addition, Answer, not_compiled, peak, scene
from planner.formulas import state
from planner.formulas.logits.pieces import LOGITS
from planner.plan import Plan

FP32_BYTES = 4
RUNS_AT_ONCE = 4
"""``--max-concurrent-runs``: each adapted layer has that many adapters."""

ASSUMED = (
    "plain step, fsdp2, packed rows, flash attention, fused AdamW, two micro-batches of one "
    "row, every token scored. The fused head is planned with tiles of 4,096 × 32,768, while "
    "prime-rl's chunks are 2,048 × 8,192 in fp32: either head needs less memory than the peak."
)
FULL_NOTE = (
    "The estimate traces a layer that compiles whole. prime-rl compiles checkpointed layers "
    "whose flash attention comes from a package, through Transformers' attention interface; "
    "where that breaks the graph, what is recomputed is closer to an eager layer."
)
ADAPTERS_NOTE = (
    "prime-rl loads frozen weights in optimization_dtype (fp32), and each layer has four adapters. "
    "The adapters compute in bf16."
)
OFFLOAD_NOTE = ADAPTERS_NOTE + " The inputs of all layers are offloaded."
MOE = "mixture of experts in prime-rl's own modules; those of transformers are derived, not these"


def fields(
    model: str, gpu: str, gpus: int, row_tokens: int, *, offload: bool = False, rank: int = 0
) -> dict[str, Any]:
    """A plan of the RL trainer; the engine's GPUs hold nothing that is compared."""
    return {
        **_common(model, gpu, row_tokens, offload, rank),
        "method": "grpo",
        "gpus": 2 * gpus,
        "gpus_per_node": 2 * gpus,
        "rollout": "vllm-separate",
        "rollout_gpus": gpus,
        "prompts_per_step": gpus,
        "responses_per_prompt": 2,
        "kl": "none",
        "logits": "fused",
    }


def _common(model: str, gpu: str, row_tokens: int, offload: bool, rank: int) -> dict[str, Any]:
    chosen: dict[str, Any] = {
        "model": model,
        "gpu": gpu,
        "sharding": "fsdp2",
        "prompt_tokens": 1,
        "response_tokens": row_tokens - 1,
        "batch_shape": "packed",
        "attention": "flash",
        "micro_batch_size": 1,
        "gradient_checkpointing": "full",
        "activation_offload": offload,
        "compile": True,
        "optimizer": "adamw-fused",
    }
    adapters = {"finetuning": "lora", "lora_rank": rank, "base_dtype": "fp32"}
    return chosen | (adapters if rank else {})


def _reserved(plan: Plan | None) -> Answer:
    assert plan is not None
    return peak(
        plan,
        "reserved",
        additions=_adapter_additions(plan),
        variants=not_compiled(plan, "reserved"),
    )


def _adapter_additions(plan: Plan) -> tuple[Addition, ...]:
    """What LoRA rows hold beyond the plan, from the formulas of the same state."""
    if plan.finetuning != "lora":
        return ()
    policy, shards = scene(plan).policy, scene(plan).q.shards
    more = (RUNS_AT_ONCE - 1) * policy.adapters
    sizes = {"shards": shards, "value_bytes": FP32_BYTES}
    adapters = (
        state.ADAPTERS.value(adapter_parameters=more, **sizes)
        + state.GRADIENTS.value(trainable=more, **sizes)
        + state.ADAM_MOMENTS.value(trainable=more, **sizes)
    )
    return (Addition(bytes=int(adapters), why="three more adapters a layer, with their state"),)


def _sft_reserved(plan: Plan | None) -> Answer:
    assert plan is not None
    here = scene(plan)
    sizes = {"tokens": here.q.micro_tokens, "vocab": here.policy.arch.vocab}
    return peak(
        plan,
        "reserved",
        additions=(
            Addition(
                bytes=int(LOGITS.value(item_bytes=FP32_BYTES, **sizes)),
                why="fp32 logits still named (`out`) while the loss goes backward",
            ),
        ),
    )


def _id(machine: str, model: str, kind: str, recompute: str, flash: int, tokens: int) -> str:
    return (
        f"prime-rl-{machine}-{model.replace('/', '--')}-{kind}-{recompute}"
        f"-flash_attention_{flash}-{tokens}-cp1-ep1"
    )


SMALL, MEDIUM = "Qwen/Qwen3-0.6B", "Qwen/Qwen3-4B-Instruct-2507"
RL_ROWS = (
    ("1xa6000", "rtx-a6000", SMALL, 1, "rl-full-1gpu", "Recompute", 2, 16384),
    ("1xh100", "h100-80gb", SMALL, 1, "rl-16-1gpu", "Offload", 3, 65536),
    ("1xh100", "h100-80gb", SMALL, 1, "rl-16-1gpu", "Recompute", 3, 65536),
    ("1xh100", "h100-80gb", SMALL, 1, "rl-full-1gpu", "Recompute", 3, 16384),
    ("1xh100", "h100-80gb", MEDIUM, 1, "rl-16-1gpu", "Offload", 3, 16384),
    ("1xh100", "h100-80gb", MEDIUM, 1, "rl-16-1gpu", "Recompute", 3, 16384),
    ("8xh100", "h100-80gb", MEDIUM, 8, "rl-16-8gpu", "Recompute", 3, 65536),
    ("8xh100", "h100-80gb", MEDIUM, 8, "rl-full-8gpu", "Recompute", 3, 65536),
)
"""Machine, card, model, GPUs, tuning, recompute, flash version, tokens."""

SFT = Predicted(
    id=_id("1xh100", SMALL, "sft-full-1gpu", "Recompute", 3, 16384),
    level="reserved",
    fields={
        **_common(SMALL, "h100-80gb", 16384, False, 0),
        "method": "sft",
        "gpus": 1,
        "prompts_per_step": 2,
        "logits": "full",
    },
    answer=_sft_reserved,
    comparable="approximate",
    assumed="as the RL rows, with materialised logits and Hugging Face's loss.",
    note="The plan's step drops its logits before the backward; prime-rl deletes `logits` but "
    "keeps `out`, which holds the same tensor. The caching allocator keeps the segment "
    "of the bf16 logits, which no fp32 tensor can use; the estimate counts that segment.",
)

MOE_ROWS = (
    ("8xb200", "PrimeIntellect/INTELLECT-3", "rl-16-8gpu", "Recompute", 2, 65536),
    ("8xb200", "Qwen/Qwen3-235B-A22B-Instruct-2507", "rl-16-8gpu", "Recompute", 2, 16384),
    ("8xh100", "Qwen/Qwen3-30B-A3B-Instruct-2507", "rl-16-8gpu", "Recompute", 3, 16384),
    ("8xh100", "Qwen/Qwen3-30B-A3B-Instruct-2507", "rl-full-8gpu", "Recompute", 3, 16384),
    ("8xh200", "PrimeIntellect/INTELLECT-3", "rl-16-8gpu", "Offload", 2, 65536),
    ("8xh200", "PrimeIntellect/INTELLECT-3", "rl-16-8gpu", "Offload", 3, 65536),
    ("8xh200", "Qwen/Qwen3-30B-A3B-Instruct-2507", "rl-full-8gpu", "Recompute", 3, 65536),
)


def mappings() -> tuple[Mapping, ...]:
    """Every prime-rl row."""
    found: list[Mapping] = [SFT]
    for machine, card, model, gpus, kind, recompute, flash, tokens in RL_ROWS:
        adapters = kind.startswith("rl-16")
        offload = recompute == "Offload"
        found.append(
            Predicted(
                id=_id(machine, model, kind, recompute, flash, tokens),
                level="reserved",
                fields=fields(
                    model, card, gpus, tokens, offload=offload, rank=16 if adapters else 0
                ),
                answer=_reserved,
                comparable="approximate" if adapters else "like for like",
                assumed=ASSUMED,
                note=FULL_NOTE if not adapters else (OFFLOAD_NOTE if offload else ADAPTERS_NOTE),
            )
        )
    found += [
        Unpredicted(id=_id(machine, model, kind, recompute, flash, tokens), reason=MOE)
        for machine, model, kind, recompute, flash, tokens in MOE_ROWS
    ]
    return tuple(found)
