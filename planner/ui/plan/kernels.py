"""Kernels behind a cause of time on the Plan page, and the measured rows behind the chosen one."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from planner.term import TimeTerm
from planner.timing import opened
from planner.ui.elements import beside, share_column, text_table
from planner.ui.elements import opened as chosen_of
from planner.units import read_seconds
from planner.wording.kernels import (
    KINDS,
    factors,
    how_much,
    measured_shape,
    rests_on,
    runs,
    shape,
    shown,
)


def kernels(term: TimeTerm, key: str) -> None:
    """The kernels that carry most of a cause, longest first; nothing where no table has any.

    ``key`` tells causes apart, so that each opens at its longest kernel.
    """
    found = opened.opened(term)
    if found is None:
        return
    kept = shown(found)
    rows = pd.DataFrame(
        {
            "Total": read_seconds(one.seconds),
            "Kernel": KINDS[one.asked.kind],
            "Shape": shape(one.asked.kind, one.asked.sizes),
            "Runs": runs(one.asked.runs),
            "Of roofline": 100 * one.found.share,
        }
        for one in kept
    )
    listed, panel = beside(5, 3)
    with listed:
        st.markdown(f"**Kernels** · {how_much(found)}")
        columns = {"Of roofline": share_column()}
        chosen = kept[chosen_of(rows, f"kernels:{key}", f"Kernels of {term.name}", columns)]
    with panel:
        _measured(chosen, key)


def _measured(one: opened.Kernel, key: str) -> None:
    kind, found = one.asked.kind, one.found
    each = f"{read_seconds(found.seconds)} each, {found.share:.0%} of roofline"
    st.markdown(f"**{each}** · nearest measurements")
    rows = pd.DataFrame(
        {
            "Measured shape": measured_shape(kind, row),
            "Took": read_seconds(row.milliseconds / 1e3),
            "Of roofline": f"{row.share:.0%}",
        }
        for row in found.rows
    )
    text_table(rows, f"measured:{key}", "Measurements nearest to the kernel")
    words = rests_on(kind, found)
    least = f"{found.limit} bound: {read_seconds(found.roofline_seconds)}"
    said = factors(one)
    beyond = f" Outside its table: {said}." if said else ""
    st.caption(f"{words[0].upper()}{words[1:]}; {least}.{beyond} Source: {found.source}.")
