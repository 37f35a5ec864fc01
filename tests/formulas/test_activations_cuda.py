"""What differs on CUDA from the CPU runs that the other tests make, by hand arithmetic.

The kernels' rules are read from torch 2.13.0: aten/native/transformers (attention.cpp,
cuda/sdp_utils.cpp, cuda/attention.cu, cuda/flash_attn/flash_api.cpp). Where a CUDA path
can be taken on the CPU (the math kernel, fused dropout, fp32 pow), a real run checks it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from planner.catalog.architecture import Architecture
from planner.formulas.activations import (
    Workload,
    layer_backward_transient,
    layer_forward_transient,
    layer_saved,
)
from planner.formulas.activations.decoder import Live, layer_record
from planner.formulas.activations.kinds import Kind
from planner.formulas.activations.setting import Setting
from real_layers import Case, heights, saved_storages


def cuda(case: Case) -> Setting:
    return case.setting._replace(kernels="cuda")


def saved(case: Case, setting: Setting | None = None) -> int:
    return size(case, layer_record(case.architecture, setting or cuda(case)).saved)


def size(case: Case, live: Live) -> int:
    return sum(case.bytes_of(label, count) for label, count in live.items())


def observed(case: Case) -> int:
    return sum(found for found, _ in saved_storages(case)["layer"])


def named(case: Case) -> dict[str, int]:
    terms = layer_saved(case.architecture, case.workload, role="policy", layers=1)
    return {term.name: term.bytes for term in terms}


def test_a_mask_pads_the_bias_to_8_and_the_statistic_to_32() -> None:
    case = Case(family="qwen3", padded=True, rows=3, tokens=35)
    bias = 3 * 35 * (40 - 35) * 2
    statistic = 3 * 6 * (64 - 35) * 4
    assert saved(case) - observed(case) == bias + statistic
    assert named(case)["attention mask as a bias"] == 3 * 35 * 40 * 2


def test_flash_backward_scratch() -> None:
    case = Case(family="llama", tokens=130, changes=(("head_dim", 40),))
    scratch = {
        name: case.bytes_of(label)
        for live in layer_record(case.architecture, cuda(case)).backward
        for label in live
        for name in [label[1]]
        if name.startswith("flash backward")
    }
    assert scratch == {
        "flash backward row sums": 2 * 6 * 256 * 4,
        "flash backward query gradient in fp32": 2 * 256 * 6 * 64 * 4,
        "flash backward key gradient before its sum over query heads": 2 * 130 * 6 * 40 * 2,
        "flash backward value gradient before its sum over query heads": 2 * 130 * 6 * 40 * 2,
    }


def test_flash_scratch_can_decide_the_peak() -> None:
    wide = (("head_dim", 128), ("intermediate_size", 16))
    case = Case(family="llama", tokens=200, changes=wide)
    terms = layer_backward_transient(case.architecture, case.workload, role="policy")
    assert any(term.name.startswith("flash backward") for term in terms)
    assert any(term.bytes < 0 and term.name.startswith("released") for term in terms)


@pytest.mark.parametrize("intermediate", [200, 24])
def test_grouped_fp32_attention_takes_the_math_kernel(intermediate: int) -> None:
    """No fused CUDA kernel takes it: the CPU is told to use the math kernel as well."""
    case = Case(family="llama", precision="fp32", changes=(("intermediate_size", intermediate),))
    with sdpa_kernel(SDPBackend.MATH):
        assert saved(case) == observed(case)
        real = heights(case)
    record = layer_record(case.architecture, cuda(case))
    stream = case.bytes_of((Kind("hidden", "fp32"), ""))
    assert max(size(case, live) for live in record.forward) - stream == real.forward
    begin = size(case, record.saved) + stream
    assert max(size(case, live) for live in record.backward) - begin == real.backward


def test_the_math_kernel_drops_weights_too() -> None:
    """Grouped fp32 heads with dropout: the weights, a mask of booleans, what is left."""
    rates = (("attention_dropout", 0.1), ("residual_dropout", 0.1), ("embedding_dropout", 0.1))
    case = Case(family="starcoder2", precision="fp32", changes=rates)
    without = Case(family="starcoder2", precision="fp32")
    pairs, hidden = 2 * 6 * 24 * 24, 2 * 24 * 96
    assert saved(case) - saved(without) == pairs * (1 + 4) + 2 * hidden


def test_ungrouped_fp32_attention_takes_the_efficient_kernel() -> None:
    case = Case(family="llama", precision="fp32", changes=(("num_key_value_heads", 6),))
    assert saved(case) - observed(case) == 2 * 6 * (32 - 24) * 4


def test_gpt2_keeps_boolean_dropout_masks_and_fp32_statistics(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fused(x: torch.Tensor, p: float, training: bool, *_: Any) -> torch.Tensor:
        return torch.native_dropout(x, p, True)[0] if p and training else x

    monkeypatch.setattr(torch.nn.functional, "dropout", fused)
    for attention in ("eager", "sdpa"):
        case = Case(family="gpt2", attention=attention)
        statistics = 2 * 2 * 48 * (4 - 2)
        assert saved(case) - observed(case) == statistics


def test_autocast_runs_gelus_cube_in_fp32(monkeypatch: pytest.MonkeyPatch) -> None:
    """CUDA's autocast list has pow; here it is cast by hand."""
    pow_as_given = torch.pow
    monkeypatch.setattr(torch, "pow", lambda x, power: pow_as_given(x.float(), power))
    rates = (("attn_pdrop", 0.0), ("embd_pdrop", 0.0), ("resid_pdrop", 0.0))
    case = Case(family="gpt2", precision="autocast-bf16", changes=rates)
    assert saved(case) == observed(case)


