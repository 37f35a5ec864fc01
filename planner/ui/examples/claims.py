"""A document's claims as a table: what it says, its own sum, what is right, and who holds that."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd
import streamlit as st

from planner.examples.claim import DRY_RUN, Claim
from planner.examples.planned import planned
from planner.plan.presets import presets
from planner.ui.state import session
from planner.units import read_number
from planner.wording.display import plain

MARKS = {"agrees": "✓", "does not follow": "✕", "no derivation": "?"}
NOTHING = "—"


def tables(groups: Mapping[str, tuple[Claim, ...]]) -> None:
    """Each group of a document's claims under its heading."""
    st.caption(
        "Formula and inputs are the document's own. The verdict says whether the document's number "
        "follows from its own formula and inputs, and how far it is from Headroom's number. "
        "*Tested* names the test that fails if Headroom's number is wrong."
    )
    for heading, claims in groups.items():
        st.markdown(f"**{heading}**")
        rows = [_row(claim) for claim in claims]
        st.table(pd.DataFrame(rows).set_index("Claim"))


def value(claim: Claim, size: float | None) -> str:
    """A number in the claim's unit, in a smaller one where it would be hundredths."""
    if size is None:
        return NOTHING
    if size == 0:
        return "0"
    smaller = {"GB": "MB", "MB": "KB"}.get(claim.unit)
    if smaller and size < 0.01:
        return f"{size * 1000:.3g} {smaller}"
    return f"{size:,{'.3g' if size < 1000 else '.0f'}} {claim.unit}".strip()


def _row(claim: Claim) -> dict[str, str]:
    sum_ = claim.working
    inputs = {} if sum_ is None else sum_.inputs
    return {
        "Claim": f"**{claim.what}**: {plain(claim.written)}",
        "Verdict": verdict(claim),
        "Ours": f"**{_ours(claim)}**. " + claim.why.replace("*", r"\*"),
        "Its formula": NOTHING
        if sum_ is None
        else f"`{sum_.expression}` = {value(claim, claim.derived)}",
        "Inputs": ", ".join(f"{name} {_number(each)}" for name, each in inputs.items()) or NOTHING,
        "Tested": "; ".join(_holder(one) for one in claim.tested) or NOTHING,
    }


def _number(value: float) -> str:
    """A whole number with all its digits, 1.5 billion among them."""
    return read_number(int(value) if float(value).is_integer() else value)


def _ours(claim: Claim) -> str:
    if claim.said:
        return claim.said
    if claim.case is not None:
        size = planned(claim.case.plan).trainer_bytes
        return f"{session.read(size)} of each card, planned"
    return "No number" if claim.true is None else value(claim, claim.true)


def verdict(claim: Claim) -> str:
    """Whether the number follows from its own sum, and how far it is from what is right."""
    words = f"{MARKS[claim.judgement]} {claim.judgement}"
    times = claim.excess
    if times is None:
        return words
    more, far = ("much", times) if times > 1 else ("little", 1 / times)
    return f"{words}; {far:,.{1 if far < 10 else 0}f} × too {more}"


def _holder(name: str) -> str:
    """Who holds what is right, as a person reads it."""
    if name.startswith(DRY_RUN):
        key = name.removeprefix(DRY_RUN)
        preset = presets().get(key)
        return f"dry run of “{preset.title if preset else key}”"
    if "::" not in name:
        return plain(name)
    path, _, test = name.partition("::")
    file = path.rpartition("/")[2].removesuffix(".py")
    return f"{test.removeprefix('test_').replace('_', ' ')} ({plain(file)})"
