"""Sparse layers against real ones, which run ``grouped_mm`` on a CPU as they do on a GPU."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from planner.formulas.activations import autocast_weight_copies
from planner.formulas.activations.decoder import Live
from planner.formulas.activations.kinds import Kind
from planner.formulas.activations.layers import record_of
from planner.formulas.activations.setting import Setting
from real_layers import MIDDLE, Births, Case, heights, profiled_backward_height, saved_storages

ATTENTION = ("q_proj", "k_proj", "v_proj", "o_proj")
EXPERTS: dict[str, dict[str, Any]] = {
    "qwen3_moe": {"num_experts": 8, "moe_intermediate_size": 40, "norm_topk_prob": True},
    "mixtral": {"num_local_experts": 8, "intermediate_size": 40},
    "olmoe": {"num_experts": 8, "intermediate_size": 40},
}
"""Eight experts of 40, of which a token is sent to three."""


def case(family: str, **more: Any) -> Case:
    changes = {"num_experts_per_tok": 3, **EXPERTS[family], **more.pop("changes", {})}
    return Case(family=family, changes=tuple(changes.items()), **more)


def name(one: Case) -> str:
    widths = [str(value) for key, value in one.changes if key == "num_experts_per_tok"]
    return "-".join([*str(one).split("-num_")[0].split("-")[:5], *widths])


def setting(one: Case) -> Setting:
    """As :attr:`Case.setting`, of the layer in the middle where there are two kinds."""
    return one.setting._replace(sparse=MIDDLE not in one.architecture.dense_layers)


def size(one: Case, live: Live) -> int:
    return sum(one.bytes_of(label, count) for label, count in live.items())


def stream(one: Case) -> int:
    return one.bytes_of((Kind("hidden", one.setting.weight), ""))


SAVED = [
    *(
        case("qwen3_moe", attention=attention, precision=precision, padded=padded, targets=targets)
        for targets in ((), ATTENTION)
        for attention, precision, padded in (
            ("sdpa", "bf16", False),
            ("eager", "bf16", True),
            ("sdpa", "fp32", True),
            ("sdpa", "autocast-bf16", False),
        )
    ),
    *(
        case(family, precision=precision, padded=padded, targets=targets)
        for family in ("mixtral", "olmoe")
        for precision, padded, targets in (
            ("bf16", True, ()),
            ("fp32", False, ATTENTION),
            ("autocast-bf16", False, ()),
        )
    ),
    case("qwen3_moe", changes={"norm_topk_prob": False, "num_experts_per_tok": 1}),
    case("qwen3_moe", changes={"mlp_only_layers": [1]}),
]


@pytest.mark.parametrize("one", SAVED, ids=name)
def test_saved_bytes_equal_a_real_layer(one: Case) -> None:
    saved = record_of(one.architecture, setting(one)).saved
    assert size(one, saved) == sum(each for each, _ in saved_storages(one)["layer"])


PEAKS = [
    *(case(family, precision=p) for family in EXPERTS for p in ("bf16", "autocast-bf16")),
    case("qwen3_moe", precision="fp32"),
    *(case(family, targets=ATTENTION) for family in ("mixtral", "olmoe")),
    # Long rows and one expert a token: the peak is in the attention.
    case("mixtral", attention="eager", tokens=96, changes={"num_experts_per_tok": 1}),
    case("olmoe", attention="eager", tokens=96, changes={"num_experts_per_tok": 1}),
]


@pytest.mark.parametrize("one", PEAKS, ids=name)
def test_peaks_equal_a_real_layer(one: Case) -> None:
    record = record_of(one.architecture, setting(one))
    real = heights(one)
    assert max(size(one, live) for live in record.forward) - stream(one) == real.forward
    begin = size(one, record.saved) + stream(one)
    assert max(size(one, live) for live in record.backward) - begin == real.backward


@pytest.mark.parametrize("family", EXPERTS)
def test_peak_without_gradients(family: str) -> None:
    one = case(family, gradients=False)
    record = record_of(one.architecture, setting(one))
    assert max(size(one, live) for live in record.forward) - stream(one) == heights(one).forward


@pytest.mark.parametrize("family", EXPERTS)
def test_checkpointing_needs_one_layer_beside_the_inputs(family: str) -> None:
    """A checkpoint drops what it made anew as a node asks for it, a forward's graph after it.

    At the routing weights' gradient, whose sum comes last, that is the experts' outputs.
    """
    one = case(family)
    highest = max(size(one, live) for live in record_of(one.architecture, setting(one)).backward)
    over = highest - stream(one) - heights(one, checkpointed=True).backward
    outputs = one.bytes_of((Kind("routed hidden", "value"), ""))
    weights = one.bytes_of((Kind("routed", "fp32"), ""))
    assert 0 <= over <= outputs + weights


@pytest.mark.parametrize("family", EXPERTS)
def test_the_profiler_sees_the_same_peak_without_a_dispatch_mode(family: str) -> None:
    one = case(family, tokens=256)
    record = record_of(one.architecture, setting(one))
    begin = size(one, record.saved) + stream(one)
    assert max(size(one, live) for live in record.backward) - begin == profiled_backward_height(one)


def test_autocast_copies_the_router_and_no_experts() -> None:
    one = case("qwen3_moe", precision="autocast-bf16")
    model = one.build()
    births = Births([*model.parameters(), *model.buffers()])
    with births, torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        output = model(**one.inputs()).logits
        before = sum(change for _, change, _ in births.log)
    after = sum(change for _, change, _ in births.log)
    copied = [p for n, p in model.named_parameters() if p.dim() == 2 and "embed" not in n]
    copies = autocast_weight_copies(one.architecture, role="policy", layers=True)
    assert copies[0].bytes == before - after == sum(p.numel() * 2 for p in copied)
    assert copies[0].tensors == len(copied)
    del output


@pytest.mark.parametrize("family", EXPERTS)
def test_sizes_do_not_depend_on_the_routing(family: str) -> None:
    """All tokens to the same experts, and each to experts of its own."""
    found = []
    for fill in (0.0, 1.0):
        one = case(family)
        model = one.build()
        for name, weight in model.named_parameters():
            if name.endswith("mlp.gate.weight"):
                weight.data.mul_(fill)  # zeros send every token the same way
        sizes = []

        def pack(tensor: torch.Tensor, sizes: list[int] = sizes) -> torch.Tensor:
            sizes.append(tensor.untyped_storage().nbytes())
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            model(**one.inputs())
        found.append(sizes)
    assert found[0] == found[1]
