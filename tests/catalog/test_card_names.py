"""What people call a card, and that nobody guesses between several."""

from __future__ import annotations

import pytest

from planner import catalog
from planner.catalog.card_names import card_key
from planner.plan import Plan, try_plan
from planner.plan.link import from_query_string


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("RTX 4090", "rtx-4090"),
        ("rtx4090", "rtx-4090"),
        ("NVIDIA GeForce RTX 3090 24GB", "rtx-3090"),
        ("H100 80GB SXM", "h100-80gb"),
        ("NVIDIA H100 80GB HBM3", "h100-80gb"),
        ("NVIDIA H100 PCIe", "h100-80gb-pcie"),
        ("H100-80GB", "h100-80gb"),
        ("h200", "h200-141gb"),
        ("NVIDIA A100-SXM4-80GB", "a100-80gb"),
        ("A100 40GB PCIe", "a100-40gb-pcie"),
        ("L40S 48GB", "l40s"),
        ("Tesla T4", "t4"),
        ("A10 24GB", "a10"),
        ("MI300X", "mi300x"),
    ],
)
def test_a_card_is_known_by_what_it_is_called(text: str, key: str) -> None:
    assert card_key(text) == key
    assert Plan(gpu=text).gpu == key
    reading = from_query_string(f"v=2&preset=grpo-7b@1&gpu={text}")
    assert reading.problems == () and reading.plan is not None and reading.plan.gpu == key


@pytest.mark.parametrize("card", catalog.gpus(), ids=lambda card: card.key)
def test_a_key_and_a_name_of_the_catalog_are_that_card(card: catalog.Gpu) -> None:
    """No key is ever taken for another card, and a card's whole name is its own or nobody's."""
    assert card_key(card.key) == card_key(card.key.upper()) == card.key
    if card.budget_bytes is None:  # known by its whole key: nobody can plan it
        return
    try:
        assert card_key(card.name) in (card.key, "-".join(card.name.lower().split()))
    except ValueError as error:
        assert card.key in str(error)


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("A100", ("a100-40gb", "a100-40gb-pcie", "a100-80gb", "a100-80gb-pcie")),
        ("H100", ("h100-80gb", "h100-80gb-pcie", "h100-nvl-94gb")),
        ("v100", ("v100-16gb", "v100-16gb-pcie", "v100-32gb")),
    ],
)
def test_of_several_cards_the_person_says_which(text: str, keys: tuple[str, ...]) -> None:
    plan, problems = try_plan({"gpu": text})
    assert plan is None and [problem.field for problem in problems] == ["gpu"]
    assert f"{text} may be {', '.join(keys[:-1])} or {keys[-1]}." in problems[0].message


@pytest.mark.parametrize("text", ["RTX 9090", "MI250", "quantum", "A100 7GB"])
def test_a_name_of_no_card_is_said_to_be_none(text: str) -> None:
    _, problems = try_plan({"gpu": text})
    assert [problem.field for problem in problems] == ["gpu"]
    assert "is not in the catalog" in problems[0].message


def test_a_custom_card_stays_one() -> None:
    assert Plan(gpu="custom", gpu_bytes=2**34).gpu == "custom"
