"""Adapters that get no gradients, by torch's FSDP2 and peft themselves, on one process."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import pytest
import torch
import torch.distributed as dist
from peft import LoraConfig, get_peft_model
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from transformers import AutoConfig, AutoModelForCausalLM

from accuracy.verl_cases import CONFIG
from planner.dryrun.run.execute import dry_run
from planner.estimate import estimate
from planner.plan import Plan
from planner.sweeps.table import sweep

PLAN = Plan(
    framework="verl", method="grpo", model="Qwen/Qwen2.5-0.5B", finetuning="lora", gpus=8,
    sharding="fsdp2", rollout="vllm-colocated", kl="loss", reference="adapter-disabled",
)  # fmt: skip


@pytest.fixture
def alone() -> Iterator[None]:
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def _trained(*, reshard: bool, offloaded: bool, reference: bool) -> int:
    """Parameters with gradients after log-probs, the reference's, and an update as verl's."""
    bare = AutoModelForCausalLM.from_config(AutoConfig.for_model(**CONFIG))
    model = get_peft_model(bare, LoraConfig(r=4, target_modules="all-linear"))
    model.enable_input_require_grads()
    mesh = init_device_mesh("cpu", (1,))
    for unit in (*model.base_model.model.model.layers, model):
        fully_shard(unit, mesh=mesh, reshard_after_forward=reshard)
    ids = torch.randint(CONFIG["vocab_size"], (2, 8))
    passes = [torch.no_grad] * (1 + reference)
    for number, context in enumerate(passes):
        with context():
            if number:
                with model.disable_adapter():
                    model(input_ids=ids)
            else:
                model(input_ids=ids)
        if offloaded:
            model.cpu()  # what offload_fsdp2_model_to_cpu calls
    model(input_ids=ids, labels=ids).loss.backward()
    return sum(parameter.grad is not None for parameter in model.parameters())


@pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing. is deprecated")  # peft asks
@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize(
    ("reshard", "offloaded", "reference"), list(product((True, False), repeat=3))
)
def test_a_run_whose_adapters_get_no_gradients_does_not_run(
    reshard: bool, offloaded: bool, reference: bool
) -> None:
    trained = _trained(reshard=reshard, offloaded=offloaded, reference=reference)
    plan = PLAN.changed(
        reshard_after_forward=reshard,
        offload="all-between-phases" if offloaded else "none",
        kl="loss" if reference else "none",
    )
    blocked = any("no gradients" in why for why in estimate(plan).blockers)
    assert blocked == (trained == 0)


def test_what_has_gradients_runs() -> None:
    sick = PLAN.changed(reshard_after_forward=False, offload="parameters-between-phases")
    assert "reshard_after_forward" in estimate(sick).blockers[0]
    full = {"finetuning": "full", "reference": "offloaded"}
    for changes in (full, {"sharding": "fsdp1"}, {"offload": "all"}):
        assert not estimate(sick.changed(**changes)).blockers


@pytest.mark.parametrize("reshard", [True, False])
def test_verls_own_code_run_dry_says_that_nothing_trains(reshard: bool) -> None:
    batches = {"prompts_per_step": 8, "prompts_per_update": 8, "responses_per_prompt": 2}
    lengths = {"prompt_tokens": 8, "response_tokens": 8, "micro_batch_size": 2}
    plan = PLAN.changed(
        reshard_after_forward=reshard, offload="all-between-phases", **batches, **lengths
    )
    notes = dry_run(plan, {"policy": CONFIG}, code="verl").notes
    assert reshard != any(note.startswith("Nothing trains the policy") for note in notes)


def test_a_sweep_takes_none_whose_adapters_get_no_gradients() -> None:
    plan = PLAN.changed(offload="all-between-phases")
    rows = sweep(plan, {"reshard_after_forward": [True, False]})
    assert list(rows["verdict"]) == ["fits", "out of memory"]
