"""Answers where the right one is known, and what holds of every answer."""

from __future__ import annotations

from typing import Any

import pytest

from planner.cost import cost
from planner.estimate import estimate
from planner.examples import doc_000_plans
from planner.examples.planned import planned
from planner.launch.export import obstacles
from planner.plan import Plan
from planner.plan.frameworks import OWN
from planner.plan.presets import presets
from planner.plan.trainers import exporting
from planner.search import Found, Wish, search
from planner.search.tiers import NAMES, no_better
from planner.search.words import trade_offs
from planner.totals.limits import MARGIN

FOURTEEN: dict[str, Any] = {
    "model": "Qwen/Qwen2.5-14B",
    "method": "grpo",
    "framework": "verl",
    "gpu": "a100-40gb",
    "gpus": 8,
    "response_tokens": 8192,
    "attention": "sdpa",
}
"""Eight A100 of 40 GB, GRPO with responses of 8 k and torch's attention: by hand, all weights train
tightly with the engine over all eight GPUs, 8-bit AdamW and one row at a time (findings of thirteen
walks)."""


PAIRS = Plan(
    model="Qwen/Qwen2.5-1.5B", method="dpo", finetuning="lora", reference="adapter-disabled",
    gpu="h100-80gb", gpus=8, responses_per_prompt=1, rollout="none",
)  # fmt: skip


@pytest.fixture(scope="module")
def fourteen() -> Found:
    return search(Plan(**FOURTEEN), Wish(goal="fastest", keep=tuple(FOURTEEN)))


def _named(found: Found) -> dict[str, Any]:
    """Each of the three margins' plan; one plan may be that of several."""
    return {name: one for one in found.recommendations for name in one.names if name in NAMES}


def test_a_14b_on_eight_cards_of_40_gb_trains_all_its_weights(fourteen: Found) -> None:
    found = _named(fourteen)
    assert tuple(found) == NAMES
    for one in found.values():
        plan = one.plan
        assert plan.finetuning == "full" and plan.rollout_tensor_parallel == 8
        assert {name: getattr(plan, name) for name in FOURTEEN} == FOURTEEN
    by_hand = found["aggressive"].plan
    assert by_hand.optimizer == "adamw-8bit" and by_hand.micro_batch_size == 1
    assert any("8 bits" in sentence for sentence in found["aggressive"].trade_offs)
    assert found["conservative"].trade_offs == ()


def test_margins_are_those_that_the_names_stand_for(fourteen: Found) -> None:
    found = {name: one.footprint for name, one in _named(fourteen).items()}
    assert found["conservative"].high_bytes <= MARGIN * found["conservative"].budget_bytes
    assert found["balanced"].verdict.word == "fits"
    assert found["aggressive"].verdict.word in ("fits", "tight")
    seconds = [found[name].step_seconds or 0 for name in NAMES]
    assert seconds[2] < seconds[0], "less margin buys nothing here"


def test_every_plan_is_estimated_whole_exports_and_says_its_differences(fourteen: Found) -> None:
    for one in fourteen.recommendations:
        assert one.footprint == estimate(one.plan)
        assert not obstacles(one.plan, "verl")
        assert {change.field for change in one.differences} == {
            name for name, value in dict(one.plan).items() if value != getattr(fourteen.plan, name)
        }
        assert one.checked == "unchecked"


def test_blockers_are_mended_by_the_engines_own_fields() -> None:
    """A share too small for one sequence: no adapters, no offload, but the engine over more GPUs
    (an engine of 32B over 4 takes minutes where one GPU takes hours)."""
    plan = Plan(
        model="Qwen/Qwen2.5-32B", framework="verl", gpu="h100-80gb", gpus=32,
        response_tokens=16384, offload="all", micro_batch_size=1,
    )  # fmt: skip
    assert estimate(plan).step_seconds or 0 > 3600
    found = search(
        plan,
        Wish(
            goal="fastest",
            max_gpus=32,
            free=("rollout_tensor_parallel", "gpu_memory_utilization"),
        ),
    )
    for one in found.recommendations:
        assert one.plan.gpus == 32 and one.plan.rollout_tensor_parallel >= 2
        assert (one.footprint.step_seconds or 0) < (estimate(plan).step_seconds or 0) / 2
    assert found.recommendations


