"""fms-acceleration's benchmark: Hugging Face's Trainer by TRL's SFTTrainer, on A100s of 80 GB.

Read at commit 876e2ed, ``scripts/benchmarks``: defaults.yaml (checkpointing, flash attention,
AdamW, one process a GPU), scenarios*.yaml (dtypes, adapters with a dropout of 0.1),
accelerate.yaml (FSDP1, ``mixed_precision: no``, TRANSFORMER_BASED_WRAP). Rows of alpaca-cleaned
are packed to the tokens that the throughput gives; those of orca-math are padded to the longest of
their batch or concatenated, and only their mean length is known.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from accuracy.peaks.compare import Compared
from accuracy.peaks.outside import POWERLM_3B, fields_of
from accuracy.peaks.planned import NO_SUM, How, Left, More, Planned
from accuracy.peaks.rows import Row
from accuracy.quantity import Addition
from accuracy.quantity import scene as scene_of_plan
from planner.catalog.config_json import encode_config
from planner.estimate import phase_plans
from planner.phases.scene import Scene
from planner.term import Instant

LLAMA_2_70B = {
    "model_type": "llama",
    "vocab_size": 32000,
    "hidden_size": 8192,
    "intermediate_size": 28672,
    "num_hidden_layers": 80,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "tie_word_embeddings": False,
}
MODELS: dict[str, dict[str, Any]] = {
    "mistralai/Mistral-7B-v0.1": {"model": "mistralai/Mistral-7B-v0.1"},
    "meta-llama/Meta-Llama-3-8B": {"model": "meta-llama/Llama-3.1-8B"},
    "mistralai/Mixtral-8x7B-Instruct-v0.1": {"model": "mistralai/Mixtral-8x7B-v0.1"},
    "NousResearch/Llama-2-70b-hf": {"config": encode_config(LLAMA_2_70B)},
    "ibm/PowerLM-3b": fields_of(POWERLM_3B),
}
"""Models by the name in a row."""

TARGETS = "q_proj,k_proj,v_proj,o_proj"
PACKED_FROM = 2000
"""Tokens a row from which on rows are packed ones: means of padded rows are below 600."""
WIDENS_IN_LOSS = "transformers 4.48"
"""Its ``ForCausalLMLoss`` widens logits that keep their name; before, the model did, and 5 pads
labels.
"""

ASSUMED = (
    "plain step with Hugging Face's loss on all logits; FSDP1 of layers over several GPUs; AdamW "
    "as foreach; rows of the tokens that the throughput gives, packed to 4,096 where it says so"
)
MEAN_ONLY = (
    ASSUMED + ". Padded or concatenated rows are planned at their mean length; over several GPUs "
    "they are planned as TRL's, whose trainer reduces accumulated gradients once per update"
)
NO_KERNELS = (
    ASSUMED + ". FOAK's and Liger's kernels are planned as transformers' own layers and loss"
)

WIDE = (
    ". k-bit preparation without autocast computes in fp32 around 4-bit products; planned as under "
    "autocast"
)


def how(row: Row) -> How:
    """The plan of one row."""
    config = str(row.settings["framework_config"])
    if "gptq" in config:
        return Left(reason="GPTQ weights: no field says")
    if "moe-scattermoe" in config:
        return Left(reason="experts by ScatterMoE: not modelled")
    if "santacoder" in row.model:
        return Left(reason="GPT-BigCode's own loss, of half-precision logits: no field says")
    if row.model not in MODELS:
        return Left(reason=NO_SUM.format(model=row.model))
    quantised, adapted = "bnb" in config, row.tuning.startswith("LoRA")
    if quantised and row.gpus > 1:
        return Left(reason="4-bit weights under FSDP: not modelled")
    autocast = bool(row.settings.get("bf16_amp") or row.settings.get("fp16_amp"))
    kernels = "foak" in config
    wide = quantised and _prepares(config) and not autocast
    tokens = row.settings.get("tokens_per_sample_from_throughput") or 4096
    mean_only = tokens < PACKED_FROM
    if adapted and mean_only:
        return Left(reason="adapters on rows of which only the mean length is known")
    return Planned(
        group=_group(row, config, mean_only=mean_only, kernels=kernels),
        fields=_fields(row, tokens, autocast=autocast, quantised=quantised),
        exact=not (kernels or mean_only or wide),
        assumed=_assumed(kernels=kernels, mean_only=mean_only, wide=wide),
        more=_more(row, adapted=adapted, autocast=autocast, wide=wide),
        otherwise=wide,
    )


HOOKED = "first layer's backward"
"""Instant until which FSDP1's hooks hold something of every frozen layer."""


