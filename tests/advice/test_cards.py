"""Which GPUs: every row is the estimate of the plan it would make."""

from __future__ import annotations

import pytest

from planner.advice import cards
from planner.cost import cost
from planner.estimate import estimate
from planner.plan import Plan, try_plan


@pytest.fixture(scope="module")
def found() -> tuple[cards.Choice, ...]:
    return cards.choices(Plan())


def test_every_supported_card_stands_there_by_every_count(
    found: tuple[cards.Choice, ...],
) -> None:
    assert len({(one.gpu, one.gpus) for one in found}) == len(found)
    assert {one.gpus for one in found if one.gpu == "a100-40gb"} == {1, 2, 4, 8, 16, 32, 64}
    assert len({one.gpu for one in found}) > 30


@pytest.mark.parametrize("place", range(0, 200, 23))
def test_a_row_is_an_estimate(found: tuple[cards.Choice, ...], place: int) -> None:
    one = found[place]
    plan, _ = try_plan({**Plan().model_dump(), **one.changes})
    assert (plan is None) == (one.word == "impossible")
    if plan is None:
        return
    footprint = estimate(plan)
    assert (one.word, one.device_bytes) == (footprint.verdict.word, footprint.device_bytes)
    if one.word != "out of memory":
        assert one.step_seconds == pytest.approx(footprint.step_seconds)
        assert one.usd_run == pytest.approx(cost(footprint).usd_run)


def test_a_plan_that_does_not_run_has_no_money(found: tuple[cards.Choice, ...]) -> None:
    out = [one for one in found if one.word == "out of memory"]
    assert out and all(one.usd_run is None and one.step_seconds is None for one in out)


def test_the_cheapest_is_named_with_those_it_cannot_be_told_from(
    found: tuple[cards.Choice, ...],
) -> None:
    least = cards.best(found, "usd_run")
    assert least is not None
    first, ties = least
    able = [one for one in found if one.word == "fits" and one.usd_run is not None]
    assert first.usd_run == min(one.usd_run or 0.0 for one in able)
    for one in able:
        if one is not first:
            assert (one in ties) == ((one.low_usd or 0.0) <= (first.high_usd or 0.0))
    assert cards.best([one for one in found if one.word != "fits"], "usd_run") is None


def test_the_fewest_of_the_smallest_cards(found: tuple[cards.Choice, ...]) -> None:
    least = cards.smallest(found)
    assert least is not None
    fits = [one for one in found if one.word == "fits"]
    assert least.gpus == min(one.gpus for one in fits)
    alike = [one.budget_bytes or 0 for one in fits if one.gpus == least.gpus]
    assert least.budget_bytes == min(alike)


def test_a_price_that_was_typed_in_is_of_its_own_card() -> None:
    plan = Plan(price_per_gpu_hour=99.0)
    rows = {(one.gpu, one.gpus): one for one in cards.choices(plan)}
    own, other = rows["h100-80gb", 8], rows["h200-141gb", 8]
    assert own.usd_run == pytest.approx(cost(estimate(plan)).usd_run)
    assert "price_per_gpu_hour" not in own.changes and other.changes["price_per_gpu_hour"] == 0.0
    assert (other.usd_run or 0.0) < 0.2 * (own.usd_run or 0.0)


def test_a_separate_engine_keeps_its_part_and_one_gpu_is_not_sharded() -> None:
    separate = Plan(rollout="vllm-separate", rollout_gpus=4)
    assert [*cards._groups(separate)][4] == (
        {"rollout_gpus": 8},
        [16],
    )
    assert [*cards._groups(Plan(gpus=1, sharding="none"))][1][0] == {"sharding": "fsdp2"}
