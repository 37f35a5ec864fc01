"""Between the grid's values: the longest and the fewest that fit, to what people type."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from planner.plan import Plan
from planner.search.tiers import ABOVE, BELOW, FINER, NAMES, Finer, between, sides
from planner.search.wish import GOALS, Wish
from search import whole as brute
from search.whole import staged, whole

ODD: dict[str, Any] = {
    "model": "Qwen/Qwen2.5-7B", "gpu": "a100-40gb", "gpus": 8, "prompts_per_step": 840,
    "responses_per_prompt": 1, "method": "sft", "rollout": "none", "kl": "none",
}  # fmt: skip


@pytest.mark.parametrize(
    ("known", "chosen", "finer", "where", "expected"),
    [
        ((8, 16), {16}, Finer(1, 7), (BELOW,), (9, 10, 11, 12, 13, 14, 15)),
        ((8, 16), {16}, Finer(1, 7), (ABOVE,), ()),
        ((8, 16, 32), {16}, Finer(1, 3), (ABOVE, BELOW), (10, 12, 14, 20, 24, 28)),
        ((8, 16, 32), {16}, Finer(1, 3), (), ()),
        ((4096, 8192), {4096}, Finer(128, 3), (ABOVE,), (5120, 6144, 7168)),
        ((7168, 7400), {7168}, Finer(128, 3), (ABOVE,), (7296,)),
        ((7168, 7296), {7168}, Finer(128, 3), (ABOVE,), ()),
        ((8, 9), {8, 9}, Finer(1, 7), (BELOW, ABOVE), ()),
    ],
)
def test_gaps_beside_the_best_are_divided(
    known: tuple[int, ...],
    chosen: set[int],
    finer: Finer,
    where: tuple[str, ...],
    expected: tuple[int, ...],
) -> None:
    assert between(known, chosen, finer, where) == expected


def test_only_a_goal_of_a_size_looks_on_one_side() -> None:
    assert sides("longest", "response_tokens") == (ABOVE,)
    assert sides("fewest-gpus", "gpus") == (BELOW,)
    others = GOALS.keys() - {"fewest-gpus"}
    assert all(set(sides(goal, "gpus")) == {BELOW, ABOVE} for goal in others)
    assert all(sides(goal, "response_tokens") == () for goal in GOALS.keys() - {"longest"})


def _everything(
    plan: Plan, wish: Wish, values: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> Any:
    of = brute.space_of
    monkeypatch.setattr(brute, "space_of", lambda *of_what: replace(of(*of_what), scenario=values))
    return whole(plan, wish)


def test_the_longest_is_the_longest_of_every_layout(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = Plan(model="Qwen/Qwen3-4B", gpu="h100-80gb", gpus=4, logits="fused")
    wish = Wish(goal="longest", free=("activation_offload", "rollout_tensor_parallel"))
    found = staged(plan, wish)
    lengths = {name: found.winner(name) for name in NAMES}
    own = {name: one.changes["response_tokens"] for name, one in lengths.items() if one}
    unit = FINER["response_tokens"].unit
    assert len(own) == 3 and any(one & (one - 1) for one in own.values()), own
    for name, length in own.items():
        longer = (length, length + unit, length + 2 * unit, length + 8 * unit)
        with monkeypatch.context() as patch:
            best = _everything(plan, wish, {"response_tokens": longer}, patch).winner(name)
        assert best.changes["response_tokens"] == length, name


def test_the_fewest_are_the_fewest_of_all_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = Plan(**ODD)
    wish = Wish(goal="fewest-gpus", free=("micro_batch_size", "sharding"), max_gpus=8)
    found = staged(plan, wish)
    counts = tuple(range(1, 9))
    best = _everything(plan, wish, {"gpus": counts}, monkeypatch)
    told = {name: (found.winner(name), best.winner(name)) for name in NAMES}
    fewest = {
        name: tuple(one.changes.get("gpus", plan.gpus) for one in both)
        for name, both in told.items()
        if all(both)
    }
    assert fewest and all(a == b for a, b in fewest.values()), fewest
    assert any(a not in (1, 2, 4, 8) for a, _ in fewest.values()), fewest
