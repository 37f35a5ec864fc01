"""Taking the page along: a link that means the same for ever, and the answer as JSON."""

from __future__ import annotations

import json

import streamlit as st

from planner.footprint import Footprint
from planner.plan.pin import Pinned
from planner.plan.query import PIN, to_short_query
from planner.throughput import answer_json
from planner.ui.compare import pins
from planner.ui.elements import download, row, segments
from planner.ui.plan import report
from planner.ui.state import address, session

KINDS = ("Short link", "Complete link")


def share(footprint: Footprint) -> None:
    """The link to copy and the JSON to download."""
    st.subheader("Share", anchor="share")
    left, right = st.columns([3, 1], vertical_alignment="bottom")
    kind = segments(
        "Link to this page",
        KINDS,
        "link kind",
        left,
        default=KINDS[0],
        help="A short link names a preset that never changes, and the fields that differ from it. "
        "A complete link names every field. Both links keep their meaning in every version.",
    )
    with right:
        download(
            "Answer as JSON",
            lambda: json.dumps(answer_json(footprint), indent=2),
            "headroom.json",
            "download-json",
            width="stretch",
        )
    query: address.Query = address.current_query()
    if kind == KINDS[0]:
        short = to_short_query(footprint.plan, session.calibration(), session.speeds())
        beside = (PIN, *session.left_out())  # whoever opens it is told again what is not planned
        query = {**short, **{key: query[key] for key in beside if key in query}}
    with st.container(key="link-to-page"):  # one line; the rest of it is copied, not read
        st.code(address.link(query), language=None)
    with row("take-along"):
        pins.button(Pinned(footprint.plan))
        report.button(footprint)
