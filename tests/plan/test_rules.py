"""Every rule can fire, names a field, and says what to do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from planner.plan import FIELDS, Plan, try_plan
from planner.plan.defaults import fill
from planner.plan.frameworks import framework_named, frameworks
from planner.plan.methods import methods
from planner.plan.rules import rules_of
from planner.plan.trainers import trainer_for
from planner.rule import Rule
from planner.sweeps.grid import Grid

# At least one plan for every rule: test_every_rule_has_a_plan_that_breaks_it sees one without.
BROKEN: list[dict[str, Any]] = [
    *(
        {"framework": "hf_trainer", "method": "sft", **fields}
        for fields in (
            {"batch_shape": "packed"},
            {"max_tokens_per_micro_batch": 8192},
            {"optimizer_step": "in-backward"},
            {"finetuning": "qlora"},
            {"finetuning": "lora", "lora_targets": "lm_head"},
        )
    ),
    {"method": "ppo", "variation": "dapo"},
    {"method": "sft", "variation": "dr-grpo"},
    {"method": "rloo", "variation": "gspo"},
    {"method": "intuitor", "variation": "cispo"},
    {"finetuning": "qlora", "compile": True},
    {"finetuning": "qlora", "sharding": "fsdp2"},
    {"finetuning": "qlora", "rollout": "hf"},
    {"finetuning": "qlora", "reference": "copy"},
    {"finetuning": "qlora", "reference": "dual-output"},
    {"liger": True, "reference": "dual-output", "finetuning": "lora"},
    {"liger": True, "compile": True},
    {"sharding": "none"},
    {"sharding": "ddp", "gpus": 1},
    {"shard_size": 16},
    {"shard_size": 3},
    {"gpus": 12, "prompts_per_step": 96},
    {"rollout": "vllm-separate", "rollout_gpus": 8},
    {"rollout": "vllm-separate", "rollout_gpus": 0},
    {"rollout_gpus": 4},
    {"rollout_overlap": "one-step-off"},
    {"rollout_quantization": "fp8", "dtype": "fp32"},
    {"framework": "trl", "resampling_factor": 1.5},
    {
        "framework": "trl",
        "rollout": "vllm-separate",
        "rollout_gpus": 4,
        "rollout_overlap": "asynchronous",
    },
    {
        "framework": "verl",
        "rollout": "vllm-separate",
        "rollout_gpus": 4,
        "rollout_overlap": "synchronous",
    },
    {"rollout_tensor_parallel": 7},
    {"rollout": "vllm-separate", "rollout_gpus": 4, "rollout_tensor_parallel": 7},
    {"method": "sft", "rollout": "hf"},
    {"rollout": "none"},
    {"method": "grade", "rollout": "hf"},
    {"rollout": "in-graph"},
    {"method": "sft", "responses_per_prompt": 8},
    {"responses_per_prompt": 1},
    {"prompts_per_step": 64, "prompts_per_update": 128},
    {"prompts_per_step": 64, "prompts_per_update": 48},
    *(
        {"framework": framework, "prompts_per_step": 64, **fields}
        for framework in ("verl", "trl")
        for fields in ({"gpus": 7, "gpus_per_node": 7}, {"micro_batch_size": 3})
    ),
    {"logprob_micro_batch_size": 65},
    {"framework": "verl", "max_tokens_per_micro_batch": 100},
    {"method": "dpo", "max_tokens_per_micro_batch": 4096, "prompt_tokens": 1024},
    {"dtype": "fp32", "master_dtype": "fp32"},
    {"master_dtype": "none", "gradient_dtype": "fp32"},
    {"gradient_dtype": "bf16"},
    {"gradient_dtype": "fp16"},
    {"dtype": "fp32", "logits_dtype": "bf16"},
    {"dtype": "fp32", "attention": "flash"},
    {"dtype": "fp32", "attention": "flash_attention_3", "gpu": "h100-80gb"},
    {"batch_shape": "packed", "attention": "eager"},
    {"reference": "adapter-disabled"},
    {"reference": "dual-output"},
    {"reference": "cached-activations", "kl": "reward"},
    {"reference": "cached-activations", "framework": "trl"},
    {"reference": "none"},
    {"method": "sft", "kl": "loss"},
    {"method": "dpo", "kl": "loss"},
    {"method": "dpo", "entropy": True},
    {"method": "dpo", "reference": "none"},
    {"method": "ppo", "critic": "none"},
    {"critic": "separate"},
    {"offload": "parameters"},
    {"offload": "all", "sharding": "ddp"},
    {"offload": "optimizer"},
    {"activation_offload": True, "gradient_checkpointing": "none"},
    {"self_certainty_gradient": True},
    {"grade_estimator": "straight-through"},
    {"grade_top_k": 256},
    {"grade_dense_scatter": True},
    {"grade_kl": "online"},
    {"grade_reference_cache": True},
    {"grade_autocast": True},
    {"method": "grade", "dtype": "fp32", "finetuning": "lora", "grade_autocast": True},
    {"finetuning": "lora", "lora_dropout": 0.1, "compile": True},
    {"optimizer_step": "in-backward", "gpus": 8, "sharding": "zero2"},
    {"optimizer_step": "in-backward", "optimizer": "adamw-foreach"},
    {"optimizer_step": "in-backward", "sharding": "fsdp2", "offload": "all"},
    {"optimizer_step": "in-backward", "sharding": "fsdp2", "gpus": 8, "shard_size": 4},
    {"optimizer_step": "in-backward", "framework": "trl"},
    {"finetuning": "lora", "base_dtype": "fp32", "sharding": "zero2"},
    {"autocast": True, "dtype": "fp32"},
    {"framework": "verl", "chunk_tokens": 1024},
    {"framework": "verl", "chunk_compile": True},
    {"chunk_compile": True, "dtype": "fp32"},
    {"optimizer": "paged-adamw-8bit", "sharding": "fsdp2"},
    {"optimizer": "paged-adamw-8bit", "gpus": 1, "offload": "all-between-phases"},
    {"method": "grade", "finetuning": "lora", "autocast": True},
    {"reference": "frozen-adapter"},
    {"framework": "verl", "finetuning": "lora", "reference": "frozen-adapter"},
    {"finetuning": "lora", "base_dtype": "fp32", "master_dtype": "none"},
    {"finetuning": "qlora", "base_dtype": "fp32", "framework": "trl"},
    {"finetuning": "lora", "base_dtype": "fp32", "method": "grade", "master_dtype": "none"},
    {"optimizer_step": "in-backward", "framework": "verl"},
    {"optimizer_step": "in-backward", "method": "grade"},
    {"finetuning": "lora", "framework": "trl", "lora_targets": "q_proj,lm_head"},
    {"finetuning": "lora", "framework": "verl", "lora_rank": 1024},
    {"grade_reward_input": "sparse"},
    {"grade_step_checkpointing": True},
    {"reinforce_baseline": "group"},
    {"method": "reinforce++", "reinforce_baseline": "group", "responses_per_prompt": 1},
    {"method": "rloo", "responses_per_prompt": 1},
    {"method": "grade", "sharding": "fsdp2"},
    {"method": "grade", "master_dtype": "fp32"},
    {"method": "grade", "compile": True},
    {"method": "grade", "activation_offload": True},
    {"method": "grade", "response_tokens": 16_384},
    {"method": "grade", "reward": "rule"},
    {"method": "grade", "kl": "loss"},
    {"method": "grade", "entropy": True},
    {"method": "grade", "batch_shape": "packed"},
    {"method": "grade", "max_tokens_per_micro_batch": 8192},
    {"method": "grade", "grade_kl": "online", "reference": "none"},
    {"method": "grade", "grade_reference_cache": True},
    {"method": "grade", "grade_dense_scatter": True},
    {"method": "grade", "grade_reward_input": "sparse"},
    {"sharding": "zero2", "master_dtype": "none"},
    {"method": "grade", "finetuning": "qlora"},
    {"method": "grade", "liger": True},
    {"method": "dpo", "framework": "trl", "reference": "offloaded"},
    {"method": "dpo", "framework": "trl", "logprob_micro_batch_size": 2},
    {"method": "dpo", "framework": "trl", "framework_version": "1.14.0"},
    {"method": "sft", "framework": "trl", "framework_version": "1.14.0"},
    {"method": "dpo", "framework": "trl", "finetuning": "lora", "lora_dropout": 0.1},
    {"framework": "verl", "finetuning": "qlora"},
    {"framework": "trl", "framework_version": "1.14.0", "liger": True},
    {"method": "ppo", "critic": "shared", "framework": "verl"},
    {"framework": "verl", "vllm_sleep_level": 0},
    {"framework": "verl", "reference": "copy"},
    {"framework": "verl", "sharding": "ddp"},
    {"framework": "verl", "rollout": "hf"},
    {"framework": "verl", "logprob_micro_batch_size": 3},
    {"method": "ppo", "framework": "verl", "dtype": "fp32", "master_dtype": "none"},
    {"framework": "trl", "kl": "reward"},
    {"method": "rloo", "framework": "trl", "kl": "loss"},
    {"method": "rloo", "framework": "trl", "entropy": True},
    {"method": "rloo", "framework": "trl", "framework_version": "1.14.0"},
    {"method": "reinforce++", "reinforce_baseline": "group", "responses_per_prompt": 1},
    {"reinforce_baseline": "group"},
    {"method": "intuitor", "framework": "trl", "self_certainty_gradient": True},
    {"method": "intuitor", "self_certainty": "fused"},
    {
        **{"method": "intuitor", "self_certainty": "fused", "logits": "fused"},
        "self_certainty_gradient": True,
    },
    {"gradient_checkpointing": "selective"},
    {"turns": 2},
    {"length_distribution": "1~lognormal_800~700", "batch_shape": "full"},
    {"length_distribution": "1~hist_5~1", "method": "grade"},
    {"mean_prompt_tokens": 600, "prompt_tokens": 512},
    {"mean_prompt_tokens": 100, "batch_shape": "full"},
    {"mean_prompt_tokens": 100, "method": "grade"},
    {"tensor_parallel": 2},
    {"pipeline_parallel": 2},
    {"context_parallel": 2},
    {"expert_parallel": 2},
]


def _all_rules() -> list[Rule]:
    """Every rule there is: of every plan, of a method, of what one method alone has."""
    named = [
        rule
        for method in methods()
        for framework in frameworks()
        for rule in rules_of(Plan.model_construct(method=method, framework=framework))
    ]
    return list({(rule.field, rule.message, rule.fix): rule for rule in named}.values())


def _broken(values: dict[str, Any]) -> set[tuple[str, str, str]]:
    """The rules that a plan would break, were it made without asking them."""
    plan = Plan.model_construct(**fill(values))
    return {(r.field, r.message, r.fix) for r in rules_of(plan) if r.broken(plan)}


def _broken_by_a_sweep() -> set[tuple[str, str, str]]:
    """What is asked of a sweep's sizes alone: a plan of its own is filled up."""
    grid = Grid(Plan(prompts_per_step=64), {"gpus": [8, 24], "micro_batch_size": [1, 5]})
    rules = [rule for rule in rules_of(Plan()) if np.any(rule.broken(grid))]
    assert len(rules) == 2
    return {(rule.field, rule.message, rule.fix) for rule in rules}