LONE: dict[str, Any] = {"model": "Qwen/Qwen3-4B", "framework": "trl", "gpu": "rtx-4090"}
FEW = ("gradient_checkpointing", "gpu_memory_utilization")


def test_a_card_of_24_gb_trains_adapters_of_a_4b_and_not_its_weights() -> None:
    """16 bytes a parameter are 60 GiB; weights in bf16 are 7.5, twice with the engine's."""
    plan = Plan(**LONE, gpus=1)
    found = search(plan, Wish(free=FEW))
    assert not found.recommendations and found.misses
    assert all(miss.lacks for miss in found.misses)
    fits = search(plan, Wish(free=FEW, lora_allowed=True))
    assert {one.plan.finetuning for one in _named(fits).values()} == {"lora"}
    assert all("LoRA" in one.trade_offs[0] for one in fits.recommendations)


EIGHT = (
    *("a100-40gb", "a100-80gb", "l40s", "h100-80gb"),
    *("h200-141gb", "b200-180gb", "rtx-4090", "rtx-pro-6000-blackwell"),
)


def test_the_cheapest_of_eight_cards_is_the_one_found_by_hand() -> None:
    plan = Plan(
        model="Qwen/Qwen2.5-7B", gpu="h100-80gb", gpus=8, rollout_tensor_parallel=4,
        gpu_memory_utilization=0.6, logits="fused",
    )  # fmt: skip
    by_hand = {}
    for key in EIGHT:
        footprint = estimate(plan.changed(gpu=key))
        if footprint.verdict.word == "fits":
            by_hand[key] = cost(footprint).usd_run or 0
    assert 2 <= len(by_hand) < len(EIGHT)
    found = search(plan, Wish(goal="cheapest", free=(), cards=EIGHT))
    best = _named(found)["balanced"]
    assert best.plan.gpu == min(by_hand, key=lambda key: by_hand[key])
    assert cost(best.footprint).usd_run == min(by_hand.values())
    assert found.front and found.front[0].usd == min(by_hand.values())
    assert all(point.low_usd < point.usd < point.high_usd for point in found.front)


def test_a_deadline_and_a_budget_are_kept_at_the_slow_end_by_the_conservative_plan() -> None:
    plan = Plan(model="Qwen/Qwen2.5-1.5B", gpu="h100-80gb", gpus=8)
    hours = cost(estimate(plan)).hours_run or 0
    wish = Wish(goal="deadline", free=(), max_gpus=32, deadline_hours=hours)
    found = _named(search(plan, wish))
    for one in found.values():
        assert (cost(one.footprint).hours_run or 0) <= hours
    slow = found["conservative"].footprint
    assert slow.doubt is not None and slow.doubt.high > 1
    assert (cost(slow).high_hours_run or 0) <= hours
    assert found["conservative"].plan.gpus > found["balanced"].plan.gpus


def test_checkpoints_and_validations_are_in_hours_of_the_front_and_of_a_deadline() -> None:
    often = {"save_steps": 5, "eval_steps": 5, "validation_responses": 4096}
    plan = Plan(model="Qwen/Qwen2.5-1.5B", gpu="h100-80gb", gpus=8, **often)
    paid = cost(estimate(plan))
    steps_alone = (estimate(plan).step_seconds or 0) * plan.steps / 3600
    assert (paid.hours_run or 0) > 1.2 * steps_alone
    cards = ("h100-80gb", "h200-141gb")
    for point in search(plan, Wish(goal="cheapest", free=(), cards=cards)).front:
        own = cost(estimate(plan.changed(**point.changes)))
        assert (point.hours, point.usd) == pytest.approx((own.hours_run, own.usd_run))
        ends = point.low_hours, point.high_hours, point.low_usd, point.high_usd
        assert ends == pytest.approx(
            (own.low_hours_run, own.high_hours_run, own.low_usd_run, own.high_usd_run)
        )
    between = (steps_alone + (paid.hours_run or 0)) / 2
    wish = Wish(goal="deadline", free=(), deadline_hours=between)
    assert "balanced" not in _named(search(plan, wish))
    # Its slow end is that of a disk whose rate nobody said, far beyond a step's own.
    doubt = estimate(plan).doubt
    assert doubt and paid.hours_run and paid.high_hours_run
    later = (paid.hours_run * doubt.high + paid.high_hours_run) / 2
    named = _named(search(plan, Wish(goal="deadline", free=(), deadline_hours=later)))
    assert "balanced" in named and "conservative" not in named
    without = plan.changed(save_steps=0, eval_steps=0)
    assert "balanced" in _named(search(without, wish))


