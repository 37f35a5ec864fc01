"""Document 000's settings for eight cards of 80 GB beside three plans that keep its lengths."""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd
import streamlit as st

from planner.cost import cost
from planner.examples import doc_000_plans
from planner.examples.dry_runs import Case
from planner.examples.planned import planned
from planner.ui.elements import folded, row
from planner.ui.state import session
from planner.units import read_seconds_between, read_usd_between

TITLE = "Its settings for 8 × 80 GB, and three plans that cut nothing"


def answered(open_plan: Callable[[Case], None]) -> None:
    """A table of all five, and a button for each of the three."""
    with folded(TITLE, "recommended-000", ":material/tune:") as is_open:
        if not is_open:
            return
        st.markdown(
            "The document cuts responses to 1K or 2K tokens so that Intuitor fits. With the "
            "document's full lengths, 2K prompt tokens and 4K response tokens, in its larger "
            "batch, eight GPUs have memory to spare: **conservative** fits at the upper bound of "
            "the estimate, **balanced** fits with a tenth of the GPU free, and **aggressive** may "
            f"be tight. {doc_000_plans.alike()}"
        )
        cases = doc_000_plans.settings()
        st.table(pd.DataFrame([_row(case) for case in cases]).set_index("Setting"))
        with row("recommended-ways-000"):
            for case in cases[-len(doc_000_plans.FOUND) :]:
                key = f"recommended-{case.label}"
                if st.button(f"Open {case.label}", key=key, on_click=open_plan, args=(case,)):
                    st.switch_page("pages/plan.py", query_params={})


def _row(case: Case) -> dict[str, str]:
    plan, found = case.plan, planned(case.plan)
    paid, step = cost(found), found.step_seconds
    assert paid.usd_run is not None and step is not None, "a card with a price"
    return {
        "Setting": case.label,
        "A step": f"{plan.prompts_per_step} × {plan.responses_per_prompt} responses of "
        f"{plan.response_tokens:,} tokens",
        "Peak of a card": f"{session.read(found.device_bytes)} of "
        f"{session.read(found.budget_bytes)}: {found.verdict.word}",
        "Takes": read_seconds_between(step, found.low_seconds, found.high_seconds),
        "The run": read_usd_between(paid.usd_run, paid.low_usd_run, paid.high_usd_run),
    }
