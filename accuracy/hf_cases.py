"""Small configurations of transformers' Trainer, as :mod:`accuracy.trl_cases` has TRL's."""

from __future__ import annotations

from typing import Any

from accuracy.trl_cases import (
    ADAPTERS,
    AUTOCAST,
    CHECKPOINTED,
    DDP,
    FLASH,
    FP16,
    FSDP2,
    HALF,
    LONG,
    PADDED,
    ROWS,
    STATE,
    Case,
)

TRAINER: dict[str, Any] = {"framework": "hf_trainer"}
AWAY: dict[str, Any] = {"activation_offload": True, **CHECKPOINTED, **LONG}


def _case(name: str, changes: dict[str, Any], model: str = "qwen2", **more: Any) -> Case:
    return Case(f"Trainer, {name}", "sft", {**TRAINER, **changes}, model, **more)


CASES = (
    _case("fp32", {}),
    _case("accumulated, checkpointed", {**CHECKPOINTED, "prompts_per_step": 6}),
    _case("bf16 weights", HALF),
    _case("autocast", AUTOCAST),
    _case("eager, foreach", {"attention": "eager", "optimizer": "adamw-foreach"}, head="gpu"),
    _case("LoRA, checkpointed", {**AUTOCAST, **ADAPTERS, **CHECKPOINTED}),
    _case("LoRA in fp32, accumulated", {**ADAPTERS, "prompts_per_step": 6}),
    _case("padded, SGD", {**PADDED, "optimizer": "sgd"}),
    _case("tied, autocast", AUTOCAST, "qwen2, tied", head="gpu"),
    _case("long, checkpointed", {**AUTOCAST, **CHECKPOINTED, **LONG}),
    _case("four rows, padded", {**AUTOCAST, **ROWS, **PADDED}),
    _case("wide vocabulary, bf16", {**HALF, **LONG}, "wide vocabulary", head="gpu"),
    _case("wide vocabulary, LoRA", {**AUTOCAST, **ADAPTERS}, "wide vocabulary"),
    _case("Llama, autocast, foreach", {**AUTOCAST, "optimizer": "adamw-foreach"}, "llama",
          head="gpu"),
    _case("Gemma 2, eager", {"attention": "eager"}, "gemma2"),
    _case("mixture, autocast", AUTOCAST, "olmoe", head="gpu"),
    _case("Mixtral, checkpointed", CHECKPOINTED, "mixtral"),
    _case("flash, bf16 weights", {**HALF, **FLASH}),
    _case("fp16", FP16),
    _case("activations offloaded", {**AWAY, **HALF}),
    _case("LoRA, activations offloaded", {**AWAY, **AUTOCAST, **ADAPTERS}),
    _case("DDP, autocast", {**DDP, **AUTOCAST}),
    _case("DDP, LoRA, checkpointed", {**DDP, **AUTOCAST, **ADAPTERS, **CHECKPOINTED}),
    _case("FSDP2", {**FSDP2, **AUTOCAST}),
    _case(
        "FSDP2, tied, accumulated",
        {**FSDP2, **AUTOCAST, **CHECKPOINTED, "prompts_per_step": 6}, "qwen2, tied",
    ),
    _case("FSDP2, Llama, bf16 weights", {**FSDP2, **HALF}, "llama", head="gpu"),
    _case("FSDP2, LoRA", {**FSDP2, **AUTOCAST, **ADAPTERS}, "qwen3"),
    _case("state offloaded", {**STATE, **AUTOCAST}),
)
LIVE = ("Trainer, fp32", "Trainer, autocast", "Trainer, LoRA, checkpointed")
"""Names of those that every run of the tests repeats."""