def decided_by_kernels(item: Compared) -> str:
    """Why a row with FOAK's kernels is left, or nothing.

    Its plan has transformers' own layers and loss, which keep no less than fused ones. Where even
    these peak in the optimizer step, the kernels decide nothing; nor where they peak in the first
    layer's backward with what FSDP1's hooks hold of all layers, as many bytes with the kernels.
    """
    kernels = "foak" in str(item.row.settings["framework_config"])
    if not kernels or item.row.outcome != "ran" or item.instant.startswith("optimizer step"):
        return ""
    if item.additions and item.instant.endswith(HOOKED):
        return ""
    return "FOAK's fused kernels decide the peak: no field says"


def _assumed(*, kernels: bool, mean_only: bool, wide: bool) -> str:
    found = NO_KERNELS if kernels else MEAN_ONLY if mean_only else ASSUMED
    return found + WIDE * wide


def _group(row: Row, config: str, *, mean_only: bool, kernels: bool) -> str:
    tuned = row.tuning.split(" ")[0]
    kind = tuned if "bnb" not in config else "QLoRA, prepared" if _prepares(config) else "QLoRA"
    words = [f"fms {kind}", f"{row.gpus} GPU{'s' * (row.gpus > 1)}"]
    words += ["mean lengths only"] * mean_only + ["with FOAK's kernels"] * kernels
    return ", ".join(words)


def _fields(row: Row, tokens: int, *, autocast: bool, quantised: bool) -> dict[str, Any]:
    rows, gpus = row.settings["per_device_train_batch_size"], row.gpus
    half = "bf16" if row.settings["torch_dtype"] == "bfloat16" else "fp16"
    adapted = row.tuning.startswith("LoRA")
    # accelerate widens trained weights under FSDP where the trainer asks for mixed precision.
    wide = adapted or (autocast and gpus > 1)
    each = rows * gpus * row.settings["gradient_accumulation_steps"]
    fields = {
        **MODELS[row.model],
        "method": "sft",
        "framework": _framework(row),
        "gpu": "a100-80gb",
        "gpus": gpus,
        "gpus_per_node": 8,
        "sharding": "none" if gpus == 1 else "fsdp1",
        "dtype": half,
        "master_dtype": "fp32" if wide else "none",
        "gradient_dtype": "fp32" if wide else half,
        "batch_shape": "full" if tokens >= PACKED_FROM else _shape(row),
        "attention": "flash",
        "optimizer": "adamw-foreach",
        "prompts_per_step": each,
        "prompts_per_update": each,
        "micro_batch_size": rows,
        "prompt_tokens": 1,
        "response_tokens": _rounded(tokens) - 1,
        "gradient_checkpointing": "full",
        "logits": "full",
    }
    if adapted:
        more = {"lora_rank": 16, "lora_targets": TARGETS, "lora_dropout": 0.1}
        fields |= {"finetuning": "qlora" if quantised else "lora", **more}
        fields |= {"autocast": True} if autocast else {}
        if quantised and _prepares(str(row.settings["framework_config"])):
            fields["base_dtype"] = "fp32"
    return fields