def test_phi3_copies_flashs_output_but_not_the_efficient_kernels() -> None:
    whole = Case(family="phi3", tokens=32)
    padded = Case(family="phi3", tokens=32, padded=True)
    assert saved(whole) == observed(whole)
    copy = 2 * 32 * 4 * 24 * 2
    assert observed(padded) - saved(padded) == copy


def test_flash_attn_never_masks() -> None:
    case = Case(family="qwen3", tokens=24)
    flash = replace(case.workload, attention="flash")
    same = layer_saved(case.architecture, flash, role="policy", layers=1)
    assert sum(term.bytes for term in same) == saved(case)
    padded = replace(flash, batch_shape="padded")
    terms = layer_saved(case.architecture, padded, role="policy", layers=1)
    # One more tensor: the output with its padding back, which o_proj reads.
    more = 2 * 24 * 6 * 16 * 2
    assert sum(term.bytes for term in terms) == saved(case) + more
    assert "attention mask as a bias" not in [term.name for term in terms]


@pytest.mark.parametrize("tokens", [15, 16, 40])
def test_a_sliding_layer_is_masked_from_the_window_on(tokens: int) -> None:
    """The first layer of the small Gemma 3 slides over 16 tokens; kv heads are repeated."""
    case = Case(family="gemma3_text", tokens=tokens)
    found = saved_storages(case)
    shapes = [shape for _, shape in found["layer 0"]]
    masked = (2, 1, tokens, tokens) in shapes
    terms = layer_saved(case.architecture, case.workload, role="policy", layers=1, sliding=True)
    assert masked == ("attention mask as a bias" in [term.name for term in terms])
    assert masked == (tokens >= 16)


def test_a_sweep_gives_what_single_plans_give() -> None:
    case = Case(family="gemma3_text", changes=(("intermediate_size", 64),))
    arch, lengths, rows = case.architecture, [8, 15, 16, 130, 1024], [[1], [3]]
    sweep = replace(case.workload, sequences=np.array(rows), tokens=np.array(lengths))
    functions: list[Any] = [
        layer_backward_transient,
        layer_forward_transient,
        lambda *args, **words: layer_saved(*args, layers=5, **words),
    ]
    for attention in ("sdpa", "eager"):
        for function in functions:
            many = replace(sweep, attention=attention)
            totals = sum(term.bytes for term in function(arch, many, role="p", sliding=True))
            for row in range(2):
                for column, tokens in enumerate(lengths):
                    one = replace(many, sequences=rows[row][0], tokens=tokens)
                    terms = function(arch, one, role="p", sliding=True)
                    assert totals[row, column] == sum(term.bytes for term in terms)


def refused(arch: Architecture, workload: Workload) -> str:
    with pytest.raises(ValueError) as error:
        layer_saved(arch, workload, role="policy", layers=1)
    return str(error.value)


def test_what_cannot_run_is_refused_with_the_field_and_the_fix() -> None:
    gemma = Case(family="gemma2", attention="eager")
    message = refused(gemma.architecture, replace(gemma.workload, attention="sdpa"))
    assert message.startswith("attention is 'sdpa'") and "set attention to 'eager'" in message
    llama = Case(family="llama")
    with pytest.raises(ValueError, match="attention is 'flash'.*set attention to 'sdpa'"):
        replace(llama.workload, attention="flash", precision="fp32")
    with pytest.raises(ValueError, match="batch_shape is 'ragged'; choose one of full"):
        replace(llama.workload, batch_shape="ragged")
    with pytest.raises(ValueError, match="lora_rank is 0"):
        replace(llama.workload, trains="lora", lora_targets=("q_proj",))
    unknown = replace(llama.architecture, family="mamba")
    assert "family is 'mamba'" in refused(unknown, llama.workload)


def test_transformers_itself_refuses_sdpa_for_gemma2() -> None:
    with pytest.raises(ValueError, match="scaled_dot_product_attention"):
        Case(family="gemma2", attention="sdpa").build()


def test_the_published_per_token_sum_of_qwen3() -> None:
    """16h + 8i + 4 nq d + 4 nkv d + 4 nq + 8, and the head norms' 6 (nq + nkv) d + 4 (nq + nkv).

    Sizes of Qwen3-8B (https://huggingface.co/Qwen/Qwen3-8B/blob/main/config.json).
    """
    h, i, nq, nkv, d = 4096, 12288, 32, 8, 128
    arch = replace(
        Case(family="qwen3").architecture,
        hidden=h,
        intermediate=i,
        heads=nq,
        kv_heads=nkv,
        head_dim=d,
        layers=36,
    )
    workload = replace(Case(family="qwen3").workload, sequences=4, tokens=1024)
    per_token = 16 * h + 8 * i + 4 * nq * d + 4 * nkv * d + 4 * nq + 8
    per_token += 6 * (nq + nkv) * d + 4 * (nq + nkv)
    terms = layer_saved(arch, workload, role="policy", layers=36)
    assert sum(term.bytes for term in terms) == 36 * 4 * 1024 * per_token
    assert per_token == 215_336