def test_gpus_that_a_script_does_not_run_on_are_left_out_and_said() -> None:
    """The program of DPO runs on one node; of 32 GPUs, which fit best, nothing was left."""
    few = _named(search(PAIRS, Wish(goal="fastest", free=())))
    found = search(PAIRS, Wish(goal="fastest", free=(), max_gpus=32))
    assert {name: one.plan for name, one in _named(found).items()} == {
        name: one.plan for name, one in few.items()
    }
    assert "16, 24, 32 GPUs: this plan's launch script does not run on that many." in found.left_out


def test_nothing_in_time_names_what_would_do() -> None:
    found = search(PAIRS, Wish(goal="deadline", free=(), deadline_hours=0.01))
    assert not found.recommendations and found.misses
    assert "over the deadline" in " ".join(one.lacks for one in found.misses)


def test_a_deadline_holds_the_pass_that_comes_before_the_run() -> None:
    """Steps alone would be in time on the GPUs that were asked for."""
    plan = PAIRS.changed(reference="cached-logprobs", gpus=4, sharding="ddp")
    asked = estimate(plan)
    assert asked.step_seconds and asked.reference_cache and asked.reference_cache.seconds
    steps = asked.step_seconds * plan.steps / 3600
    assert asked.reference_cache.seconds / 3600 > 0.1 * steps
    wish = Wish(goal="deadline", free=(), max_gpus=32, deadline_hours=1.05 * steps)
    found = _named(search(plan, wish))
    assert found and all(one.plan.gpus == 8 for one in found.values())
    for one in found.values():
        assert (cost(one.footprint).hours_run or 0) <= wish.deadline_hours


def test_what_was_left_out_is_said() -> None:
    plan = Plan(model="Qwen/Qwen2.5-1.5B", gpu="h100-80gb", gpus=1)
    found = search(plan, Wish(free=("optimizer", "reference", "max_tokens_per_micro_batch")))
    said = " ".join(found.left_out)
    assert "SGD" in said and "in advance" in said and "token budget" in said


def test_a_goal_about_what_the_plan_does_not_have_is_refused() -> None:
    plan = Plan(model="Qwen/Qwen2.5-1.5B", framework="verl", max_tokens_per_micro_batch=8192)
    with pytest.raises(ValueError, match="^micro_batch_size: "):
        search(plan, Wish(goal="largest-batch", free=()))


def test_a_methods_own_switches_are_searched() -> None:
    """Document 002's run fits once each token's step is computed again, and by nothing else of
    these."""
    plan = presets()["doc-002-before@2"].plan
    assert estimate(plan).verdict.word == "out of memory"
    found = search(plan, Wish(free=("grade_step_checkpointing", "grade_reference_cache")))
    assert found.recommendations
    assert all(one.plan.grade_step_checkpointing for one in found.recommendations)


def test_what_training_may_lose_is_named() -> None:
    plan = presets()["doc-001-legacy@2"].plan
    other = plan.changed(grade_estimator="straight-through", response_tokens=16)
    said = " ".join(trade_offs(plan, other))
    assert "straight-through" in said and "16 tokens" in said and "8 bits" not in said
    assert trade_offs(plan, plan) == () == trade_offs(other, plan)[1:]


def test_document_000s_settings_are_answered_by_a_search() -> None:
    """Its Examples card shows what a search finds today, with nothing cut."""
    plan = doc_000_plans.asked()
    found = search(plan, Wish(goal="fastest", keep=tuple(doc_000_plans.kept())))
    assert {
        name: {change.field: change.after for change in one.differences}
        for name, one in _named(found).items()
    } == doc_000_plans.FOUND
    words = {case.label: planned(case.plan).verdict.word for case in doc_000_plans.settings()}
    assert words["Balanced"] == words["Conservative"] == "fits"
    assert words["Aggressive"] in ("fits", "tight")


