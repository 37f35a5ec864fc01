"""Sections and folded groups of the sidebar; which group a field stands in its row says.

Imports no Streamlit.
"""

from __future__ import annotations

from dataclasses import dataclass

from planner.plan.methods import methods
from planner.plan.plan import ROWS


@dataclass(frozen=True, slots=True)
class Group:
    """A folded part of the sidebar."""

    key: str
    title: str
    icon: str
    fields: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Section:
    """What people think of at once: inputs that are always in sight, and folded groups below."""

    title: str
    icon: str
    inputs: tuple[tuple[str, ...], ...] = ()
    """Rows of inputs."""
    groups: tuple[Group, ...] = ()


def _group(key: str, title: str, icon: str) -> Group:
    places = sorted((row.page[1], name) for name, row in ROWS.items() if row.page[0] == key)
    return Group(key, title, icon, tuple(name for _, name in places))


SECTIONS: tuple[Section, ...] = (
    Section(
        "Method and framework",
        ":material/deployed_code:",
        (("method", "variation"), ("framework", "finetuning")),
        (
            _group("precision", "Precision and optimizer", ":material/decimal_increase:"),
            _group("roles", "Reference, critic, reward", ":material/groups:"),
            *(
                Group(method.name, method.title, ":material/tune:", method.own_fields)
                for method in methods().values()
                if method.fields
            ),
        ),
    ),
    Section(
        "Hardware",
        ":material/memory:",
        (("gpu", "gpus"),),
        (_group("hardware", "Sharding, nodes, versions", ":material/lan:"),),
    ),
    Section(
        "Batch and lengths",
        ":material/straighten:",
        (
            ("prompts_per_step", "responses_per_prompt"),
            ("prompt_tokens", "response_tokens"),
        ),
        (_group("batch", "Mini- and micro-batches", ":material/stacks:"),),
    ),
    Section(
        "Memory, engine, money",
        ":material/tune:",
        (),
        (
            _group("savers", "Memory savers", ":material/compress:"),
            _group("rollout", "Rollout engine", ":material/bolt:"),
            _group("money", "Time and money", ":material/payments:"),
        ),
    ),
)
"""The sidebar, top to bottom."""

GROUPS = tuple(group for section in SECTIONS for group in section.groups)
"""The folded groups, top to bottom."""
