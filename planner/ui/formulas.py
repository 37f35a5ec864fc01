"""Every formula of the package, generated from the code that computes with it."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from types import ModuleType

import pandas as pd
import streamlit as st

import planner.formulas
import planner.kernels
import planner.methods
import planner.phases
import planner.timing
from planner.catalog import gpus
from planner.formulas import duration, formula
from planner.kernels.tables import SOURCE, tables_of
from planner.term import CATEGORIES
from planner.ui.elements import folded, named_choice

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
    "throughput": "Throughput and cost",
}
"""Groups in the order of the charts; time and what comes of it last."""

THROUGHPUT = ("tokens per second", "share of the peak", "GPU-hours", "US dollars")
"""Units of what comes of seconds."""

NO_PEAKS = "none: its peaks are not known"

AT_ONCE = 40
"""So many results of a search are shown without folding."""


ROOMS = (planner.formulas, planner.methods, planner.phases, planner.kernels, planner.timing)
"""Where formulas stand."""

Entry = formula.Formula | duration.Rate


def _import_all(package: ModuleType) -> None:
    """Import the modules below a package, except the steps: only those need torch."""
    for found in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
        own = found.name.rpartition(".")[2]
        if own != "step" and not own.startswith("step_"):
            module = importlib.import_module(found.name)
            if found.ispkg:
                _import_all(module)


@cache
def entries() -> tuple[Entry, ...]:
    """Every registered formula, memory first, by category."""
    for package in ROOMS:
        _import_all(package)
    memory = sorted(formula.REGISTRY.values(), key=lambda one: CATEGORIES.index(one.category))
    times = sorted(duration.REGISTRY.values(), key=lambda one: one.unit in THROUGHPUT)
    return (*memory, *times)


def group_of(entry: Entry) -> str:
    """The category of its bytes, time, or what comes of it."""
    if isinstance(entry, formula.Formula):
        return entry.category
    return "throughput" if entry.unit in THROUGHPUT else "time"


def matches(entry: Entry, words: list[str]) -> bool:
    """Whether every word occurs somewhere in the entry."""
    texts = (entry.name, entry.expression, entry.why, entry.source, entry.ignores)
    text = " ".join(texts).lower()
    return all(word in text for word in words)


def show() -> None:
    """Search field and the groups that match."""
    found = entries()
    left, right = st.columns([2, 1])
    words = left.text_input(
        "Search",
        key="formula search",
        placeholder="logits, FSDP, KV cache, a source file …",
        help="Every word must occur in the name, expression, meaning, source or limits.",
    )
    titles = {"all": "All groups", **{group: TITLES[group] for group in map(group_of, found)}}
    chosen = named_choice(
        "Group",
        titles,
        "formula group",
        right,
        help="The part of the plan that the bytes or seconds belong to.",
    )
    shown = [
        entry
        for entry in found
        if matches(entry, words.lower().split()) and chosen in ("all", group_of(entry))
    ]
    st.caption(f"{len(shown)} of {len(found)} formulas.")
    if chosen in ("all", "time") and not words.strip():
        tables()
    if not shown:
        st.info("No formula has all these words.", icon=":material/search_off:")
    if chosen != "all" or (words.strip() and len(shown) <= AT_ONCE):
        for entry in shown:
            _entry(entry)
        return
    for group in dict.fromkeys(map(group_of, shown)):
        own = [entry for entry in shown if group_of(entry) == group]
        with folded(f"**{TITLES[group]}** · {len(own)}", f"formulas:{group}") as opened:
            for entry in own if opened else ():
                _entry(entry)


def tables() -> None:
    """Whose measured kernels each card's times rest on."""
    with folded(
        "**Kernel tables by card** · whose measurements a card's times rest on",
        "kernel-tables",
        ":material/speed:",
    ) as opened:
        if opened:
            rows = table_rows()
            st.dataframe(rows, hide_index=True, key="kernel-tables-rows", alt="Tables by card")
            st.caption(
                "A GPU without measured tables takes its shares of peak from the measured GPU with "
                "the nearest ratio of compute to bandwidth, and multiplies them by its own peak "
                "rates. Each kind of kernel is looked up separately; this table is for GEMMs in "
                f"bf16. Tables: {SOURCE}. A benchmark of your own GPU replaces these tables."
            )


@cache
def table_rows() -> pd.DataFrame:
    """One row per card: its own table, whose it borrows, or that its peaks are not known."""
    rows, names = [], {gpu.key: gpu.name for gpu in gpus()}
    for gpu in gpus():
        found = tables_of(gpu)
        rows.append(
            {
                "Card": gpu.name,
                "Tables": "its own" if found and found.own else "borrowed" if found else NO_PEAKS,
                "Kernels measured on": "" if found is None else names[found.card],
                "Under": "" if found is None else found.version,
            }
        )
    return pd.DataFrame(rows)


def _entry(entry: Entry) -> None:
    with st.container(border=True):
        st.markdown(f"**{entry.name}** · :gray[{getattr(entry, 'unit', 'bytes')}]  \n{entry.why}")
        st.code(entry.expression, language=None, wrap_lines=True)
        left_out = f" Left out: {entry.ignores}." if entry.ignores else ""
        st.caption(f"Source: {entry.source.rstrip('.')}.{left_out}")
