"""Hand arithmetic; ``catalog/test_rebuild.py`` compares with peft for every model."""

from __future__ import annotations

import numpy as np
import pytest

from planner import catalog
from planner.catalog.architecture import Architecture
from planner.formulas import lora


def architecture(name: str) -> Architecture:
    found = catalog.model(name).architecture
    assert found is not None
    return found


QWEN3_4B = architecture("Qwen/Qwen3-4B")
PHI4 = architecture("microsoft/phi-4")
GPT2 = architecture("openai-community/gpt2")


def test_grade_trains_11_8_million_parameters() -> None:
    """Rank 16 on q, k, v and o of Qwen3-4B, as in document 001's code."""
    attention = ("q_proj", "k_proj", "v_proj", "o_proj")
    by_hand = 36 * 16 * ((2560 + 4096) * 2 + (2560 + 1024) * 2)
    assert by_hand == 11_796_480
    assert lora.trainable_lora_parameters(QWEN3_4B, 16, attention) == by_hand
    assert lora.lora_tensor_count(QWEN3_4B, attention) == 36 * 4 * 2


def test_a_sweep_over_ranks_is_one_call() -> None:
    ranks = np.array([8, 16, 64])
    found = lora.trainable_lora_parameters(QWEN3_4B, ranks, ("q_proj",))
    assert found.tolist() == [36 * rank * (2560 + 4096) for rank in (8, 16, 64)]


def test_all_linear_is_everything_but_the_head() -> None:
    every = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
    assert lora.lora_weights(QWEN3_4B, ("all-linear",)) == lora.lora_weights(QWEN3_4B, every)


def test_a_fused_module_gets_one_adapter_however_it_is_named() -> None:
    fused = lora.lora_weights(PHI4, ("q_proj", "v_proj"))
    assert [weight.module for weight in fused] == ["qkv_proj"]
    assert fused == lora.lora_weights(PHI4, ("qkv_proj",))
    assert [weight.module for weight in lora.lora_weights(PHI4, ("up_proj",))] == ["gate_up_proj"]


def test_gpt2_has_two_modules_of_one_name() -> None:
    def paths(*targets: str) -> list[str]:
        return [
            weight.name.removeprefix("transformer.h.{layer}.").removesuffix(".weight")
            for weight in lora.lora_weights(GPT2, targets)
        ]

    assert paths("c_proj") == ["attn.c_proj", "mlp.c_proj"]
    assert paths("o_proj") == ["attn.c_proj"]
    assert paths("down_proj") == ["mlp.c_proj"]
    assert paths("q_proj", "gate_proj") == ["attn.c_attn", "mlp.c_fc"]


@pytest.mark.parametrize("targets", [(), ("query",), ("q_proj", "lm_head"), ("proj",)])
def test_targets_that_pick_nothing_are_refused(targets: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match=r"^lora_targets: "):
        lora.lora_weights(QWEN3_4B, targets)
