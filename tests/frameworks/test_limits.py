"""Every rule of a framework can fire, says what to do, and is asked of its own plans only."""

from __future__ import annotations

from typing import Any

import pytest

from planner.frameworks import exported, framework_named, frameworks
from planner.plan import FIELDS, try_plan
from planner.plan.choices import choices

# One plan per rule, in the order of the rules, so that a rule without a test is seen.
BROKEN: dict[str, list[dict[str, Any]]] = {
    "plain": [],
    "trl": [
        {"method": "dpo", "reference": "offloaded"},
        {"method": "dpo", "logprob_micro_batch_size": 2},
        {"method": "dpo", "framework_version": "1.14.0"},
        {"framework_version": "1.14.0", "liger": True},
        {"kl": "reward"},
    ],
    "verl": [
        {"finetuning": "qlora"},
        {"method": "ppo", "critic": "shared"},
        {"vllm_sleep_level": 0},
        {"reference": "copy"},
        {"sharding": "ddp"},
        {"rollout": "hf"},
    ],
}


@pytest.mark.parametrize(
    ("name", "rule", "values"),
    [
        (name, rule, values)
        for name, framework in frameworks().items()
        for rule, values in zip(framework.rules, BROKEN[name], strict=True)
    ],
    ids=lambda value: value.field if hasattr(value, "field") else "",
)
def test_rule_fires_and_helps(name: str, rule: Any, values: dict[str, Any]) -> None:
    plan, problems = try_plan({"framework": name, **values})
    assert plan is None
    assert (rule.field, rule.fix) in {(problem.field, problem.fix) for problem in problems}
    assert rule.field in FIELDS
    for problem in problems:
        assert problem.message.endswith(".") and problem.fix.endswith(".")


@pytest.mark.parametrize(
    ("name", "method", "sentence", "fix"),
    [
        ("trl", "ppo", "TRL has had no PPO since 1.13.0.", "Set framework to plain or verl."),
        ("verl", "sft", "verl's SFT trainer is not planned.", "Set framework to plain or trl."),
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
    assert tuple(frameworks()) == choices("framework") == ("plain", "trl", "verl")
    assert exported() == ("trl", "verl")


@pytest.mark.parametrize("name", ["openrlhf", "slime", "", "TRL", "../trl"])
def test_a_name_that_is_no_framework_is_refused_with_those_that_are(name: str) -> None:
    plan, problems = try_plan({"framework": name})
    assert plan is None
    text = " ".join(problem.sentence for problem in problems if problem.field == "framework")
    assert "choose one of plain, trl, verl." in text
    assert ("not planned yet" in text) == (name == "openrlhf")
    with pytest.raises(ValueError, match=r"framework is .*plain, trl, verl"):
        framework_named(name)


@pytest.mark.parametrize("name", ["trl", "verl"])
def test_what_a_framework_limits_is_free_in_the_plain_step(name: str) -> None:
    for rule, values in zip(framework_named(name).rules, BROKEN[name], strict=True):
        given = {key: value for key, value in values.items() if key != "framework_version"}
        _, problems = try_plan({**given, "framework": "plain"})
        assert rule.message not in {problem.message for problem in problems}
