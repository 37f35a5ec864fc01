"""What became of each setting: understood, from defaults, open, without effect, not understood."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pandas as pd
import streamlit as st

from planner.importer.imported import Imported
from planner.importer.reading import Entry
from planner.ui.elements import folded, text_table
from planner.wording.choices import spoken
from planner.wording.fields import label, labelled

LONGEST = 80
SHOWN = 12
"""Rows of a table before it scrolls."""
LISTS: Mapping[str, tuple[str, str, str]] = {
    "open": ("Still open", "help", "These depend on something outside the text."),
    "beyond": (
        "Moves memory or time, and is not planned",
        "warning",
        "The estimate is of the plan without them.",
    ),
    "unknown": (
        "Not understood",
        "block",
        "No setting of this framework has such a name: the estimate is of the plan without them.",
    ),
    "understood": ("Understood", "check", "Each of these is in the plan."),
    "from_defaults": (
        "From the framework's defaults",
        "settings",
        "Nobody set these: the framework's own values at this version.",
    ),
    "no_effect": (
        "No effect on memory or time",
        "do_not_disturb_on",
        "Paths, logging, rewards and the like.",
    ),
}
"""Lists of a reading: title, icon, and what they are."""


def show(found: Imported) -> None:
    """The lists that have anything in them; what needs a person first."""
    for name, (title, icon, says) in LISTS.items():
        entries = getattr(found.reading, name)
        if not entries:
            continue
        with folded(
            f"{title} · {len(entries)}", f"import-{name}", icon=f":material/{icon}:"
        ) as opened:
            if opened:
                st.caption(says)
                rows = pd.DataFrame(_rows(name, entries, found.reading.plan))
                text_table(rows, f"import-table-{name}", title, right=9, most=SHOWN)


def _rows(
    name: str, entries: Iterable[Entry], plan: Mapping[str, Any]
) -> Iterable[dict[str, str]]:
    planned = name in ("understood", "from_defaults", "open")
    for entry in entries:
        cells = {"Setting": _short(entry.name), "Value": _short(entry.value)}
        if entry.place is None and (entry.name,) == entry.fields:  # no setting says it
            cells["Setting"] = label(entry.name)
        if name == "open":
            cells["Rests on"] = ", ".join(_rests_on(entry))
        if planned:
            cells["Here"] = "; ".join(
                f"{label(each)}: {_short(spoken(each, plan[each]))}"
                for each in entry.fields
                if each in plan
            )
        if name == "beyond":
            cells["What it does"] = labelled(entry.why)
        cells["Where"] = f"{entry.place.file}, line {entry.place.line}" if entry.place else ""
        yield cells


def _rests_on(entry: Entry) -> Iterable[str]:
    for one in entry.opens:
        if one.name == entry.name:
            continue
        taken = "" if one.default is None else f" (taken as {one.default or 'nothing'})"
        yield _short(f"{one.name}{taken}")


def _short(value: Any) -> str:
    text = "" if value is None else str(value)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
