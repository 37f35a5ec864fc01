"""How the choices of a field read, and which of them cannot be planned yet.

Imports no Streamlit.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import SimpleNamespace
from typing import Any

from planner import catalog
from planner.plan import choices, length_words
from planner.plan.facts import KNOWN_TORCH
from planner.plan.fields import NOT_MODELLED
from planner.plan.frameworks import framework_named
from planner.plan.methods import methods, variations
from planner.plan.plan import ROWS
from planner.wording.display import say

options = choices
"""The values a field of choices can have; empty for other fields."""


def versions(field: str, framework: str) -> tuple[str, ...]:
    """Known versions of the framework, or of PyTorch."""
    return KNOWN_TORCH if field == "torch_version" else framework_named(framework).versions


@cache
def not_yet(field: str, value: str) -> bool:
    """Whether the value is one whose memory nobody has modelled yet."""
    plan: Any = SimpleNamespace(**{field: value})
    return any(rule.field == field and bool(rule.broken(plan)) for rule in NOT_MODELLED)


def name(field: str, value: str) -> str:
    """A choice as the list shows it."""
    text = called(field, value)
    return f"{text} (not modelled yet)" if not_yet(field, value) else text


def called(field: str, value: str) -> str:
    """A choice as a sentence calls it."""
    if field in ("method", "variation") and value != "none":
        owner = variations().get(value)
        return (owner.variations[value] if owner else methods()[value]).label
    if field == "framework":
        return framework_named(value).label
    return ROWS[field].choice_labels.get(value, value)


@cache
def card_names() -> Mapping[str, str]:
    """Every card of the catalog by its key."""
    return {card.key: card.name for card in catalog.gpus()}


def spoken(field: str, value: Any) -> str:
    """A field's value as a sentence says it: a choice as its list shows it."""
    if field == "length_distribution":
        return length_words.named(value)
    if field == "gpu":
        return card_names().get(value, value)
    return name(field, value) if options(field) else say(value)