def test_every_rule_has_a_plan_that_breaks_it() -> None:
    seen = set().union(*map(_broken, BROKEN), _broken_by_a_sweep())
    assert [rule for rule in _all_rules() if (rule.field, rule.message, rule.fix) not in seen] == []


@pytest.mark.parametrize("values", BROKEN, ids=str)
def test_a_broken_rule_is_told_with_its_fix(values: dict[str, Any]) -> None:
    plan, problems = try_plan(values)
    assert plan is None
    told = {(problem.field, problem.fix) for problem in problems}
    broken = _broken(values)
    assert broken and {(field, fix) for field, _, fix in broken} <= told
    assert {field for field, _, _ in broken} <= set(FIELDS)
    for problem in problems:
        assert problem.message.endswith(".") and problem.fix.endswith(".")


@pytest.mark.parametrize(
    ("values", "field", "word"),
    [
        ({"model": "Qwen/Qwen2.5-7"}, "model", "Qwen2.5-7B"),
        (
            {"model": "zai-org/GLM-4.5-Air", "finetuning": "lora", "lora_targets": "all-linear"},
            "lora_targets",
            "attention",
        ),
        ({"model": "openai/gpt-oss-20b", "attention": "sdpa"}, "attention", "eager"),
        ({"critic_model": "nobody/none", "method": "ppo"}, "critic_model", "nobody/none"),
        ({"gpu": "h100"}, "gpu", "h100-80gb"),
        ({"gpu": "gb300-288gb"}, "gpu", "nobody has reported its usable bytes"),
        ({"gpu": "custom"}, "gpu_bytes", "usable bytes"),
        ({"torch_version": "2.5.0"}, "torch_version", "2.13.0"),
        ({"framework": "trl", "framework_version": "9"}, "framework_version", "1.16.0"),
        ({"model": "openai-community/gpt2", "response_tokens": 2048}, "response_tokens", "1024"),
        ({"rollout_tensor_parallel": 8}, "rollout_tensor_parallel", "28 attention heads"),
        ({"model": "google/gemma-2-2b", "attention": "sdpa"}, "attention", "Gemma 2"),
        ({"finetuning": "lora", "lora_targets": "w1"}, "lora_targets", "q_proj"),
        ({"gpus": "8"}, "gpus", "it must be a whole number"),
        ({"gpus": 0}, "gpus", "is '0': it must be at least 1."),
        ({"gpus": 1_000_000}, "gpus", "it must be at most 65536."),
        ({"method": "zzz"}, "method", "it must be 'grpo', 'ppo'"),
        ({"gpu_memory_utilization": float("nan")}, "gpu_memory_utilization", "finite"),
        ({"colour": "red"}, "colour", "not a field"),
        ({"model": "x; curl evil"}, "model", "it has other characters than"),
    ],
)
def test_unknown_names_and_values_are_refused(
    values: dict[str, Any], field: str, word: str
) -> None:
    plan, problems = try_plan(values)
    assert plan is None
    text = " ".join(problem.sentence for problem in problems if problem.field == field)
    assert word in text, problems