def _prepares(config: str) -> bool:
    """Whether peft's prepare_model_for_kbit_training ran: accelerated configurations skip it."""
    return "baseline" in config


def _framework(row: Row) -> str:
    """TRL where FSDP accumulates: its trainer reduces once an update, the plain step each time."""
    accumulates = row.settings["gradient_accumulation_steps"] > 1 and row.gpus > 1
    return "trl" if accumulates else "plain"


def _shape(row: Row) -> str:
    return "packed" if "padding-free" in str(row.settings["framework_config"]) else "padded"


def _rounded(tokens: int) -> int:
    """Packed rows are of 4,096 or 2,048 tokens: throughput gives them to a few tokens."""
    return next((size for size in (2048, 4096) if abs(tokens - size) < 32), tokens)


def _more(row: Row, *, adapted: bool, autocast: bool, wide: bool) -> More:
    """What transformers, accelerate and FSDP1 of that time hold beside a plan's step."""
    copies = WIDENS_IN_LOSS in row.version
    frozen_units = adapted and row.gpus > 1

    def more(scene: Scene, phase: str, instant: Instant) -> Iterable[Addition]:
        if copies and instant.name == "cross entropy":
            yield _shifted_logits(scene)
        if wide and instant.name == "cross entropy":
            yield _never_lowered(instant)
        if frozen_units and instant.name == HOOKED:
            yield _kept_by_hooks(scene)
            if not autocast:
                yield _wide_adapters(scene)

    return more


def _shifted_logits(scene: Scene) -> Addition:
    tokens = scene.q.micro_tokens - scene.q.micro_sequences
    return Addition(
        bytes=int(4 * scene.policy.arch.vocab * tokens),
        why="fp32 logits without each row's last one, copied by transformers before 4.50",
    )


LOWERED = ("logits still named", "autocast weight copies")


def _never_lowered(instant: Instant) -> Addition:
    """Half-precision logits, and autocast's copies of the weights that made them, are not there.

    k-bit preparation has the head in fp32 (peft 0.13.2 ``utils/other.py``), and without autocast it
    multiplies in that: ``logits.float()`` of transformers' loss answers what it was given.
    """
    return Addition(
        bytes=-sum(int(term.bytes) for term in instant.everything if term.name in LOWERED),
        why="no logits in half precision: k-bit preparation's head is in fp32, without autocast",
    )


def _kept_by_hooks(scene: Scene) -> Addition:
    """FSDP1's ``_register_post_backward_reshard_only_hook``, for units whose weights are frozen.

    Its hook on the inputs that reentrant checkpointing made for the recomputation holds them, and
    with them their gradients, until the backward ends: an input and a gradient a layer, of which
    one gradient is counted with the layer that runs.
    """
    layers, hidden = scene.policy.arch.layers, scene.policy.arch.hidden
    each = hidden * scene.q.compute_bytes * scene.q.micro_tokens
    return Addition(
        bytes=int((2 * (layers - 1) - 1) * each),
        why="inputs and gradients of all layers, held by FSDP1's hooks under reentrant "
        "checkpointing",
    )


def _wide_adapters(scene: Scene) -> Addition:
    """Adapters in fp32, as on one GPU: this FSDP casts nothing (``mixed_precision: no``)."""
    plan = scene.plan
    alone = plan.changed(
        gpus=1,
        sharding="none",
        prompts_per_step=plan.micro_batch_size,
        prompts_per_update=plan.micro_batch_size,
    )
    here, there = (_layer_activations(scene_of) for scene_of in (scene, scene_of_plan(alone)))
    return Addition(bytes=there - here, why="adapters compute in fp32: this FSDP casts nothing")


def _layer_activations(scene: Scene) -> int:
    backward = next(p for p in phase_plans(scene) if p.name == "policy backward")
    first = next(i for i in backward.instants if i.name == "first layer's backward")
    return sum(int(t.bytes) for t in first.everything if t.category == "activations")
