"""How the choices of a field read, and which of them cannot be planned yet.

Imports no Streamlit.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import SimpleNamespace
from typing import Any

from planner.frameworks import framework_named
from planner.methods import methods
from planner.plan import choices
from planner.plan.facts import KNOWN_TORCH
from planner.plan.rules import UNMODELLED

NAMES: Mapping[tuple[str, str], str] = {
    ("finetuning", "full"): "Full",
    ("finetuning", "lora"): "LoRA",
    ("finetuning", "qlora"): "QLoRA",
    ("kv_cache_dtype", "auto"): "compute dtype",
    ("base_dtype", "compute"): "compute dtype",
}

options = choices
"""The values a field of choices can have; empty for other fields."""


def versions(field: str, framework: str) -> tuple[str, ...]:
    """Known versions of the framework, or of PyTorch."""
    return KNOWN_TORCH if field == "torch_version" else framework_named(framework).versions


@cache
def not_yet(field: str, value: str) -> bool:
    """Whether the value is one whose memory nobody has modelled yet."""
    plan: Any = SimpleNamespace(**{field: value})
    return any(rule.field == field and bool(rule.broken(plan)) for rule in UNMODELLED)


def name(field: str, value: str) -> str:
    """A choice as the list shows it."""
    text = NAMES.get((field, value), value)
    if field == "method":
        text = methods()[value].label
    if field == "framework":
        text = framework_named(value).label
    return f"{text} (not modelled yet)" if not_yet(field, value) else text
