"""The plan's one-page report, as a file to save."""

from __future__ import annotations

import datetime as dt

from planner import recommend
from planner.footprint import Footprint
from planner.plan import Plan
from planner.plan.query import to_short_query
from planner.report import Advice, content_of, html_of
from planner.ui import compute
from planner.ui.elements import download
from planner.ui.recommend import asked
from planner.ui.state import address, session
from planner.ui.trial.allowed import permitted
from planner.ui.trial.found import newest_of


def button(footprint: Footprint) -> None:
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
