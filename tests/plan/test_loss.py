"""The loss that a person names is the loss that is planned, under every framework."""

from __future__ import annotations

from typing import Any

import pytest

from planner.advice.ablation import switches
from planner.advice.advice import Advice
from planner.cli.plan_argument import read_plan
from planner.dryrun.ask.stand_in import stand_in
from planner.estimate import estimate
from planner.formulas import logits
from planner.launch.export import obstacles
from planner.phases.scene import scene_of
from planner.phases.vocabulary import inference_head, training_head
from planner.plan import Plan, try_plan
from planner.plan.facts import facts_of
from planner.plan.frameworks import framework_named
from planner.plan.loss import foreign, has_path, own_paths, path_of, way_of
from planner.plan.methods import method_of
from planner.plan.trainers import able
from planner.search.options import space_of
from planner.search.wish import Wish
from planner.sweeps.table import sweep
from planner.values.loss_code import PATHS, WAYS

SMALL: dict[str, Any] = {"model": "Qwen/Qwen2.5-0.5B", "gpus": 2, "micro_batch_size": 2}
ALONE: dict[str, Any] = {**SMALL, "gpus": 1, "sharding": "none", "master_dtype": "fp32"}
TRAINED = [
    (framework, method, named)
    for framework, method in (
        *(("trl", method) for method in ("sft", "dpo", "grpo", "rloo", "intuitor")),
        *(("verl", method) for method in ("grpo", "ppo", "reinforce++", "rloo", "intuitor")),
    )
    for named in PATHS
    if not has_path(Plan(framework=framework, method=method, logits=named, **SMALL))
]


def test_every_framework_has_a_path_that_it_has_not() -> None:
    assert {framework for framework, _, _ in TRAINED} == {"trl", "verl"}


@pytest.mark.parametrize(("framework", "method", "named"), TRAINED)
def test_a_named_loss_is_the_plain_one_at_the_same_shapes(
    framework: str, method: str, named: str
) -> None:
    plan = Plan(framework=framework, method=method, logits=named, **SMALL)
    values = plan.model_dump(exclude={"framework", "framework_version"})
    plain, problems = try_plan({**values, "framework": "plain"})
    assert plain is not None, problems
    found, other = (scene_of(each, facts_of(each)) for each in (plan, plain))
    for head_of in (training_head, inference_head):
        head = head_of(found, found.policy)
        same = head_of(other, other.policy)
        assert head.way is WAYS[named] and head == same
        objective = method_of(plan).objective
        for instants in (logits.forward_instants, logits.backward_instants):
            mine, theirs = (
                instants(each, objective=objective, role="policy") for each in (head, same)
            )
            assert [one.terms for one in mine] == [one.terms for one in theirs]


@pytest.mark.parametrize("named", ["full", "response", "chunked"])
def test_on_one_gpu_supervised_training_is_the_plain_steps_to_the_byte(named: str) -> None:
    asked = {**ALONE, "method": "sft", "logits": named, "prompts_per_step": 8}
    trl, plain = (estimate(Plan(framework=name, **asked)) for name in ("trl", "plain"))
    assert trl.device_bytes == plain.device_bytes
    assert trl.assumptions and not plain.assumptions


def test_what_nobody_names_keeps_the_frameworks_own_path_and_says_nothing() -> None:
    for name in able("grpo"):
        framework = framework_named(name)
        usual = Plan(framework=name, **SMALL)
        code = framework.loss_code(usual.framework_version)
        assert has_path(usual) and path_of(usual) == WAYS[code.paths[usual.logits]].path
        assert not any(line.startswith("loss") for line in estimate(usual).assumptions)


DIED = {
    "model=Qwen/Qwen2.5-0.5B&method=dpo&gpu=v100-16gb-pcie&gpus=8&sharding=zero3&offload=all"
    "&prompt_tokens=2048&response_tokens=2048&prompts_per_step=8&micro_batch_size=1&dtype=fp16"
    "&framework=trl": (4.8, 19.9),
    "method=dpo&framework=trl&gpu=a100-80gb&gpus=1&sharding=none&model=Qwen/Qwen2.5-0.5B"
    "&micro_batch_size=8&prompts_per_step=8&prompt_tokens=512&response_tokens=512"
    "&gradient_checkpointing=none&master_dtype=none&dtype=fp32": (53.3, 79.5),
    "method=sft&framework=trl&model=Qwen/Qwen3-4B&gpus=1&sharding=none&gpu=h100-80gb"
    "&micro_batch_size=4&prompts_per_step=8&prompt_tokens=2048&response_tokens=2048": (77.0, 100.4),
}
"""Public reports of older releases: GiB by TRL 1.16's own path, and by whole logits."""


