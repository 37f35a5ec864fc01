"""Which GPUs: every row is the estimate of the plan it would make."""

from __future__ import annotations

import pytest

from planner.advice import cards
from planner.advice.advice import Advice
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


@pytest.fixture(scope="module")
def repaired(found: tuple[cards.Choice, ...]) -> tuple[cards.Choice, ...]:
    some = [one for one in found if one.gpu in ("l4", "rtx-3090", "a100-80gb", "v100-16gb")]
    return cards.mended(Plan(), some, estimate)


def test_a_mended_row_is_an_estimate_that_fits_and_keeps_what_was_asked_for(
    found: tuple[cards.Choice, ...], repaired: tuple[cards.Choice, ...]
) -> None:
    was = {(one.gpu, one.gpus): one for one in found}
    assert len(repaired) > 12
    for one in repaired:
        assert was[one.gpu, one.gpus].word == "out of memory" and one.mended
        plan, _ = try_plan({**Plan().model_dump(), **one.changes})
        assert plan is not None and (plan.gpu, plan.gpus) == (one.gpu, one.gpus)
        footprint = estimate(plan)
        assert footprint.verdict.word == one.word == "fits"
        assert (one.device_bytes, one.worst) == (footprint.device_bytes, footprint.worst.name)
        assert (one.step_seconds, one.usd_run) == (
            footprint.step_seconds,
            cost(footprint).usd_run,
        )
        kept = ("finetuning", "response_tokens", "prompts_per_step", "model")
        assert all(getattr(plan, name) == getattr(Plan(), name) for name in kept)


def test_no_row_that_could_be_mended_is_left_out(
    found: tuple[cards.Choice, ...], repaired: tuple[cards.Choice, ...]
) -> None:
    """Not even one below the first count of a card that nothing mends."""
    done = {(one.gpu, one.gpus) for one in repaired}
    left = [
        one
        for one in found
        if one.gpu in ("l4", "v100-16gb") and one.word == "out of memory"
        and (one.gpu, one.gpus) not in done
    ]  # fmt: skip
    for one in left:
        plan, _ = try_plan({**Plan().model_dump(), **one.changes})
        assert plan is not None
        assert not any(way.fits and way.keeps for way in Advice(estimate(plan)).ways), one


def test_mending_says_how_far_it_is_and_can_be_given_up(found: tuple[cards.Choice, ...]) -> None:
    class Enough(Exception):
        pass

    told: list[float] = []

    def progress(share: float) -> None:
        told.append(share)
        if len(told) == 3:
            raise Enough

    with pytest.raises(Enough):
        cards.mended(Plan(), found, estimate, progress=progress)
    assert told == sorted(told) and 0.0 <= told[0] < told[2] < 1.0
