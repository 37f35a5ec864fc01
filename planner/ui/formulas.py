"""Every formula of the package, generated from the code that computes with it."""

from __future__ import annotations

import importlib
import pkgutil
from dataclasses import dataclass
from typing import Any

import streamlit as st

import planner.formulas
import planner.methods
from planner.footprint import CATEGORIES
from planner.formulas import duration, formula
from planner.ui.elements import folded, named_choice
from planner.ui.state import session

TITLES = {
    "parameters": "Weights",
    "gradients": "Gradients",
    "optimizer": "Optimizer state",
    "activations": "Activations",
    "logits": "Logits and loss",
    "kv-cache": "KV cache",
    "buffers": "Buffers",
    "allocator": "Allocator",
    "engine": "Rollout engine",
    "device": "Outside PyTorch",
    "time": "Time",
}
"""Groups in the order of the charts; time last."""

AT_ONCE = 40
"""So many results of a search are shown without folding."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A formula as the page shows it."""

    name: str
    group: str
    unit: str
    expression: str
    why: str
    source: str
    ignores: str

    def matches(self, words: list[str]) -> bool:
        """Whether every word occurs somewhere in the entry."""
        text = " ".join((self.name, self.expression, self.why, self.source, self.ignores)).lower()
        return all(word in text for word in words)


@st.cache_data(max_entries=1, show_spinner=False)
def entries() -> list[Entry]:
    """Every registered formula, memory first, by category."""
    for package in (planner.formulas, planner.methods):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            own = module.name.rpartition(".")[2]
            if own != "step" and not own.startswith("step_"):  # only those need torch
                importlib.import_module(module.name)
    rank = {category: place for place, category in enumerate(CATEGORIES)}
    memory = sorted(formula.REGISTRY.values(), key=lambda found: rank[found.category])
    found: list[tuple[Any, str, str]] = [(one, one.category, "bytes") for one in memory]
    found += [(one, "time", one.unit) for one in duration.REGISTRY.values()]
    return [
        Entry(one.name, group, unit, one.expression, one.why, one.source, one.ignores)
        for one, group, unit in found
    ]


def show() -> None:
    """Search field and the groups that match."""
    found = entries()
    left, right = st.columns([2, 1])
    words = left.text_input(
        "Search",
        key="formula search",
        placeholder="logits, FSDP, KV cache, a source file …",
        on_change=session.acted,
        help="Every word must occur in the name, expression, meaning, source or limits.",
    )
    titles = {"all": "All groups", **{entry.group: TITLES[entry.group] for entry in found}}
    chosen = named_choice(
        "Group",
        titles,
        "formula group",
        right,
        help="What the bytes or seconds belong to.",
    )
    shown = [
        entry
        for entry in found
        if entry.matches(words.lower().split()) and chosen in ("all", entry.group)
    ]
    st.caption(f"{len(shown)} of {len(found)} formulas.")
    if not shown:
        st.info("No formula has all these words.", icon=":material/search_off:")
    if chosen != "all" or (words.strip() and len(shown) <= AT_ONCE):
        for entry in shown:
            _entry(entry)
        return
    for group in dict.fromkeys(entry.group for entry in shown):
        own = [entry for entry in shown if entry.group == group]
        with folded(f"**{TITLES[group]}** · {len(own)}", f"formulas:{group}") as opened:
            for entry in own if opened else ():
                _entry(entry)


def _entry(entry: Entry) -> None:
    with st.container(border=True):
        st.markdown(f"**{entry.name}** · :gray[{entry.unit}]  \n{entry.why}")
        st.code(entry.expression, language=None, wrap_lines=True)
        left_out = f" Left out: {entry.ignores}." if entry.ignores else ""
        st.caption(f"Source: {entry.source.rstrip('.')}.{left_out}")
