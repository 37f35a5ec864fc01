"""Experts as a trainer multiplies them: grouped, one by one, and in a loop at the upper end."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import Qwen3MoeConfig
from transformers.models.qwen3_moe.modeling_qwen3_moe import Qwen3MoeExperts

from planner.catalog.gpu_catalog import gpu, grouped
from planner.catalog.model_catalog import model
from planner.estimate import estimate
from planner.formulas import passes
from planner.kernels import products_seconds
from planner.plan.link import from_query_string
from planner.timing import layers
from planner.timing.opened import opened
from planner.units import GIB
from timing.dispatched import MOVE_NOTHING

MIXTURE = (
    "model=Qwen/Qwen3-30B-A3B&method=sft&framework=trl&gpus=8&sharding=fsdp2&micro_batch_size=1"
    "&prompts_per_step=64&prompt_tokens=1024&response_tokens=1024&batch_shape=full"
)
REPORTED = (
    "model=Qwen/Qwen3-30B-A3B&method=grpo&framework=verl&gpu=h200-141gb&gpus=16"
    "&prompts_per_step=128&prompts_per_update=128&responses_per_prompt=8&prompt_tokens=8192"
    "&response_tokens=30000&kl=loss&gradient_checkpointing=full"
)
"""verl issue 3727 (Qwen3-VL-30B-A3B, October 2025), at caps; how often it samples is assumed."""
UPDATE = ("policy forward", "policy backward")


def answer(query: str) -> Any:
    plan = from_query_string(query).plan
    assert plan is not None
    return estimate(plan)


class _Counter(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.kernels: Counter[str] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        self.kernels[func.overloadpacket.__name__] += 1
        return out


def _counted(experts: int, how: str) -> tuple[Counter[str], Counter[str]]:
    config = Qwen3MoeConfig(
        hidden_size=64, moe_intermediate_size=32, num_experts=experts, num_experts_per_tok=4
    )
    config._experts_implementation = how
    layer = Qwen3MoeExperts(config).to(torch.bfloat16)
    torch.manual_seed(0)
    for weight in layer.parameters():
        torch.nn.init.normal_(weight, std=0.1)
    hidden = torch.randn(512, 64, dtype=torch.bfloat16, requires_grad=True)
    chances, chosen = torch.topk(torch.softmax(torch.randn(512, experts), -1), 4)
    chances = chances.to(torch.bfloat16).requires_grad_()
    with _Counter() as forward:
        out = layer(hidden, chosen, chances)
    with _Counter() as backward:
        out.sum().backward()
    return forward.kernels, backward.kernels


def test_a_loop_launches_what_is_told_for_each_expert() -> None:
    """transformers' own code, all experts met: what eight more experts launch, by eight."""
    few, many = _counted(8, "eager"), _counted(16, "eager")
    forward, backward = (
        {
            name: (after[name] - before[name]) / 8
            for name in after
            if name not in {*MOVE_NOTHING, "squeeze", "unbind"} and after[name] != before[name]
        }
        for before, after in zip(few, many, strict=True)
    )
    assert sum(forward.values()) == passes.LOOPED_KERNELS
    assert sum(backward.values()) == pytest.approx(22)
    # A whole gradient of both tensors, of the tokens and of their chances: zeros, then added.
    assert backward["select_backward"] == 2 and backward["new_zeros"] == 2 and backward["add"] == 4
    assert _counted(8, "grouped_mm")[0] == _counted(16, "grouped_mm")[0]


def test_which_cards_have_one_kernel_for_all_experts() -> None:
    arch = model("Qwen/Qwen3-30B-A3B").architecture
    assert arch is not None
    for card, dtype, one in (
        ("h100-80gb", "bf16", True),
        ("b200-180gb", "bf16", True),
        ("h100-80gb", "fp32", False),
        ("a100-80gb", "bf16", False),
        ("rtx-4090", "bf16", False),
    ):
        assert grouped(gpu(card), dtype) is one
        kinds = [kind for _, kind, _ in layers.experts_kernels(gpu(card), arch, 2048.0, dtype)]
        assert kinds == (["experts"] if one else ["products", "products"])