def test_the_short_plan_is_enough() -> None:
    plan = Plan(
        model="Qwen/Qwen2.5-7B",
        method="grpo",
        gpu="h100-80gb",
        gpus=8,
        prompt_tokens=512,
        response_tokens=2048,
    )
    assert plan == Plan(**plan.model_dump())
    assert hash(plan) == hash(Plan(**plan.model_dump()))


def test_another_spelling_is_the_method_itself() -> None:
    assert Plan(method="reinforce-plus-plus") == Plan(method="reinforce++")
    assert Plan(method="DAPO").method == Plan(method="GRPO").method == "grpo"


@pytest.mark.parametrize("values", [one for one in BROKEN if "framework" in one], ids=str)
def test_what_a_framework_limits_is_free_in_the_plain_step(values: dict[str, Any]) -> None:
    given = {key: value for key, value in values.items() if key != "framework_version"}
    own = {*framework_named(values["framework"]).rules, *trainer_for(_plan(values)).rules}
    _, problems = try_plan({**given, "framework": "plain"})
    own = {rule.message for rule in own if isinstance(rule, Rule)}
    assert not own & {problem.message for problem in problems}


def _plan(values: dict[str, Any]) -> Plan:
    """A plan as it would be, were no rule asked."""
    return Plan.model_construct(**fill(values))
