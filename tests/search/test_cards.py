"""Which cards a wish is searched on, at which prices, and how few of them are looked at in full."""

from __future__ import annotations

import pytest

from planner import catalog
from planner.catalog.offers import offers
from planner.cost import cost
from planner.plan import Plan
from planner.plan.presets import presets
from planner.search import Wish, search
from planner.search.judging import rows_of
from planner.search.options import priced, space_of
from planner.search.pool import Pool
from planner.search.staged import Staged
from planner.search.wish import GOALS, shopping

SMALL = presets()["grpo-7b@1"].plan.changed(model="Qwen/Qwen2.5-1.5B")
FEW = ("micro_batch_size", "gradient_checkpointing", "offload")


def _cards(wish: Wish, plan: Plan = SMALL) -> list[str]:
    return [machine.get("gpu", plan.gpu) for machine in space_of(plan, wish).machines]


def test_every_card_with_a_listed_price_is_searched_and_a_vendor_filters() -> None:
    every = _cards(Wish(goal="cheapest", free=shopping("cheapest")))
    assert sorted(every) == sorted({*priced(), SMALL.gpu}) and "mi300x" in every
    nvidia = _cards(Wish(goal="cheapest", free=shopping("cheapest"), vendor="nvidia"))
    assert set(every) - set(nvidia) == {"mi300x"}
    assert {goal for goal in GOALS if "gpu" not in shopping(goal)} == {
        "fit", "longest", "largest-batch"
    }  # fmt: skip


def test_a_providers_cheapest_offer_is_what_a_card_costs_and_cards_without_one_are_named() -> None:
    wish = Wish(goal="cheapest", free=(*FEW, "gpu"), provider="runpod", offer="on_demand")
    space = space_of(SMALL, wish)
    for machine in space.machines:
        (first, *_) = offers(machine.get("gpu", SMALL.gpu), "RunPod", "on demand")
        assert machine["price_per_gpu_hour"] == first.usd_per_hour
    assert "h100-80gb" not in [machine.get("gpu", SMALL.gpu) for machine in space.machines]
    (told,) = [text for text in space.left_out if "has no RunPod on demand price" in text]
    assert catalog.gpu("h100-80gb").name in told
    for one in search(SMALL, wish).recommendations:
        usd, hours = cost(one.footprint).usd_run, cost(one.footprint).gpu_hours_run
        assert usd and hours and usd / hours == pytest.approx(one.plan.price_per_gpu_hour)


def test_a_filter_that_leaves_no_card_is_refused() -> None:
    with pytest.raises(ValueError, match="^cards: none of them .* AWS spot price"):
        search(SMALL, Wish(goal="cheapest", provider="aws", offer="spot"))


def test_to_fit_the_plans_own_card_comes_first_whatever_is_faster() -> None:
    found = search(SMALL, Wish(free=(*FEW, "gpu")))
    assert {one.plan.gpu for one in found.recommendations} == {SMALL.gpu}
    assert "Other GPUs: the plan fits on yours." in found.left_out
    tiny = Plan(model="Qwen/Qwen2.5-7B", gpu="rtx-4090", gpus=1)
    elsewhere = search(tiny, Wish(free=("optimizer", "gpu"), vendor="nvidia"))
    assert elsewhere.recommendations and elsewhere.recommendations[0].plan.gpu != "rtx-4090"


def test_a_first_try_finds_the_same_winner_with_fewer_combinations(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wish = Wish(goal="cheapest", free=(*FEW, "gpu"), vendor="nvidia")

    def searched() -> tuple[dict[str, str], int]:
        space = space_of(SMALL, wish)
        found = Staged(space, wish, Pool(space.plan, wish, SMALL), rows_of)
        found.run()
        winners = {name: found.winner(name) for name in ("conservative", "balanced", "aggressive")}
        made = {name: one.changes.get("gpu", "own") for name, one in winners.items() if one}
        return made, found.pool.combinations

    few, combinations = searched()
    monkeypatch.setattr("planner.search.staged.FEW", 1000)
    every, more = searched()
    assert few == every and len(few) == 3
    assert combinations < more