def test_experts_one_by_one_are_products_of_their_tokens() -> None:
    """Every expert is met by 2,048 x 8 / 128 tokens; forward on an A100, by hand."""
    found = answer(MIXTURE + "&gpu=a100-80gb")
    forward = next(phase for phase in found.phases if phase.name == "policy forward")
    term = next(one for one in forward.times if one.name == "experts")
    card, rows = gpu("a100-80gb"), 2048 * 8 / 128
    both = (
        products_seconds(card, rows=rows, inner=2048, outer=1536, dtype="bf16"),
        products_seconds(card, rows=rows, inner=768, outer=2048, dtype="bf16"),
    )
    lasting = term.inputs["sustained"]
    by_hand = 8 * 48 * 128 * (both[0] + both[1]) / lasting
    assert term.seconds == pytest.approx(by_hand, rel=0.01)
    launched = next(one for one in forward.times if one.name.startswith("kernel launch"))
    on_h100 = next(
        one
        for phase in answer(MIXTURE + "&gpu=h100-80gb").phases
        if phase.name == "policy forward"
        for one in phase.times
        if one.name.startswith("kernel launch")
    )
    assert launched.inputs["kernels"] - on_h100.inputs["kernels"] == pytest.approx(256)
    assert opened(term)


def test_autocast_multiplies_experts_in_fp32() -> None:
    query = MIXTURE.replace("Qwen/Qwen3-30B-A3B", "allenai/OLMoE-1B-7B-0924")
    wide = answer(query.replace("gpus=8&sharding=fsdp2", "gpus=1&sharding=none"))
    term = next(one for phase in wide.phases for one in phase.times if one.name == "experts")
    assert term.inputs["peak_flops_per_second"] == gpu("h100-80gb").flops_per_second("fp32")
    assert any("takes more memory and time" in one for one in wide.warnings)


def test_a_reported_loop_lies_inside_the_interval() -> None:
    """16,783 s of update and 414 to 418 s for each scoring; grouped 767 and 170."""
    for lengths in ("", "&length_distribution=1~lognormal_11655~9992"):
        found = answer(REPORTED + lengths)
        phases = {phase.name: phase for phase in found.phases}
        low, high = (
            sum(getattr(phases[name], end) for name in UPDATE)
            for end in ("low_seconds", "high_seconds")
        )
        assert low < 16783 < high
        for name in ("old log-probs", "reference log-probs"):
            assert phases[name].low_seconds < 418 < phases[name].high_seconds
        assert found.low_seconds < 18837 < found.high_seconds
        assert f"Up to {found.doubt.high:.3g} times" in found.doubt.words


def test_a_loop_is_no_matter_of_dense_models() -> None:
    found = answer(MIXTURE.replace("Qwen/Qwen3-30B-A3B", "Qwen/Qwen3-4B"))
    assert "looped" not in found.doubt.words
    assert not any("xperts" in one for one in found.warnings)


def test_whole_gradients_cost_what_they_move() -> None:
    """Backward of full training, 128 experts: four times both tensors and all tokens for each."""
    found = answer(MIXTURE + "&gpu=h100-80gb&gradient_checkpointing=none")
    backward = next(phase for phase in found.phases if phase.name == "policy backward")
    term = next(one for one in backward.times if one.name == "experts")
    card = gpu("h100-80gb")
    whole = 2 * (128 * 3 * 2048 * 768 + 2048 * 2048)
    assert whole > 1.1 * GIB
    copied = 8 * 48 * 128 * 4 * whole / card.bandwidth_bytes_per_second
    launched = 8 * 48 * 128 * 14 / 40 * 1.83 * 0.00088
    more = term.high - term.seconds / 0.8
    assert copied + launched < more < (copied / 0.7 + launched) * 1.01
    adapters = answer(MIXTURE + "&gpu=h100-80gb&gradient_checkpointing=none&finetuning=lora")
    frozen = next(phase for phase in adapters.phases if phase.name == "policy backward")
    term = next(one for one in frozen.times if one.name == "experts")
    assert term.high - term.seconds < 1.1 * launched + more / 10
