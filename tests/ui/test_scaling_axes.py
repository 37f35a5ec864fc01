"""What the Scaling page finds along an axis: points, limits, holes, the knee, cards in order."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pandas as pd
import pytest

from planner.estimate import estimate
from planner.plan import Plan, try_plan
from planner.plan.presets import presets
from planner.sweeps.table import sweep
from planner.ui.scaling import knee, limits, rows
from planner.ui.scaling.axes import AXES, CARD, cards, known_cards
from planner.ui.scaling.panels import apart, curves_of
from planner.ui.scaling.points import EVEN, drawn
from planner.values.dealing import rest

GRPO = presets()["grpo-7b@1"].plan
LENGTH = AXES["response_tokens"]


def swept(plan: Plan, field: str, values: list[int]) -> pd.DataFrame:
    table = sweep(plan, {field: values})
    return table[table["valid"].astype(bool)].reset_index(drop=True)


@pytest.fixture(scope="module")
def lengths() -> pd.DataFrame:
    found = swept(GRPO, LENGTH.field, LENGTH.values([GRPO], 128, 32_768))
    return found[found[LENGTH.field].between(128, 32_768)].reset_index(drop=True)


def test_lines_through_the_points_miss_no_plan_by_more_than_a_pixel_or_two(
    lengths: pd.DataFrame,
) -> None:
    names = curves_of(lengths)
    places = drawn(lengths, LENGTH.field, names)
    assert EVEN <= len(places) <= 250 and places == sorted(set(places))
    x = np.log2(lengths[LENGTH.field])
    kept = lengths[LENGTH.field].isin(places)
    for name in names:
        sizes = np.nan_to_num(lengths[name].to_numpy(dtype=float))
        missed = np.abs(sizes - np.interp(x, x[kept], sizes[kept])).max()
        assert missed <= 0.002 * sizes.max(), name


def test_both_sides_of_every_change_of_the_worst_phase_are_drawn(lengths: pd.DataFrame) -> None:
    places = drawn(lengths, LENGTH.field, curves_of(lengths))
    phases = lengths["worst_phase"].astype(str)
    changes = [n for n in range(1, len(phases)) if phases[n] != phases[n - 1]]
    assert changes
    for n in changes:
        assert {*lengths[LENGTH.field][n - 1 : n + 1]} <= set(places)


def test_points_are_denser_where_a_line_bends() -> None:
    values = list(range(64, 64 * 1025, 64))
    table = pd.DataFrame({"gpus": values, "worst_phase": "rollout", "verdict": "fits"})
    straight = drawn(table.assign(y=np.log2(values)), "gpus", ["y"])
    assert EVEN <= len(straight) <= 2 * EVEN
    step = drawn(table.assign(y=[float(value > 8192) for value in values]), "gpus", ["y"])
    assert {8192, 8256} <= {*step} and not {8192, 8256} <= {*straight}
    bend = drawn(table.assign(y=[max(value - 8192.0, 0.0) for value in values]), "gpus", ["y"])
    assert any(abs(place - 8192) <= 64 for place in {*bend} - {*straight})


def test_an_axis_of_whole_numbers_holds_possible_plans_alone() -> None:
    axis = AXES["micro_batch_size"]
    table = swept(GRPO, axis.field, axis.values([GRPO], 1, 256))
    places = drawn(table, axis.field, curves_of(table))
    assert places == [1, 2, 4, 8, 16, 32, 64]
    for size in places:
        assert try_plan({**GRPO.model_dump(), **rows.changed(GRPO, axis.field, size)})[0]


@pytest.mark.parametrize("preset", ["grpo-7b@1", "sft-8b@1", "ppo-7b@1", "grpo-lora-1gpu@1"])
@pytest.mark.parametrize("field", AXES)
def test_every_value_that_no_rule_refuses_is_drawn_or_there_are_sixty(
    preset: str, field: str
) -> None:
    """Every whole number of a short axis is tried, each as a plan of its own here."""
    plan, axis = presets()[preset].plan, AXES[field]
    high = min(axis.high, 256)
    values = [one for one in axis.values([plan], axis.low, high) if axis.low <= one <= high]
    tried = [
        (value, try_plan({**plan.model_dump(), **rows.changed(plan, field, value)})[0])
        for value in values
    ]
    # A plan of its own would be filled up; a curve has those that need none of it.
    able = [value for value, one in tried if one and not rest(one, one.micro_batch_size)]
    table = swept(plan, field, values)
    places = drawn(table, field, curves_of(table))
    assert list(table[field]) == able
    if axis.finest == 1:
        assert values == list(range(1, high + 1))
    assert places == able or len(places) >= EVEN
    refused = [value for value in values if value not in able]
    told = limits.broken(plan, field, refused) if refused else ()
    assert sum(one.values for one in told) == len(refused)


def test_what_refuses_values_is_counted_once_each_by_the_rule_that_does() -> None:
    told = limits.broken(GRPO, "gpus", [3, 5, 12, 24, 20])
    assert [one.values for one in told] == [3, 2]
    assert "multiple of the GPUs that train" in told[0].why  # 512 sequences: 3, 5 and 24 are none
    assert "whole nodes" in told[1].why


def test_a_narrow_axis_has_points_between_its_steps() -> None:
    values = LENGTH.values([GRPO], 128, 512)
    assert sum(128 <= value <= 512 for value in values) >= 50
    assert all(value % 4 == 0 for value in values), "nobody types 139 tokens"


def test_a_row_opens_as_the_plan_whose_numbers_it_shows() -> None:
    for field, value in (("prompts_per_step", 128), ("micro_batch_size", 8), ("gpus", 32)):
        row = swept(GRPO, field, [value]).iloc[0]
        opened, _ = try_plan({**GRPO.model_dump(), **rows.changed(GRPO, field, value)})
        assert opened is not None
        assert estimate(opened).device_bytes == row["device_bytes"]
        assert estimate(opened).step_seconds == pytest.approx(row["step_seconds"])


def test_the_pool_apart_is_what_the_terms_say_phase_by_phase() -> None:
    for key in ("grpo-7b@1", "ppo-7b@1", "sft-8b@1"):
        plan = presets()[key].plan
        values = [512, 2048, 8192]
        sizes, awake = apart(estimate(plan), swept(plan, "response_tokens", values))
        for n, value in enumerate(values):
            changes = rows.changed(plan, "response_tokens", value)
            there = estimate(try_plan({**plan.model_dump(), **changes})[0])
            for phase in there.phases:
                engine = phase.by_category().get("engine", 0) if phase.name in awake else 0
                assert sizes[phase.name][n] == phase.device_bytes - engine
        assert bool(awake) == plan.rollout.startswith("vllm")


def judged(plan: Plan, field: str, values: list[int]) -> pd.DataFrame:
    table = swept(plan, field, values)
    return table.assign(x=table[field], limit=limits.limits(table, plan))


def test_each_limit_is_named_where_it_is_met() -> None:
    found = judged(GRPO, "response_tokens", [1024, 16_384, 131_072])
    assert list(found["limit"]) == ["", "", limits.CARD]
    (stretch,) = limits.stretches(found, "x", found["limit"])
    assert stretch.label == "GPU full in policy backward" and stretch.first == 131_072
    assert stretch.start == pytest.approx((16_384 * 131_072) ** 0.5) and stretch.end == 131_072
    little = Plan(**{**GRPO.model_dump(), "host_ram_per_node": 20 * 2**30})
    assert set(judged(little, "response_tokens", [1024])["limit"]) == {limits.HOST}
    small = Plan(**{**GRPO.model_dump(), "gpu_memory_utilization": 0.15})
    assert set(judged(small, "response_tokens", [1024])["limit"]) == {limits.SHARE}


def test_stretches_are_said_with_their_ends() -> None:
    counts = [1, 2, 4, 8, 16]
    table = pd.DataFrame({"gpus": counts, "worst_phase": "load"})
    for met, words in (
        (["c", "c", "", "", ""], "c up to 2"),
        (["", "", "", "c", "c"], "c from 8 on"),
        (["", "c", "c", "", ""], "c from 2 to 4"),
        (["", "c", "", "", "d"], "c at 2; d from 16 on"),
        (["c"] * 5, "c everywhere"),
    ):
        found = limits.stretches(table, "gpus", pd.Series(met))
        said = limits.words(found, 1, 16)
        assert said.replace("d at 16", "d from 16 on") == words
        for one, other in pairwise(found):
            assert one.end <= other.start


def test_the_knee_is_the_last_count_that_is_worth_its_gpus() -> None:
    table = pd.DataFrame(
        {
            "gpus": [1, 2, 4, 8, 16, 32],
            "step_seconds": [90.0, 100.0, 50.0, 30.0, 17.5, 14.0],
            "verdict": ["out of memory", *["fits"] * 5],
        }
    )
    found = knee.scaling(table)
    assert found is not None
    # 2 GPUs are the fewest that run: 200 GPU-seconds over 200, 240, 280 and 448.
    assert found.efficiency == pytest.approx((1, 1, 200 / 240, 200 / 280, 200 / 448))
    assert found.ideal == pytest.approx((100, 50, 25, 12.5, 6.25))
    assert found.gpus[found.knee] == 16
    assert "**Knee: 16 GPUs**" in knee.words(found) and "45% at 32" in knee.words(found)
    assert knee.scaling(table.head(2)) is None
    alone = knee.scaling(table.assign(verdict="fits", step_seconds=[9.0, 99, 99, 99, 99, 99]))
    said = knee.words(alone)
    assert "**Knee: 1 GPU**" in said and "from 1 GPU (9.00 s a step)" in said
    assert "no larger count" in knee.words(knee.scaling(table.head(5)))


def test_cards_are_those_with_a_price_and_the_plans_own() -> None:
    own = Plan(**{**GRPO.model_dump(), "gpu": "a40"})
    assert "a40" in cards(own) and "a40" not in cards(GRPO)
    assert set(cards(own)) <= set(known_cards()) and len(cards(own)) > 10


def test_bytes_that_were_typed_in_do_not_follow_to_another_card() -> None:
    assert rows.changed(GRPO, CARD, "a100-80gb") == {"gpu": "a100-80gb", "gpu_bytes": 0}
