"""Taking the page along: a link that means the same for ever, the answer as JSON, a report."""

from __future__ import annotations

import datetime as dt
import json

import streamlit as st

from planner import recommend
from planner.footprint import Footprint
from planner.plan import Plan
from planner.plan.pin import Pinned
from planner.plan.query import PIN, to_short_query
from planner.report import Advice, content_of, html_of
from planner.throughput import answer_json
from planner.ui import compute
from planner.ui.compare import pins
from planner.ui.elements import download, row, segments
from planner.ui.recommend import asked
from planner.ui.state import address, session
from planner.ui.trial.allowed import permitted
from planner.ui.trial.found import newest_of

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
        _report(footprint)


def _report(footprint: Footprint) -> None:
    """The report of what the page says now, with its dry run and its last trial; made on a click.

    What belongs to the visitor is read here, since a click runs no script.
    """
    plan: Plan = footprint.plan
    executed = compute.dry_run(plan)
    search = asked.of_plan(plan)
    sees_trials = permitted()
    root, factors, speeds = address.app_address(), session.calibration(), session.speeds()

    def made() -> str:
        return html_of(
            content_of(
                footprint,
                made=dt.date.today(),
                dry_run=executed,
                trial=newest_of(plan) if sees_trials else None,
                advice=[Advice(one.title, one.sentence) for one in recommend(footprint)],
                search=search,
                link=address.link_under(root, to_short_query(plan, factors, speeds)),
            )
        )

    download(
        "Report for approval",
        made,
        "headroom-report.html",
        "download-report",
        icon=":material/article:",
        help="One HTML page to print or send: verdict, evidence, phases, cost, settings, advice, "
        "and the plans of your search on Recommend. Opens without a network.",
    )
