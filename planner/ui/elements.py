"""What pages are built of: rows of controls, tables, cards, downloads, lists and messages.

Widgets here say that the visitor acted (see :mod:`planner.ui.state.session`); those of a plan's
fields are in :mod:`planner.ui.inputs`.
"""

from __future__ import annotations

import mimetypes
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pandas as pd
import streamlit as st

from planner.charts.marks import INK
from planner.wording.display import plain
from planner.wording.fields import labelled

ROW = 35
"""Pixels of a table's row."""
TONES = {"fits": "good", "tight": "doubt", "incomplete": "doubt", "out of memory": "bad"}
"""How a verdict's word is taken."""
COLORS = {"fits": "green", "tight": "orange", "incomplete": "orange", "out of memory": "red"}
ICONS = {
    "fits": "check_circle",
    "tight": "warning",
    "incomplete": "warning",
    "out of memory": "cancel",
}
_MESSAGES: dict[str, tuple[Any, str]] = {
    "good": (st.success, ":material/check_circle:"),
    "doubt": (st.warning, ":material/warning:"),
    "bad": (st.error, ":material/cancel:"),
    "neutral": (st.info, ":material/info:"),
}


def said(text: object, about: str = "") -> str:
    """A sentence as a page says it: fields by their labels, and nothing of it is Markdown."""
    return plain(labelled(str(text), about))


def tell(tone: str, text: str) -> None:
    """An answer in bold: by colour, by icon and by its words."""
    show, icon = _MESSAGES[tone]
    show(f"**{said(text)}**", icon=icon)


def doubt(text: object) -> None:
    """What stands in the way of something, from outside."""
    st.warning(said(text), icon=":material/info:")


def bullets(texts: Iterable[str], *, escape: bool = True) -> None:
    """A list of sentences; escaped unless none of them holds anything from outside."""
    st.markdown("\n".join(f"- {said(text) if escape else labelled(text)}" for text in texts))


def row(key: str | None = None) -> Any:
    """A row of controls."""
    return st.container(horizontal=True, vertical_alignment="center", key=key)


def button(
    label: str, key: str, icon: str, does: Callable[..., object], *given: Any, place: Any = st,
    **more: Any,
) -> bool:  # fmt: skip
    """A button that does something with what is given; whether it was pressed."""
    icon = f":material/{icon}:" if icon else ""
    return bool(place.button(label, key=key, icon=icon or None, on_click=does, args=given, **more))


def cards(count: int = 4, width: int = 170) -> Any:
    """A wall of so many cards a row."""
    return st.grid(count, min_column_width=width)


def beside(left: int = 3, right: int = 2) -> Any:
    """Two columns of a page, as wide as said; one above the other where there is no room."""
    return st.columns([left, right], gap="medium")


def card(
    place: Any, label: str, value: str, below: str, help: str = "", color: str = "off"
) -> None:
    """A figure with a line below it."""
    place.metric(
        label, value, below, delta_arrow="off", delta_color=color, border=True, help=help or None
    )


def wall(*figures: Sequence[str], a_row: int = 4, width: int = 170) -> None:
    """Draw a row of figure cards; each tuple holds the arguments of :func:`card`."""
    places = cards(a_row, width)
    for figure in figures:
        card(places, *figure)


def text_table(
    rows: pd.DataFrame, key: str, alt: str, *, right: int = 1, most: int = 1000, **more: Any
) -> Any:
    """A table of texts; columns from ``right`` on are aligned so, rows beyond ``most`` scroll."""
    return st.dataframe(
        rows,
        hide_index=True,
        height=(min(len(rows), most) + 1) * ROW + 3,
        key=key,
        alt=alt,
        column_config={
            name: st.column_config.TextColumn(alignment="right") for name in rows.columns[right:]
        },
        **more,
    )


