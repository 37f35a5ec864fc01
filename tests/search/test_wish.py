"""A wish: what it frees, what it keeps, and its text."""

from __future__ import annotations

from typing import Any

import pytest

from planner.search.wish import GOALS, USUAL, Wish, from_text, to_text


@pytest.mark.parametrize(
    "wish",
    [
        Wish(),
        Wish(goal="cheapest", max_gpus=64, cards=("h100-80gb", "l40s")),
        Wish(goal="deadline", deadline_hours=12.5, budget_usd=999.99, lora_allowed=True),
        Wish(free=("micro_batch_size",), keep=("gpus", "response_tokens")),
        Wish(framework="verl", keep=("gpus",)),
    ],
)
def test_a_wish_is_its_text(wish: Wish) -> None:
    assert from_text(to_text(wish)) == wish


@pytest.mark.parametrize(
    "text",
    [
        "", "2~fit~0~0~0~0", "1~fit~0~0~0", "1~fit~x~0~0~0", "1~fit~0~-1~0~0", "1~best~0~0~0~0",
        "1~fit~0~0~0~2", "1~fit~0~0~0~0_free~method", "1~fit~0~0~0~0_cards~A100",
        "1~fit~0~0~0~0_cards~a_cards~b", "1~fit~1.5~0~0~0", "1~fit~0~0~0~0_evil~x",
        "1~fit~0~0~0~0_keep~__class__", "1~fit~" + "9" * 3000 + "~0~0~0", "1~fit~70000~0~0~0",
        "1~deadline~0~0~0~0", "1~fit~٣~0~0~0", "1~fit~0~0~0~0_framework~evil",
        "1~fit~0~0~0~0_framework~trl~verl", "1~fit~0~0~0~0_framework",
        "1~fit~0~0~0~0_framework~trl_framework~trl",
    ],
)  # fmt: skip
def test_a_strange_text_is_refused_with_a_sentence(text: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        from_text(text)


def test_what_a_person_set_stays() -> None:
    assert Wish().freed == frozenset(USUAL)
    kept = Wish().keeping(("micro_batch_size", "gpus"))
    assert kept.freed == frozenset(USUAL) - {"micro_batch_size"}


def test_a_limit_frees_its_field_whatever_is_kept() -> None:
    wish = Wish(keep=("gpus", "gpu", "finetuning"), max_gpus=8, cards=("l4",), lora_allowed=True)
    assert {"gpus", "gpu", "finetuning"} <= wish.freed


@pytest.mark.parametrize("goal", [goal for goal in GOALS.values() if goal.own])
def test_a_goal_frees_its_own_field(goal: Any) -> None:
    assert set(goal.own) <= Wish(goal=goal.name, free=(), keep=goal.own).freed


@pytest.mark.parametrize(
    "fields",
    [{"goal": "best"}, {"free": ("method",)}, {"free": ("nonsense",)}, {"max_gpus": -1},
     {"framework": "jax"}, {"budget_usd": float("nan")}, {"goal": "deadline"}],
)  # fmt: skip
def test_a_wish_that_cannot_be_names_its_field(fields: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=rf"^({'|'.join(fields)}|deadline_hours): "):
        Wish(**fields)
