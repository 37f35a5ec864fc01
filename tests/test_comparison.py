"""Comparing plans: only what differs, and what each difference does, by estimates themselves."""

from __future__ import annotations

import re

import pytest

from planner.comparison import (
    compared,
    differing,
    distinct,
    effects,
    figures_of,
    moved,
    old_and_new,
    read_moved,
    summary,
)
from planner.cost import cost
from planner.estimate import estimate
from planner.plan.chosen import differences
from planner.plan.presets import presets

GRPO = presets()["grpo-7b@1"].plan
PPO = presets()["ppo-7b@1"].plan
WIDE = GRPO.changed(gpus=16, entropy=True)
TOO_LARGE = GRPO.changed(response_tokens=32_768, micro_batch_size=8)


def test_only_settings_that_differ_are_told_with_every_plans_value() -> None:
    found = {one.field: one.values for one in differing([GRPO, WIDE, GRPO])}
    assert found == {"gpus": (8, 16, 8), "entropy": (False, True, False)}
    assert differing([GRPO, GRPO]) == ()


def test_a_setting_that_changes_nothing_in_any_plan_is_idle() -> None:
    other = GRPO.changed(lora_rank=GRPO.lora_rank + 8)
    (one,) = differing([GRPO, other])
    assert (one.field, one.idle) == ("lora_rank", True)
    found = differing([GRPO, other.changed(finetuning="lora")])
    assert [each.idle for each in found if each.field == "lora_rank"] == [False]


def test_an_effect_is_the_difference_of_two_estimates() -> None:
    before, after = estimate(GRPO), estimate(GRPO.changed(gpus=16))
    (one,) = effects(GRPO, GRPO.changed(gpus=16), estimate)
    assert one.alone is not None and one.alone == one.last
    assert one.alone.device_bytes == after.device_bytes - before.device_bytes < 0
    assert before.step_seconds is not None and after.step_seconds is not None
    assert one.alone.seconds == pytest.approx(after.step_seconds - before.step_seconds)
    paid = cost(after).usd_run, cost(before).usd_run
    assert paid[0] is not None and paid[1] is not None
    assert one.alone.usd_run == pytest.approx(paid[0] - paid[1])
    assert read_moved(one.alone)[0].startswith("−") and one.matters


def test_every_difference_has_one_effect_and_what_matters_leads() -> None:
    found = effects(GRPO, PPO, estimate)
    fields = [change.field for one in found for change in one.changes]
    assert sorted(fields) == sorted(one.field for one in differences(dict(GRPO), dict(PPO)))
    order = [one.matters for one in found]
    assert order == sorted(order, reverse=True) and {*order} == {True, False}
    shares = [one.share for one in found if one.matters]
    assert shares == sorted(shares, reverse=True)


def test_settings_that_cannot_be_alone_come_together() -> None:
    found = effects(GRPO, PPO, estimate)
    together = [{each.field for each in one.changes} for one in found if len(one.changes) > 1]
    assert {"method", "critic"} in together
    assert {"framework", "framework_version"} in together
    assert all(one.telling is not None for one in found)


def test_what_changes_the_verdict_matters_and_has_no_cost_where_it_does_not_run() -> None:
    one = moved(estimate(GRPO), estimate(TOO_LARGE))
    assert one.verdict == ("fits", "out of memory") and one.matters
    assert one.usd_run is None and one.device_bytes > 0
    assert read_moved(one)[2:] == ("—", "fits → out of memory")


def test_the_engines_share_stands_apart_from_what_training_needs() -> None:
    before, larger = compared(
        [("a", GRPO), ("b", GRPO.changed(gpu_memory_utilization=0.7))], estimate
    )
    said, grown = figures_of(before), figures_of(larger)
    assert said["The engine takes"] != grown["The engine takes"]
    assert said["Training needs"] == grown["Training needs"]
    assert said["Training needs"].endswith(" in policy backward")
    alone = figures_of(compared([("sft", presets()["sft-8b@1"].plan)], estimate)[0])
    assert alone["The engine takes"] == "nothing here"


def test_the_summary_names_who_fits_and_who_leads() -> None:
    three = compared([("small", GRPO), ("wide", WIDE), ("huge", TOO_LARGE)], estimate)
    said = summary(three)
    assert said.startswith("2 plans fit, all but huge; fastest: wide; cheapest: small;")
    assert summary(three[1:]) == "Only wide fits."
    assert summary(compared([("a", TOO_LARGE), ("b", TOO_LARGE)], estimate)) == (
        "None of the 2 plans fits."
    )
    same = summary(compared([("a", GRPO), ("b", GRPO.changed(lora_rank=99))], estimate))
    assert same == "Both plans fit.", "equal plans have no leader"


def test_the_summary_says_who_only_just_fits() -> None:
    tight = GRPO.changed(response_tokens=24576)
    three = compared([("small", GRPO), ("wide", WIDE), ("long", tight)], estimate)
    assert [one.footprint.verdict.word for one in three] == ["fits", "fits", "tight"]
    assert summary(three).startswith("All 3 plans fit, long tightly; ")


def test_what_reads_alike_before_and_after_is_said_once() -> None:
    of = estimate(GRPO)
    alike = r"step \S+ s and run \$\d+ as before\."
    grown = old_and_new(of, estimate(GRPO.changed(gpu_memory_utilization=0.55)))
    assert re.fullmatch(rf"GPU peak \S+ GiB → \S+ GiB, {alike}", grown)
    assert re.fullmatch(rf"GPU peak \S+ GiB, {alike}", old_and_new(of, of))


def test_figures_of_what_does_not_run_have_no_seconds_and_no_money() -> None:
    fits, too_large = compared([("a", GRPO), ("b", TOO_LARGE)], estimate)
    assert figures_of(fits)["Cost of run"].startswith("$")
    cap = f"{GRPO.response_tokens:,}"
    assert figures_of(fits)["Times assume"] == f"every response at the {cap}-token limit"
    figures = figures_of(too_large)
    assert figures["Verdict"] == "out of memory"
    assert {figures[name] for name in ("Step time", "The run", "Cost of run")} == {"does not run"}


def test_names_tell_plans_apart_and_keep_off_the_tables_own() -> None:
    assert distinct(["", "x", "x", ""]) == ("Plan A", "x", "x (C)", "Plan D")
    names = distinct(["Peak", "x (C)", "x", "x"], taken=("Peak",))
    assert "Peak" not in names and len({*names}) == 4
    assert len({*distinct(["x", "x (C)", "x"])}) == 3
