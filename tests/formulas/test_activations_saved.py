"""Saved tensors of one layer, byte for byte, against hooks on real models."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from planner.formulas.activations.layers import record_of
from real_layers import FAMILIES, LATER, Case, saved_storages

EVERY = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
SOME = dict.fromkeys(("gpt2", "phi3", "gpt_neox", "glm", "glm4"), ("q_proj", "down_proj"))


def expected(case: Case) -> int:
    record = record_of(case.architecture, case.setting)
    return sum(case.bytes_of(label, count) for label, count in record.saved.items())


def observed(case: Case) -> int:
    return sum(size for size, _ in saved_storages(case)["layer"])


CASES = [
    Case(
        family=family,
        attention=attention,
        precision=precision,
        padded=padded,
        targets=targets,
    )
    for family in FAMILIES
    for attention in ("sdpa", "eager")
    if (family, attention) != ("gemma2", "sdpa")
    for precision in ("bf16", "fp32", "autocast-bf16")
    for padded in (False, True)
    for targets in ((), EVERY)
]
CASES += [
    Case(family=family, attention=attention, precision=precision, padded=padded, targets=targets)
    for family in LATER
    for attention in ("sdpa", "eager")
    for precision in ("bf16", "fp32", "autocast-bf16")
    for padded, targets in ((False, ()), (True, EVERY))
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_saved_bytes_equal_a_real_layer(case: Case) -> None:
    assert expected(case) == observed(case)


@pytest.mark.parametrize("family", (*FAMILIES, *LATER))
@pytest.mark.parametrize("precision", ["bf16", "autocast-bf16"])
def test_some_adapters(family: str, precision: str) -> None:
    attention = "eager" if family == "gemma2" else "sdpa"
    targets = SOME.get(family, ("q_proj", "up_proj"))
    case = Case(family=family, attention=attention, precision=precision, targets=targets)
    assert expected(case) == observed(case)


@pytest.mark.parametrize(
    "changes",
    [
        {"num_key_value_heads": 6},
        {"num_key_value_heads": 1},
        {"intermediate_size": 24, "head_dim": 40},
        {"hidden_size": 64, "num_attention_heads": 4, "head_dim": 64},
    ],
    ids=str,
)
@pytest.mark.parametrize("family", ["llama", "qwen3", "gemma3_text"])
@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_other_shapes(family: str, attention: str, changes: dict[str, int]) -> None:
    changed = tuple(sorted(changes.items()))
    for padded in (False, True):
        case = Case(
            family=family, attention=attention, padded=padded, changes=changed, rows=3, tokens=40
        )
        assert expected(case) == observed(case)


@pytest.mark.parametrize(
    ("family", "changes"),
    [
        ("gpt_neox", {"use_parallel_residual": False}),
        ("gpt_neox", {"rope_parameters": {"partial_rotary_factor": 1.0, "rope_theta": 1e4}}),
        ("gpt_neox", {"attention_bias": False, "num_attention_heads": 2}),
        ("glm", {"attention_bias": False, "rope_parameters": {"partial_rotary_factor": 1.0}}),
        ("glm4", {"num_key_value_heads": 6, "head_dim": 24}),
        ("starcoder2", {"use_bias": False, "hidden_act": "gelu_new"}),
    ],
    ids=str,
)
@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_other_switches(family: str, attention: str, changes: dict[str, Any]) -> None:
    case = Case(family=family, attention=attention, padded=True, changes=tuple(changes.items()))
    assert expected(case) == observed(case)


@pytest.mark.parametrize("family", ["llama", "qwen3", "gemma2"])
@pytest.mark.parametrize("targets", [EVERY, ("q_proj", "v_proj"), ("down_proj",)])
@pytest.mark.parametrize("precision", ["bf16", "fp32", "autocast-bf16"])
def test_the_first_layer_under_adapters(
    family: str, targets: tuple[str, ...], precision: str
) -> None:
    """The embedding is frozen, so nothing before the first adapter is kept."""
    attention = "eager" if family == "gemma2" else "sdpa"
    case = Case(family=family, attention=attention, targets=targets, precision=precision)
    first = case.setting._replace(input_needs_gradient=False)
    saved = record_of(case.architecture, first).saved
    kept = sum(size for size, _ in saved_storages(case)["layer 0"])
    assert sum(case.bytes_of(label, count) for label, count in saved.items()) == kept


def test_fp16_saves_what_bf16_saves() -> None:
    case = Case(family="qwen3", precision="fp16", padded=True)
    assert expected(case) == observed(case)


@pytest.mark.parametrize("activation", ["gelu_new", "gelu", "gelu_pytorch_tanh"])
def test_other_activations(activation: str) -> None:
    for family, key in (("llama", "hidden_act"), ("gpt2", "activation_function")):
        case = Case(family=family, changes=((key, activation),))
        assert expected(case) == observed(case)


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("precision", ["bf16", "autocast-bf16"])
@pytest.mark.parametrize("targets", [(), EVERY])
def test_an_unrotated_layer_keeps_as_much(
    attention: str, precision: str, targets: tuple[str, ...]
) -> None:
    rotated = (("no_rope_layers", [1, 0, 1]),)
    case = Case(
        family="smollm3",
        attention=attention,
        precision=precision,
        padded=not targets,
        targets=targets,
        changes=rotated,
    )
    assert expected(case) == observed(case)


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_starcoder2_with_dropout(attention: str) -> None:
    """Noise after attention, after the MLP and, in eager attention, on the weights."""
    rates = {"residual_dropout": 0.1, "embedding_dropout": 0.1}
    if attention == "eager":  # the CPU has no fused kernel with dropout
        rates["attention_dropout"] = 0.1
    case = Case(family="starcoder2", attention=attention, changes=tuple(rates.items()))
    assert expected(case) == observed(case)
    noise = 2 * (2 * 24 * 96) * 2
    if attention == "eager":  # the weights are kept as before, now after their dropout
        noise += (2 * 6 * 24 * 24) * 2
    assert observed(case) - observed(replace(case, changes=())) == noise


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_gpt2_without_dropout(attention: str) -> None:
    rates = (("attn_pdrop", 0.0), ("embd_pdrop", 0.0), ("resid_pdrop", 0.0))
    case = Case(family="gpt2", attention=attention, changes=rates)
    assert expected(case) == observed(case)
