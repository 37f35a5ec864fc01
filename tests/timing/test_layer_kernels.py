"""Kernels on a layer's tape against those that torch dispatches in transformers' own layers.

Every family of the closed form, kernel by kernel: as many launches, and as many bytes but for what
the fold leaves out (statistics, tables, an index for each row). On the processor's kernels, which
are what is counted.
"""

from __future__ import annotations

from typing import Any

import pytest
import transformers
from transformers import PretrainedConfig

from evidence import Evidence
from planner.catalog import Architecture, parse_config
from planner.formulas.activations.decoder import FAMILIES
from planner.formulas.activations.setting import Setting
from planner.formulas.memory_bound import PARTS, kernels_of, setting_of, tape_bytes
from timing.dispatched import TOKENS, layer

HIDDEN: dict[str, Any] = {"hidden_size": 512, "vocab_size": 128, "pad_token_id": 0}
GROUPED = {**HIDDEN, "num_attention_heads": 8, "num_key_value_heads": 2, "intermediate_size": 1536}
HEADS_OF_64 = {**GROUPED, "head_dim": 64}
ALIKE = {**GROUPED, "num_key_value_heads": 8}
EXPERTS = {"num_experts": 16, "num_experts_per_tok": 4}
STILL = {"residual_dropout": 0.0, "embedding_dropout": 0.0}
GPT2 = {
    **{"n_embd": 512, "n_head": 8, "vocab_size": 128, "bos_token_id": 0, "eos_token_id": 0},
    **{f"{where}_pdrop": 0.0 for where in ("resid", "attn", "embd")},
}
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("Llama", HEADS_OF_64),
    "llama, heads alike": ("Llama", ALIKE),
    "mistral": ("Mistral", {**HEADS_OF_64, "sliding_window": None}),
    "qwen2": ("Qwen2", GROUPED),
    "qwen3": ("Qwen3", HEADS_OF_64),
    "gemma2": ("Gemma2", HEADS_OF_64),
    "gemma3_text": ("Gemma3Text", HEADS_OF_64),
    "phi3": ("Phi3", {**GROUPED, "partial_rotary_factor": 0.5}),
    "smollm3": ("SmolLM3", GROUPED),
    "starcoder2": ("Starcoder2", {**GROUPED, **STILL}),
    "glm": ("Glm", HEADS_OF_64),
    "glm4": ("Glm4", HEADS_OF_64),
    "olmo2": ("Olmo2", GROUPED),
    "olmo3": ("Olmo3", ALIKE),
    "gpt_neox": ("GPTNeoX", {**HIDDEN, "num_attention_heads": 8, "intermediate_size": 2048}),
    "gpt2": ("GPT2", GPT2),
    "qwen3_moe": ("Qwen3Moe", {**HEADS_OF_64, **EXPERTS, "moe_intermediate_size": 256}),
    "olmoe": ("Olmoe", {**ALIKE, **EXPERTS}),
    "mixtral": ("Mixtral", {**GROUPED, "num_local_experts": 8, "num_experts_per_tok": 2}),
}
AUTOCAST = ("llama", "qwen2", "qwen3", "gemma3_text", "phi3", "olmo2", "gpt_neox", "gpt2")
CASES = [
    *((name, "bf16", "eager" if name == "gemma2" else "sdpa") for name in MODELS),
    *((name, "bf16", "eager") for name in ("llama", "olmo3", "gpt_neox", "gpt2")),
    *((name, "autocast", "sdpa") for name in AUTOCAST),
    *(("llama", how, "eager") for how in ("autocast", "fp32")),
    *((name, "frozen", "sdpa") for name in ("qwen2", "gemma3_text", "gpt_neox", "mixtral")),
]
EVIDENCE = Evidence(
    "layer-kernels",
    of=("timing.dispatched",),
    kinds={"/".join(case): case[1] for case in CASES},
)
WITHIN = {("gpt_neox", "autocast"): 0.03}
"""Autocast joins a rotated part in fp32 with the rest, which the fold reads as it was."""


def config(name: str, layers: int) -> PretrainedConfig:
    kind, sizes = MODELS[name]
    return getattr(transformers, f"{kind}Config")(num_hidden_layers=layers, **sizes)


def architecture(name: str) -> Architecture:
    kind, _ = MODELS[name]
    head = "GPT2LMHeadModel" if kind == "GPT2" else f"{kind.removesuffix('Text')}ForCausalLM"
    found = parse_config({**config(name, 2).to_dict(), "architectures": [head]})
    arch = getattr(found, "architecture", found)
    assert isinstance(arch, Architecture), found
    return arch


def setting(arch: Architecture, how: str, attention: str) -> Setting:
    value_bytes = 4 if how == "fp32" else 2
    mode: Any = "autocast" if how == "autocast" else "eager"
    asked = setting_of(mode, value_bytes, attention, arch.sparse_layers > 0, how != "frozen")
    return asked._replace(kernels="cpu")


def test_every_family_is_counted() -> None:
    assert {architecture(name).family for name in MODELS} == {*FAMILIES}


@pytest.mark.parametrize(("name", "how", "attention"), CASES)
def test_the_tapes_kernels_are_those_that_torch_dispatches(
    name: str, how: str, attention: str
) -> None:
    arch = architecture(name)
    ran = setting(arch, how, attention)
    counted = EVIDENCE.figures(
        f"{name}/{how}/{attention}",
        [config(name, 1).to_dict(), how, attention],
        lambda: layer(lambda layers: config(name, layers), how, attention),
    )
    assert len(kernels_of(arch, ran)) == counted[0][1]
    # A square's slope over rows of 1 and 2 times TOKENS is three rows' worth a token.
    shapes = {**PARTS, "scores": ("score",)}
    square = 3 * TOKENS
    for which in (0, 1):
        found = tape_bytes(arch, ran, bool(which), shapes)
        moved = sum(found.values()) + (square - 1) * found["scores"]
        assert moved == pytest.approx(counted[which][0], rel=WITHIN.get((name, how), 0.015))