@pytest.mark.parametrize("query", DIED)
def test_whole_logits_under_trl_no_longer_fit_where_runs_died(query: str) -> None:
    own, named = (read_plan(query + more).plan for more in ("", "&logits=full"))
    assert own is not None and named is not None
    words = [estimate(plan) for plan in (own, named)]
    assert tuple(round(each.device_bytes / 2**30, 1) for each in words) == DIED[query]
    assert words[1].verdict.word == "out of memory"
    assert words[1].assumptions == (
        "loss: whole fp32 logits, as older releases; TRL 1.16.0 itself would take tiles of 4,096 "
        "tokens",
    )


def test_a_path_that_is_planned_as_another_says_so() -> None:
    verl = estimate(Plan(framework="verl", logits="fused", **SMALL)).assumptions
    assert verl == ("loss: verl's Triton kernels are planned as its chunks of 512 tokens",)
    older = Plan(framework="trl", framework_version="1.14.0", **SMALL)
    assert estimate(older).assumptions == ("loss: TRL 1.14.0's own, which has no fused head",)
    whole = older.changed(logits="full")
    assert "TRL 1.14.0 itself would take whole logits of the responses" in foreign(whole)
    # What 1.14 runs in SFT was not read; a loss that is named needs no reading.
    supervised = {"framework": "trl", "framework_version": "1.14.0", "method": "sft", **SMALL}
    assert try_plan(supervised)[0] is None
    assert estimate(Plan(**supervised, logits="full")).assumptions


@pytest.mark.parametrize(
    ("framework", "method", "named"), [one for one in TRAINED if one[1] in ("grpo", "sft")]
)
def test_launch_refuses_in_the_words_of_the_estimate(
    framework: str, method: str, named: str
) -> None:
    plan = Plan(framework=framework, method=method, logits=named, **SMALL)
    said = [each for each in estimate(plan).assumptions if each.startswith("loss: ")]
    refused = [each.why for each in obstacles(plan, framework) if each.field == "logits"]
    assert refused == [f"The plan's {said[0].replace(':', ' is', 1)}."]
    fixed = Plan(**{**plan.model_dump(), "logits": own_paths(plan)[0]})
    assert not [each for each in obstacles(fixed, framework) if each.field == "logits"]


def test_a_dry_run_executes_the_named_path_and_says_whose_step_that_is() -> None:
    for framework, method, named in TRAINED:
        plan = Plan(framework=framework, method=method, logits=named, **SMALL)
        made = stand_in(plan)
        assert made.code == "plain" and made.plan.logits == named
        assert f"The loss that ran is {foreign(plan)}." in made.notes
    own = stand_in(Plan(framework="verl", logits="fused", **SMALL))
    assert own.plan.logits == "chunked"
    assert not any("The loss that ran" in note for note in own.notes)


def test_nobody_suggests_a_loss_that_the_framework_has_not() -> None:
    for framework, method in (("trl", "sft"), ("trl", "grpo"), ("verl", "grpo")):
        plan = Plan(framework=framework, method=method, gpu="rtx-4090", **SMALL)
        for start in (plan, plan.changed(logits="response")):
            advice = Advice(estimate(start))
            for one in (*advice.made, *advice.faster, *advice.ways):
                named = one.after.plan.logits
                assert named == start.logits or named in own_paths(plan), one.title
            for one in switches(start):
                named = {each["logits"] for each in (one.on, one.off) if "logits" in each}
                assert named <= {start.logits, *own_paths(plan)}, one.name
        options = [
            option["logits"]
            for choice in space_of(plan, Wish()).trainer
            for option in choice
            if "logits" in option
        ]
        assert set(options) == {plan.logits, *own_paths(plan)}


def test_a_sweep_over_losses_has_the_figures_of_single_estimates() -> None:
    plan = Plan(framework="trl", method="sft", **ALONE)
    table = sweep(plan, {"logits": list(PATHS), "micro_batch_size": [1, 2]})
    for row in table.to_dict("records"):
        size = int(row["micro_batch_size"])
        one = plan.changed(
            logits=row["logits"], micro_batch_size=size, logprob_micro_batch_size=size
        )
        assert row["device_bytes"] == estimate(one).device_bytes
    assert table["device_bytes"].nunique() >= 6


def test_self_certainty_follows_a_loss_that_is_named() -> None:
    fused = Plan(framework="trl", method="intuitor", **SMALL)
    named = Plan(framework="trl", method="intuitor", logits="full", **SMALL)
    assert (fused.self_certainty, named.self_certainty) == ("fused", "full")
    assert way_of(fused).by_kernel and not way_of(named).by_kernel
