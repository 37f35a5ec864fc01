"""Beside the three plans: what ties with them, what comes closest, what was not looked at."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pandas as pd
import streamlit as st

from planner.plan import Plan
from planner.search import Found, Miss
from planner.ui.elements import bullets, said, tell, text_table
from planner.ui.recommend.take import apply_button
from planner.ui.state import session
from planner.units import read_count
from planner.wording.display import plain
from planner.wording.fields import changes_in_words


def ties(found: Found) -> None:
    """Plans within the error of one of the three, and what tells them apart."""
    if not found.ties:
        return
    st.subheader("Ties", anchor="ties")
    st.caption("Their figures and the plan's lie within the error of each other.")
    told: dict[tuple[str, str, str], list[str]] = {}
    for tie in found.ties:
        changes = changes_in_words(tie.changes) or "nothing"
        told.setdefault((tie.figure, tie.apart, changes), []).append(tie.of)
    table = pd.DataFrame(
        [(", ".join(names), *one) for one, names in told.items()],
        columns=["Tied with", "Takes", "What tells it apart", "What it changes of your plan"],
    )
    text_table(table, "ties", "Plans that tie with one of the three", right=99, most=8)


def misses(plan: Plan, found: Found) -> None:
    """Nothing fits: what would do, then what comes closest and what each lacks."""
    tell("bad", "Nothing that may change makes this plan fit within these limits.")
    if not found.misses:
        st.markdown("And no more of this card, nor a larger one of the catalog, would do.")
    for number, miss in enumerate(_each_kind(found.misses)):
        with st.container(border=True, key=f"miss:{number}"):
            st.markdown(
                f"**{said(miss.lacks[0].upper() + miss.lacks[1:].rstrip('.'))}**  \n"
                f"{plain(session.read(miss.device_bytes))} of "
                f"{plain(session.read(miss.budget_bytes))}. "
                f"{plain(changes_in_words(miss.changes) or 'As it is')}."
            )
            made = found.plan.changed(**miss.changes)
            apply_button(made, plan, f"take-miss:{number}", "Open as plan")


def _each_kind(misses: Sequence[Miss]) -> tuple[Miss, ...]:
    """The closest of those that lack the same but for its figures."""
    kept: dict[str, Miss] = {}
    for miss in misses:
        kept.setdefault(re.sub(r"[\d.,]+", "", miss.lacks), miss)
    return tuple(kept.values())


def left_out(found: Found) -> None:
    """How much was judged, and what was not."""
    judged = found.judged
    text = (
        f"{judged.plans:,} plans judged, {read_count(judged.combinations, 'combination')} of "
        f"categories, in {judged.seconds:.1f} s. They stand for {judged.reach:,} ways to lay the "
        "run out."
    )
    with st.expander("What was looked at, and what was not", key="left-out"):
        st.markdown(text)
        bullets(f"Left out: {sentence[0].lower()}{sentence[1:]}" for sentence in found.left_out)
