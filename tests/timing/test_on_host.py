"""Updates, sums and norms of what waits in host RAM, by hand: Qwen2.5-0.5B on eight H100.

One thread of a host moves 22 GB/s in kernels that pass once, 14 in those that make new tensors;
a slot of PCIe 5 four fifths of 63 GB/s.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.optim.optimizer import _default_to_fused_or_foreach

from planner.estimate import estimate
from planner.plan import Plan

PARAMETERS = 494_032_768
OWN = PARAMETERS / 8
ONCE, UNFUSED, SLOT = 22e9, 14e9, 0.8 * 63e9
UPDATE = "optimizer step on the CPU"
ADDED = "gradient accumulation"


def plan(**changes: Any) -> Plan:
    usual: dict[str, Any] = {
        "model": "Qwen/Qwen2.5-0.5B",
        "method": "sft",
        "framework": "plain",
        "gpus": 8,
        "gpu": "h100-80gb",
        "sharding": "fsdp2",
        "offload": "all",
        "master_dtype": "fp32",
        "gradient_dtype": "fp32",
        "prompts_per_step": 64,
        "prompts_per_update": 64,
        "micro_batch_size": 2,
        "gradient_checkpointing": "none",
    }
    return Plan(**{**usual, **changes})


def took(asked: Plan, phase: str) -> dict[str, float]:
    [found] = (one for one in estimate(asked).phases if one.name == phase)
    return {term.name: float(term.seconds) for term in found.times}


@pytest.mark.parametrize(
    ("optimizer", "bytes_a_weight", "rate"),
    [
        ("adamw-fused", 28, ONCE),  # weight and both moments there and back, the gradient
        ("adamw-foreach", 84, UNFUSED),  # twenty passes of it, and the gradient
        ("adamw-8bit", 16, UNFUSED),  # weight, gradient, two moments of a byte
        ("sgd", 12, ONCE),
    ],
)
def test_each_optimizer_moves_its_own_bytes_by_one_thread(
    optimizer: str, bytes_a_weight: int, rate: float
) -> None:
    found = took(plan(optimizer=optimizer), "optimizer step")
    assert found[UPDATE] == pytest.approx(OWN * bytes_a_weight / rate, rel=5e-3)
    # Every process has its own thread: more GPUs of a node are faster, not as fast.
    more = took(plan(optimizer=optimizer, gpus=16), "optimizer step")
    assert more[UPDATE] == pytest.approx(found[UPDATE] / 2, rel=5e-3)


def test_half_precision_moves_half_of_it() -> None:
    half = took(plan(master_dtype="none", gradient_dtype="bf16"), "optimizer step")
    assert half[UPDATE] == pytest.approx(OWN * 14 / ONCE, rel=5e-3)


def test_gradients_are_clipped_and_added_by_the_host() -> None:
    found = took(plan(), "optimizer step")
    assert found["gradient clipping"] == pytest.approx(OWN * 12 / ONCE, rel=5e-3)
    # Weights travel with each layer's gather, not after the update.
    assert found["gradient offload"] == pytest.approx(OWN * 4 / SLOT, rel=5e-3)
    backward = took(plan(), "policy backward")
    assert backward[ADDED] == pytest.approx(3 * OWN * 12 / ONCE)
    sent = "gradient offload before accumulation"
    assert backward[sent] == pytest.approx(3 * OWN * 4 / SLOT)


def test_trl_adds_them_up_on_the_card_and_sends_them_once() -> None:
    backward = took(plan(framework="trl", logits="fused"), "policy backward")
    assert backward[ADDED] == pytest.approx(3 * PARAMETERS * 12 / (0.77 * 3.35e12))
    assert "gradient offload before accumulation" not in backward


def test_deepspeed_has_its_own_adam_and_adds_on_the_card() -> None:
    zero = {"offload": "optimizer", "sharding": "zero2"}
    found = took(plan(**zero), "optimizer step")
    assert found[UPDATE] == pytest.approx(PARAMETERS * 7.1e-10, rel=1e-3)
    backward = took(plan(**zero), "policy backward")
    # There and back, in each micro-batch after the first.
    fetched = backward["gradients fetched to add to them"]
    assert fetched == pytest.approx(3 * 2 * OWN * 4 / SLOT)
    assert backward[ADDED] == pytest.approx(3 * OWN * 12 / (0.77 * 3.35e12))


def test_stage_3_fetches_them_beside_the_layers() -> None:
    zero = {"sharding": "zero3", "gpu": "l40s", "micro_batch_size": 1, "reduce_dtype": "fp32"}
    near, away = (
        took(plan(**{**zero, "offload": how}), "policy backward") for how in ("none", "optimizer")
    )
    assert "gradients fetched to add to them" not in away
    name = "exposed all-gather and reduce-scatter"
    assert away[name] > near[name]


def test_what_deepspeed_refuses_in_host_ram_is_said() -> None:
    zero = {"offload": "optimizer", "sharding": "zero2"}
    said = "refuses all other optimizers"
    for optimizer in ("adamw-8bit", "sgd"):
        assert any(said in one for one in estimate(plan(**zero, optimizer=optimizer)).warnings)
        assert not any(said in one for one in estimate(plan(optimizer=optimizer)).warnings)
    assert not any(said in one for one in estimate(plan(**zero)).warnings)


def test_torch_runs_its_fused_adamw_on_the_cpu() -> None:
    """And neither fused nor foreach where nobody asks, as TRL's adamw_torch does not."""
    weight = torch.ones(8, requires_grad=True)
    weight.grad = torch.ones(8)
    torch.optim.AdamW([weight], fused=True).step()
    assert weight.device.type == "cpu" and (weight < 1).all()
    chosen = _default_to_fused_or_foreach([weight.detach()], differentiable=False)
    assert chosen == (False, False)


def test_what_a_host_does_has_the_interval_of_its_rate() -> None:
    [step] = (one for one in estimate(plan()).phases if one.name == "optimizer step")
    [update] = (term for term in step.times if term.name == UPDATE)
    assert update.low == pytest.approx(update.seconds * 22 / 43)
    assert update.high == pytest.approx(update.seconds * 22 / 4.5)
    deepspeed = plan(offload="optimizer", sharding="zero2")
    [step] = (one for one in estimate(deepspeed).phases if one.name == "optimizer step")
    [update] = (term for term in step.times if term.name == UPDATE)
    assert update.low == pytest.approx(PARAMETERS * 3e-10, rel=1e-3)
    assert update.high == pytest.approx(PARAMETERS * 7.4e-10, rel=1e-3)