def test_a_looser_tier_is_never_dearer_where_a_framework_has_one_field_for_two() -> None:
    """TRL forwards log-probs by its one micro-batch, which is free here: they move together."""
    asked = presets()["grpo-7b@1"].plan.changed(framework="trl", framework_version="1.16.0")
    free = ("gradient_checkpointing", "enforce_eager", "micro_batch_size", "optimizer", "sharding")
    wish = Wish(goal="cheapest", max_gpus=16, cards=("a100-40gb",), free=free)
    found = search(asked, wish)
    named = _named(found)
    usd = [cost(one.footprint).usd_run for one in named.values()]
    assert tuple(named) == NAMES and None not in usd
    assert usd == sorted(usd, reverse=True), "conservative, balanced, aggressive"
    assert named["balanced"].plan.micro_batch_size > 1
    for tie in found.ties:
        assert not obstacles(asked.changed(**tie.changes), "trl"), tie.changes


@pytest.mark.parametrize(
    ("goal", "one", "safer", "same"),
    [
        ("fastest", (645.0, 917.0, 0.0, 7.0, 9e9), (0.0, 646.0, 918.0, 4.0, 8e9), True),
        ("fastest", (644.0, 916.0, 0.0, 7.0, 9e9), (0.0, 646.0, 918.0, 4.0, 8e9), False),
        ("longest", (-8320.0, 700.0, 0.0, 7.0, 9e9), (0.0, -8192.0, 646.0, 4.0, 8e9), False),
        ("longest", (-8192.0, 645.0, 0.0, 7.0, 9e9), (0.0, -8192.0, 646.0, 4.0, 8e9), True),
        ("longest", (-8192.0, 640.0, 0.0, 7.0, 9e9), (0.0, -8192.0, 646.0, 4.0, 8e9), False),
        ("fit", (32.0, 1.0, 640.0, 0.0, 1.0, 9e9), (0.0, 32.0, 1.0, 641.0, 1.0, 8e9), True),
        ("fit", (32.0, 1.0, 639.0, 0.0, 1.0, 9e9), (0.0, 32.0, 1.0, 641.0, 1.0, 8e9), False),
    ],
)
def test_a_step_of_time_or_money_is_no_gain_and_any_of_a_size_is(
    goal: str, one: tuple[float, ...], safer: tuple[float, ...], same: bool
) -> None:
    found = no_better(Wish(goal=goal), ("aggressive", one), ("conservative", safer))
    assert found == same


def test_less_margin_that_buys_nothing_is_not_offered() -> None:
    asked = ("model", "gpu", "response_tokens")
    changes = {name: FOURTEEN[name] for name in asked}
    plan = Plan(**{**presets()["grpo-7b@1"].plan.model_dump(), **changes})
    found = search(plan, Wish())
    seconds = [one.footprint.step_seconds or 0 for one in _named(found).values()]
    assert seconds == sorted(seconds, reverse=True) and len(seconds) == 3
    plans = [one.plan for one in found.recommendations]
    assert len(set(plans)) == len(plans) < 3, "no plan stands twice"
    (merged,) = [one for one in found.recommendations if one.also]
    assert f"{merged.called.capitalize()} are the same plan" in found.same
    assert all("with every response at the" in one.why for one in found.recommendations)
    # Of the step and of the run, a figure and its two ends.
    whys = [one.why.partition("A step takes")[2] for one in found.recommendations]
    assert all(why.count("–") == 3 for why in whys)


@pytest.mark.parametrize("framework", [one for one in exporting("grpo") if one != OWN])
def test_plans_are_for_the_framework_that_is_to_launch_them(framework: str) -> None:
    plan = presets()["grpo-7b@1"].plan
    assert plan.framework not in (framework, "trl")
    wish = Wish(goal="fastest", free=("micro_batch_size",), framework=framework)
    found = search(plan, wish)
    assert tuple(_named(found)) == NAMES
    for one in found.recommendations:
        assert one.plan.framework == framework and not obstacles(one.plan, framework)
        assert "framework" in {change.field for change in one.differences}


@pytest.mark.parametrize(
    ("preset", "framework", "why"),
    [("ppo-7b@1", "trl", "TRL has had no PPO"), ("doc-002-after@2", "verl", "verl")],
)
def test_a_framework_that_cannot_run_it_is_refused(preset: str, framework: str, why: str) -> None:
    with pytest.raises(ValueError, match=f"^framework: .*{why}"):
        search(presets()[preset].plan, Wish(framework=framework))
