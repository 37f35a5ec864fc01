"""litgpt's table of finetuning runs on A10Gs, from the configs it names.

Read at commit 26857050: bf16 throughout (weights, adapters, AdamW's state), no checkpointing on
one GPU, FSDP with checkpointed blocks on several for full finetuning; the table's LoRA figures of
four GPUs are those of one. Rows are padded to the longest of a micro-batch and cut at
``max_seq_length``; the longest of the data set comes first.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from accuracy.peaks.outside import GEMMA_2B, PHI_2, STABLELM_ALPHA_3B, fields_of
from accuracy.peaks.planned import NO_SUM, How, Left, Planned, nothing
from accuracy.peaks.rows import Row
from accuracy.quantity import Addition
from planner.formulas import state
from planner.formulas.parameters import weights as weights_of
from planner.phases.scene import Scene
from planner.term import Instant

MODELS: dict[str, dict[str, str]] = {
    "gemma-2-9b": {"model": "google/gemma-2-9b"},
    "llama-2-7b": {"model": "meta-llama/Llama-2-7b-hf"},
    "llama-3-8b": {"model": "meta-llama/Llama-3.1-8B"},
    "llama-3.1-8b": {"model": "meta-llama/Llama-3.1-8B"},
    "llama-3.2-3b": {"model": "meta-llama/Llama-3.2-3B"},
    "mistral-7b": {"model": "mistralai/Mistral-7B-v0.1"},
    "mistral-7b-v0.2": {"model": "mistralai/Mistral-7B-v0.1"},
    "Phi-3-mini-4k-instruct": {"model": "microsoft/Phi-3-mini-4k-instruct"},
    "gemma-2b": fields_of(GEMMA_2B),
    "phi-2": fields_of(PHI_2),
    "stablelm-base-alpha-3b": fields_of(STABLELM_ALPHA_3B),
}
"""Models by the name in a row."""
GEMMA_2 = {"model": "google/gemma-2-2b"}

SAME_NAME = "gemma2-2b/"
"""Of this folder's rows the model is Gemma 2, which the table's name does not say."""

TARGETS = {
    "query": "q_proj",
    "key": "k_proj",
    "value": "v_proj",
    "projection": "o_proj",
    "mlp": "gate_proj,up_proj,down_proj",
    "head": "lm_head",
}

ASSUMED = (
    "transformers' layers for litgpt's own; every row of max_seq_length tokens; logits in chunks; "
    "AdamW as foreach"
)


def how(row: Row) -> How:
    """The plan of one row."""
    config = str(row.settings["config"])
    gemma2 = config.startswith(SAME_NAME) and row.model == "gemma-2b"
    model = GEMMA_2 if gemma2 else MODELS.get(row.model)
    if model is None:
        return Left(reason=NO_SUM.format(model=row.model))
    if "precision" not in row.settings:
        return Left(reason="litgpt: the row states neither precision nor adapters")
    targets = row.settings.get("lora_targets", [])
    if "head" in targets:
        return Left(reason="litgpt: an adapter on the head, beside the plain step's loss")
    return Planned(
        group=f"litgpt {row.tuning}",
        fields=_fields(row, model, targets),
        exact=False,
        assumed=ASSUMED,
        more=_quantised if row.tuning == "qlora" else nothing,
    )


def _quantised(scene: Scene, phase: str, instant: Instant) -> Iterable[Addition]:
    """What litgpt's NF4 and the bitsandbytes of its time hold beside a plan's step."""
    yield _blocks(scene)
    if phase == "policy forward":
        yield _inputs(scene, graphs=2)
    elif phase == "policy backward":
        yield _inputs(scene, graphs=1)
    if "chunk" in instant.name:
        yield Addition(
            bytes=scene.q.compute_bytes * _head(scene),
            why="the head, in 4 bits too, widened for each chunk",
        )


def _blocks(scene: Scene) -> Addition:
    """``bnb.nf4``: an fp32 scale for each 64 values, and no second quantisation; the head too."""
    head = _head(scene)
    linear = head + _projections(scene)
    here = linear // 2 + 4 * (linear // 64)
    there = state.FOUR_BIT_WEIGHTS.value(quantised=linear - head) + scene.q.compute_bytes * head
    return Addition(bytes=int(here - there), why="fp32 scales, and the head in 4 bits")


def _inputs(scene: Scene, *, graphs: int) -> Addition:
    """Inputs of all 4-bit products of a layer, which no other operation of it saves.

    Until July 2024 (its pull request 1270) bitsandbytes' ``MatMul4Bit`` kept its input as an
    attribute of the graph's node (``ctx.tensors = (A, B)``), which no backward frees; litgpt's
    ``loss`` holds a graph until the next forward has a loss.
    """
    arch = scene.policy.arch
    # Of queries, keys and values one; of the output; of gate and up one; of down.
    each = 2 * arch.hidden + arch.heads * arch.head_dim + arch.intermediate
    size = arch.layers * scene.q.compute_bytes * each * scene.q.micro_tokens
    return Addition(
        bytes=int(graphs * size),
        why="inputs of 4-bit products, kept by their nodes until the graph goes"
        + (", and those of the graph before" if graphs > 1 else ""),
    )


def _projections(scene: Scene) -> int:
    listed = weights_of(scene.policy.arch, "lm")
    return int(sum(weight.total_elements for weight in listed if weight.kind == "linear"))


def _head(scene: Scene) -> int:
    return int(scene.policy.arch.vocab * scene.policy.arch.hidden)


def _fields(row: Row, model: dict[str, str], targets: list[str]) -> dict[str, Any]:
    size, sharded = row.settings["micro_batch_size"], row.tuning == "full" and row.gpus > 1
    gpus = row.gpus if sharded else 1
    # The table's configs accumulate, so that gradients of earlier micro-batches are there.
    fields: dict[str, Any] = {
        **model,
        "method": "sft",
        # Fabric's no_backward_sync reduces once an update, as TRL's trainer does.
        "framework": "trl" if sharded else "plain",
        "gpu": "a10g",
        "gpus": gpus,
        "gpus_per_node": 8,
        "sharding": "fsdp1" if sharded else "none",
        "dtype": "bf16",
        "master_dtype": "none",
        "gradient_dtype": "bf16",
        "batch_shape": "padded",
        "attention": "eager" if "gemma-2" in model.get("model", "") else "sdpa",
        "optimizer": "adamw-foreach",
        "prompts_per_step": 2 * size * gpus,
        "prompts_per_update": 2 * size * gpus,
        "micro_batch_size": size,
        "prompt_tokens": 1,
        "response_tokens": row.settings["max_seq_length"] - 1,
        "gradient_checkpointing": "full" if sharded else "none",
        "logits": "chunked",
    }
    if row.tuning != "full":
        fields |= {
            "finetuning": row.tuning,
            "lora_rank": row.settings["lora_r"],
            "lora_targets": ",".join(TARGETS[name] for name in targets),
            "lora_dropout": 0.05,
        }
    return fields
