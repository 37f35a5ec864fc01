"""Decisions that estimate, step and trial share, each held by itself: none checks another.

What frameworks do was read from their sources; ``tests/frameworks/test_facts.py`` reads them again.
"""

from __future__ import annotations

from typing import Any

import pytest

from planner.estimate import estimate
from planner.plan import Plan, try_plan
from planner.plan.methods import methods
from planner.setup.setup import setup_of
from planner.values.model_setup import ModelSetup
from planner.values.step_phases import REFERENCE_LOG_PROBS, ROLLOUT

GRADE = {"method": "grade", "gpus": 1}
ONE_GPU = {"gpus": 1, "prompts_per_step": 8, "rollout": "hf"}


def models(**fields: Any) -> dict[str, ModelSetup]:
    return {model.role: model for model in setup_of(Plan(**fields)).models}


@pytest.mark.parametrize(
    ("fields", "roles"),
    [
        ({"method": "sft"}, ["policy"]),
        ({"method": "dpo"}, ["policy", "reference"]),
        ({"method": "dpo", "reference": "cached-logprobs"}, ["policy"]),
        ({"kl": "none"}, ["policy"]),
        ({"kl": "none", "reference": "copy"}, ["policy"]),
        ({"kl": "loss"}, ["policy", "reference"]),
        ({"finetuning": "lora"}, ["policy"]),
        ({"finetuning": "lora", "reference": "copy"}, ["policy", "reference"]),
        ({"method": "ppo"}, ["policy", "critic", "reference"]),
        ({"method": "ppo", "critic": "shared", "kl": "none"}, ["policy"]),
        ({"method": "ppo", "reward": "model"}, ["policy", "critic", "reference", "reward model"]),
        ({"reference": "cached-activations"}, ["policy", "reference"]),
        ({"reference": "dual-output", "finetuning": "lora"}, ["policy"]),
        ({"method": "intuitor", "reward": "model", "kl": "none"}, ["policy"]),
        (GRADE, ["policy", "reward model"]),
        ({**GRADE, "grade_kl": "online"}, ["policy", "reference", "reward model"]),
    ],
    ids=str,
)
def test_which_models_there_are(fields: dict[str, Any], roles: list[str]) -> None:
    assert list(models(**fields)) == roles


@pytest.mark.parametrize("name", methods())
def test_a_reward_model_is_there_for_every_method_that_is_rewarded(name: str) -> None:
    """A reward model that was accepted and then dropped cost a whole method its figures once."""
    plan, problems = try_plan({"method": name, "reward": "model", **_single(name)})
    assert plan is not None, problems
    there = setup_of(plan).model("reward model") is not None
    assert there == methods()[name].rewarded
    held = {term.role for phase in estimate(plan).phases for term in phase.terms}
    assert ("reward model" in held) == there


def _single(name: str) -> dict[str, Any]:
    return {"gpus": 1, "prompts_per_step": 8} if methods()[name].embeds_outside_forward else {}


@pytest.mark.parametrize(
    ("fields", "stored", "autocast"),
    [
        # FSDP casts what it gathers; nothing is autocast.
        ({"sharding": "fsdp2"}, "fp32", False),
        ({"sharding": "fsdp2", "master_dtype": "none"}, "bf16", False),
        # One process or DDP: fp32 weights, autocast in the forward.
        (ONE_GPU, "fp32", True),
        ({"sharding": "ddp"}, "fp32", True),
        ({"sharding": "ddp", "master_dtype": "none"}, "bf16", False),
        ({"sharding": "ddp", "dtype": "fp32"}, "fp32", False),
        # DeepSpeed's fp32 copy is optimizer state, the module is in half precision.
        ({"sharding": "zero2"}, "bf16", False),
        # peft: a frozen base stays in the compute dtype, whatever its adapters have.
        ({"finetuning": "lora"}, "bf16", False),
        ({**ONE_GPU, "finetuning": "lora"}, "bf16", False),
        # verl loads base and adapters alike.
        ({"finetuning": "lora", "framework": "verl"}, "bf16", False),
        ({"finetuning": "lora", "framework": "verl", "master_dtype": "fp32"}, "fp32", False),
    ],
    ids=str,
)
def test_what_trained_weights_are_kept_in(
    fields: dict[str, Any], stored: str, autocast: bool
) -> None:
    found = models(method="ppo", **fields) if "framework" not in fields else models(**fields)
    for role in ("policy", "critic"):
        if role in found:
            assert (found[role].stored, found[role].autocast) == (stored, autocast)
            assert found[role].trained


@pytest.mark.parametrize(
    ("fields", "autocast"),
    [
        ({"finetuning": "lora"}, False),
        ({"finetuning": "lora", "grade_autocast": True}, True),
        # Adapters in the dtype of the frozen weights leave nothing to cast.
        ({"finetuning": "lora", "grade_autocast": True, "master_dtype": "none"}, False),
        ({"grade_autocast": True}, False),
    ],
    ids=str,
)
def test_what_autocast_finds_in_adapters(fields: dict[str, Any], autocast: bool) -> None:
    assert setup_of(Plan(**GRADE, **fields)).autocasts_adapters is autocast


@pytest.mark.parametrize(
    ("fields", "stored", "waits"),
    [
        ({}, "bf16", "gpu"),
        ({"reference": "offloaded"}, "bf16", "host"),
        # TRL and verl load it like the policy, so an fp32 master means an fp32 reference.
        ({"framework": "trl", "sharding": "ddp", "reduce_dtype": "fp32"}, "fp32", "gpu"),
        # TRL loads what is to be sharded in bf16, and accelerate widens what trains.
        ({"framework": "trl"}, "bf16", "gpu"),
        ({"framework": "trl", "master_dtype": "none"}, "bf16", "gpu"),
        # verl's stays in host RAM, from which FSDP streams it.
        ({"framework": "verl"}, "fp32", "host, streamed"),
    ],
    ids=str,
)
def test_what_a_reference_is_kept_in_and_where(
    fields: dict[str, Any], stored: str, waits: str
) -> None:
    reference = models(kl="loss", **fields)["reference"]
    assert (reference.stored, reference.waits) == (stored, waits)
    assert not reference.trained and not reference.autocast


@pytest.mark.parametrize(
    ("offload", "waits"),
    [
        ("none", "gpu"),
        ("optimizer-between-phases", "gpu"),
        ("parameters-between-phases", "host"),
        ("all-between-phases", "host"),
    ],
)
def test_where_trained_weights_wait(offload: str, waits: str) -> None:
    found = models(method="ppo", offload=offload)
    assert {found["policy"].waits, found["critic"].waits} == {waits}


def test_phases_that_need_the_policys_weights() -> None:
    assert ROLLOUT.moment in models(**ONE_GPU)["policy"].used_in
    assert ROLLOUT.moment not in models()["policy"].used_in
    base = models(finetuning="lora")["policy"]
    assert REFERENCE_LOG_PROBS.moment in base.used_in and base.adapted


def test_a_head_alone_and_a_second_head() -> None:
    assert models(reference="cached-activations")["reference"].kind == "head"
    assert models(method="ppo", critic="shared")["policy"].scores_too
    assert models(method="ppo")["critic"].kind == "score model"
