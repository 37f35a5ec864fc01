"""Beside the plans: what ties with them, what is closest, prices, and what was not looked at."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pandas as pd
import streamlit as st

from planner.catalog.offers import offers
from planner.plan import Plan
from planner.plan.facts import facts_of
from planner.search import Found, Miss
from planner.ui.elements import bullets, said, tell, text_table
from planner.ui.recommend.take import apply_button
from planner.ui.state import session
from planner.units import read_count
from planner.wording.display import plain
from planner.wording.fields import changes_in_words


def ties(found: Found) -> None:
    """Plans within the error of a recommended one, and how they differ from it."""
    if not found.ties:
        return
    st.subheader("Ties", anchor="ties")
    st.caption("These plans are within the error of a recommended plan: too close to call.")
    table = pd.DataFrame(
        [
            (tie.of, tie.figure, tie.apart, changes_in_words(tie.changes) or "nothing")
            for tie in found.ties
        ],
        columns=["Tied with", "Takes", "Compared with it", "Changes from your plan"],
    )
    text_table(table, "ties", "Plans too close to a recommended one to call", right=99, most=8)


def misses(plan: Plan, found: Found) -> None:
    """Nothing fits: what would do, then what comes closest and what each lacks."""
    tell("bad", "No plan within these limits fits.")
    if not found.misses:
        st.markdown("Neither more GPUs of this kind nor any larger GPU of the catalog would help.")
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
        f"{judged.plans:,} plans estimated in {judged.seconds:.1f} s "
        f"({read_count(judged.combinations, 'combination')} of settings)."
    )
    with st.expander("Search coverage", key="left-out"):
        st.markdown(text)
        bullets(f"Not searched: {sentence}" for sentence in found.left_out)


PRICES = ("GPU", "Provider", "$ per GPU-hour", "Kind", "As of", "Source")


def prices(plans: Sequence[Plan]) -> None:
    """A row for each listed price; a card without any says so."""
    cards = {plan.gpu: facts_of(plan).gpu.name for plan in plans}
    rows = [
        (name, one.provider, f"{one.usd_per_hour:.2f}", one.kind, one.date, one.source)
        for key, name in cards.items()
        for one in offers(key)
    ]
    none = [
        (name, "none in the catalog", *[""] * 4) for key, name in cards.items() if not offers(key)
    ]
    with st.expander("Prices by provider", key="prices"):
        alt = "What providers ask for these GPUs, with date and source"
        text_table(pd.DataFrame([*rows, *none], columns=PRICES), "prices-table", alt, most=8)
        st.caption(
            "Unless you choose a provider or a kind of price above, costs use the middle of each "
            "GPU's listed range. These prices are copies: check the provider before you rent."
        )
