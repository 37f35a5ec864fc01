"""Which frameworks there are, in which order, and what they say to methods they cannot train."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from planner.estimate import estimate
from planner.formulas.sharding import ZERO_BUCKET_COPY, ZERO_BUCKET_IN_FP32, ZERO_SENT
from planner.frameworks.trl import limits as trl
from planner.frameworks.verl import limits as verl
from planner.phases import zero
from planner.phases.scene import scene_of
from planner.plan import Plan, choices, try_plan
from planner.plan.facts import facts_of
from planner.plan.frameworks import exported, framework_named, frameworks
from planner.plan.relevance import without_effect


@pytest.mark.parametrize(
    ("name", "method", "sentence", "fix"),
    [
        ("trl", "ppo", "TRL has had no PPO since 1.13.0.", "Set framework to plain or verl."),
        ("verl", "sft", "verl's SFT trainer is not planned.",
         "Set framework to plain or trl or hf_trainer."),
        ("verl", "dpo", "verl has no DPO trainer.", "Set framework to plain or trl."),
        ("trl", "grade", "TRL has no trainer for GRADE.", "Set framework to plain."),
        ("verl", "grade", "verl has no trainer for GRADE.", "Set framework to plain."),
    ],
)
def test_a_method_that_a_framework_cannot_train_is_refused_with_those_that_can(
    name: str, method: str, sentence: str, fix: str
) -> None:
    plan, problems = try_plan({"framework": name, "method": method})
    assert plan is None
    assert ("framework", sentence, fix) in {(p.field, p.message, p.fix) for p in problems}


def test_frameworks_have_the_order_of_lists() -> None:
    assert tuple(frameworks()) == choices("framework") == ("plain", "trl", "verl", "hf_trainer")
    assert exported() == ("plain", "trl", "verl", "hf_trainer")


@pytest.mark.parametrize("name", ["openrlhf", "slime", "", "TRL", "../trl"])
def test_a_name_that_is_no_framework_is_refused_with_those_that_are(name: str) -> None:
    plan, problems = try_plan({"framework": name})
    assert plan is None
    text = " ".join(problem.sentence for problem in problems if problem.field == "framework")
    assert "choose one of plain, trl, verl, hf_trainer." in text
    assert ("not planned yet" in text) == (name == "openrlhf")
    with pytest.raises(ValueError, match=r"framework is .*plain, trl, verl, hf_trainer"):
        framework_named(name)


@pytest.mark.parametrize("dtype", ["bf16", "fp16", "fp32"])
@pytest.mark.parametrize("finetuning", ["full", "lora"])
@pytest.mark.parametrize("sharding", ["ddp", "fsdp1", "fsdp2"])
def test_nobody_has_to_say_in_which_dtype_trl_reduces(
    dtype: str, finetuning: str, sharding: str
) -> None:
    plan = Plan(framework="trl", dtype=dtype, finetuning=finetuning, sharding=sharding)
    assert trl.obstacles(plan) == ()


@pytest.mark.parametrize("dtype", ["bf16", "fp32"])
@pytest.mark.parametrize("finetuning", ["full", "lora"])
def test_nobody_has_to_say_how_deep_verls_engine_sleeps(dtype: str, finetuning: str) -> None:
    plan = Plan(framework="verl", dtype=dtype, finetuning=finetuning)
    assert verl.obstacles(plan) == ()


@pytest.mark.parametrize("reduce_dtype", ["bf16", "fp16", "fp32"])
def test_a_dtype_that_ddp_does_not_ask_for_is_not_in_the_way(reduce_dtype: str) -> None:
    plan = Plan(framework="trl", sharding="ddp", reduce_dtype=reduce_dtype)
    assert "reduce_dtype" in without_effect(plan)
    assert trl.obstacles(plan) == ()


@pytest.mark.parametrize("framework", ["plain", "trl"])
@pytest.mark.parametrize(
    ("sharding", "bf16", "fp16", "fp32"),
    # Of a gradient's value: in fp32 and as it is sent; copied, and cast where that is another.
    [("zero1", 4 + 2, 4 + 2, 4), ("zero2", 2, 2 + 2, 2 + 4), ("zero3", 2, 2 + 2, 4 + 4)],
)
def test_the_dtype_that_deepspeed_sends_gradients_in_is_planned(
    framework: str, sharding: str, bf16: int, fp16: int, fp32: int
) -> None:
    told: dict[str, Any] = {"framework": framework, "sharding": sharding, "method": "sft"}
    # All of its 494 M gradients fit one bucket.
    told |= {"model": "Qwen/Qwen2.5-0.5B", "gpus": 8, "gradient_dtype": "fp32"}
    assert Plan(**told).reduce_dtype == "bf16", "as DeepSpeed itself"
    seconds = {}
    for dtype, each in {"bf16": bf16, "fp16": fp16, "fp32": fp32}.items():
        plan = Plan(**told, reduce_dtype=dtype)
        scene = scene_of(plan, facts_of(plan))
        made = [terms for _, terms in zero.reducing(scene, scene.policy, zero.DONE)][0]
        named = (ZERO_BUCKET_COPY.name, ZERO_SENT.name, ZERO_BUCKET_IN_FP32.name)
        found = sum(term.bytes for term in made if term.name in named)
        assert found == scene.policy.trainable * each
        assert "reduce_dtype" not in without_effect(plan)
        seconds[dtype] = estimate(plan).step_seconds
    assert seconds["bf16"] == seconds["fp16"] < seconds["fp32"]


def test_four_bit_weights_in_fp16_are_refused_because_no_gpu_unscales_their_adapters() -> None:
    fields = {"framework": "trl", "method": "sft", "finetuning": "qlora", "gpus": 1}
    fields["dtype"] = "fp16"
    (found,) = trl.obstacles(Plan(**fields))
    assert found.field == "dtype" and "bf16 gradients" in found.why
    assert found.fix == "Set dtype to bf16, or finetuning to lora."
    for other in ({"dtype": "bf16"}, {"finetuning": "lora"}):
        assert trl.obstacles(Plan(**{**fields, **other})) == ()
    changed = Plan(**{**Plan(**fields).model_dump(), **dict(found.changes)})
    assert trl.obstacles(changed) == ()


def test_trl_casts_those_adapters_to_bf16_whatever_the_plan_computes_in() -> None:
    """What the refusal rests on; a TRL that keeps them in fp32 would train."""
    pytest.importorskip("trl")
    from trl.trainer import dpo_trainer, grpo_trainer, rloo_trainer, sft_trainer

    for module in (sft_trainer, grpo_trainer, rloo_trainer, dpo_trainer):
        assert module.__file__ is not None
        cast = "param.data = param.data.to(torch.bfloat16)"
        assert cast in Path(module.__file__).read_text(), module.__name__


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"dtype": "fp16"}, "optimizer"),
        ({"method": "ppo", "rollout": "vllm-separate", "rollout_gpus": 4, "gpus": 8}, "rollout"),
    ],
    ids=str,
)
def test_what_verl_stops_on_is_refused_with_a_way_out(fields: dict[str, Any], field: str) -> None:
    plan = Plan(framework="verl", prompts_per_step=64, **fields)
    (found,) = verl.obstacles(plan)
    assert found.field == field
    fixed = Plan(**{**plan.model_dump(), **dict(found.changes)})
    assert not [one for one in verl.obstacles(fixed) if one.field == field]