def opened(
    rows: pd.DataFrame, key: str, alt: str, columns: dict[str, Any] | None = None, most: int = 10
) -> int:
    """A table of which one row is chosen, the first until another is; gives its place."""
    found = st.dataframe(
        rows,
        hide_index=True,
        height=(min(len(rows), most) + 1) * ROW + 3,
        key=key,
        alt=alt,
        on_select="rerun",
        selection_mode="single-row-required",
        column_config=columns,
    )
    chosen = found.selection.rows
    return chosen[0] if chosen and chosen[0] < len(rows) else 0


def share_column() -> Any:
    """The configuration of a column of shares in percent."""
    return st.column_config.NumberColumn(format="%.0f%%", width="small")


def ink() -> str:
    """Colour of words over charts, for the visitor's appearance."""
    return INK["dark" if st.context.theme.type == "dark" else "light"]


def card_share_column() -> Any:
    """The configuration of a column of shares of a card, as bars up to half beyond it.

    Whole percents, as everywhere: the shares given to it are rounded so.
    """
    return st.column_config.ProgressColumn(
        min_value=0, max_value=1.5, format="percent", width=115
    )


def alike(rows: pd.DataFrame, names: Iterable[str]) -> dict[str, Any]:
    """The configuration of columns of rates and amounts, a column's figures with equal decimals.

    So many as give its least figure three digits; nought and what is not known are left out.
    """
    return {name: st.column_config.NumberColumn(format=decimals(rows[name])) for name in names}


def decimals(values: Iterable[Any]) -> str:
    """A format for these numbers that gives the least of them three digits."""
    known = [abs(float(one)) for one in values if one is not None and not pd.isna(one)]
    least = min((one for one in known if one), default=0.0)
    digits = 0 if least >= 100 or not least else 1 if least >= 10 else 2 if least >= 0.1 else 4
    return f"%,.{digits}f"


def numbers(names: Iterable[str], format: str) -> dict[str, Any]:
    """The configuration of columns of numbers."""
    return {name: st.column_config.NumberColumn(format=format) for name in names}


def download(label: str, data: Any, name: str, key: str, **more: Any) -> None:
    """A file to save; bytes may be made when it is asked for, and the page does not run again."""
    given = {
        "icon": ":material/download:",
        "mime": mimetypes.guess_type(name)[0] or "application/octet-stream",
        **more,
    }
    st.download_button(label, data=data, file_name=name, on_click="ignore", key=key, **given)


def segments(label: str, options: Sequence[str], key: str, place: Any = st, **more: Any) -> str:
    """One of a few choices.

    What the session has for it is its default, too: a browser shows no choice at all where one
    comes back after a page without it, as that of a plan that is not possible, and has none.
    """
    more = {"default": st.session_state.get(key), **more}
    return str(place.segmented_control(label, options, key=key, required=True, **more))


def choice(label: str, options: Sequence[Any], key: str, place: Any = st, **more: Any) -> Any:
    """One of a list."""
    return place.selectbox(label, options, key=key, **more)


def named_choice(label: str, names: dict[str, str], key: str, place: Any = st, **more: Any) -> str:
    """One of a list of keys that are shown by name."""
    return str(choice(label, list(names), key, place, format_func=names.__getitem__, **more))


@contextmanager
def folded(title: str, key: str, icon: str | None = None) -> Iterator[bool]:
    """An expander; tells whether it is open, so that a closed one's content is not drawn.

    Streamlit takes an expander with another title for another one and folds it. Titles here
    count changes and show values, so whether one is open is remembered under its key.
    """
    with st.expander(title, icon=icon, **_remembered(key)) as expander:
        yield bool(expander.open)


@contextmanager
def popped(title: str, key: str, icon: str | None = None) -> Iterator[bool]:
    """The same over the page, below a button."""
    with st.popover(title, icon=icon, type="tertiary", **_remembered(key)) as popover:
        yield bool(popover.open)


def _remembered(key: str) -> dict[str, Any]:
    remembered = f"open:{key}"
    st.session_state[key] = bool(st.session_state.get(remembered))
    return {"key": key, "on_change": _turn, "args": (key, remembered)}


def _turn(key: str, remembered: str) -> None:
    st.session_state[remembered] = st.session_state[key]
