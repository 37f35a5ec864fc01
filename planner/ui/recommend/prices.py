"""What providers ask for the GPUs of recommended plans, with date and source."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
import streamlit as st

from planner.catalog.offers import offers
from planner.plan import Plan
from planner.plan.facts import facts_of
from planner.ui.elements import text_table

COLUMNS = ("GPU", "Provider", "$ per GPU-hour", "Kind", "As of", "Source")


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
        text_table(pd.DataFrame([*rows, *none], columns=COLUMNS), "prices-table", alt, most=8)
        st.caption(
            "Unless you choose a provider or a kind of price above, costs use the middle of each "
            "GPU's listed range. These prices are copies: check the provider before you rent."
        )
