"""A model that nobody derived: its layers are measured when the person asks, and can be given up.

Session key, set here only: ``measuring`` is the visitor's last :class:`Measuring`. No link and no
edit starts one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import streamlit as st

from planner.background import Background
from planner.catalog import spot
from planner.dryrun.ask.port import Port
from planner.plan.defaults import MODEL, model_defaults
from planner.plan.plan import try_plan
from planner.plan.unmeasured import Unmeasured, unmeasured
from planner.ui.dry_run.known import port
from planner.ui.elements import button, row
from planner.ui.state import session
from planner.ui.state.draft import Draft
from planner.ui.watching import state, watched
from planner.wording.display import plain

JOB = "measuring"
GIVEN_UP = "Given up; nothing was kept."


class Measuring(Background):
    """The measurements of a model's layers that a plan's fields need."""

    failed = "The measurement failed"

    def __init__(self, asked: Port, key: str, values: Mapping[str, Any]) -> None:
        self.key = key
        self._port, self._values = asked, values
        super().__init__()

    def _work(self) -> None:
        with spot.measuring(self._one):
            try_plan(self._values)

    def _one(self, key: str, config: Mapping[str, Any], names: Sequence[str]) -> None:
        self._port.measure(key, config, names, cancelled=self._cancel.is_set)


def panel(draft: Draft) -> bool:
    """Offers the measurement a draft lacks; whether it lacks one."""
    found = None if draft.plan is not None else unmeasured(draft.values)
    if found is None:
        if st.session_state.pop(JOB, None) is not None:
            # The same fields make a plan now, with what the measured model makes usual.
            usual = model_defaults(draft.values, MODEL).items()
            session.edit({name: value for name, value in usual if name not in draft.chosen})
            st.rerun()
        return False
    watched(_panel, lambda: state(_job(found)), found, dict(draft.values))
    return True


def _job(lacking: Unmeasured) -> Measuring | None:
    job: Measuring | None = st.session_state.get(JOB)
    return job if job is not None and job.key == lacking.key else None


def _panel(lacking: Unmeasured, values: Mapping[str, Any]) -> None:
    job = _job(lacking)
    running = job is not None and job.running
    st.info(
        f"Nobody has derived which activations the layers of {plain(lacking.model_type)} keep. A "
        "dry run of a few layers, without data, measures the activations on this machine; it "
        "usually takes seconds, and the result is stored.",
        icon=":material/straighten:",
    )
    with row("measuring-controls"):
        st.button(
            "Measure its layers",
            key="measuring-start",
            icon=":material/play_arrow:",
            disabled=running,
            on_click=_start,
            args=(lacking.key, values),
        )
        if job is not None and running:
            st.markdown(
                f":material/hourglass_top: Measuring … {job.elapsed_seconds:.0f} s",
                width="content",
            )
            button("Cancel", "measuring-cancel", "close", job.cancel)
    ended = job is not None and not running and (GIVEN_UP if job.given_up else job.error)
    if ended:
        st.caption(f":material/info: {plain(ended)}")


def _start(key: str, values: Mapping[str, Any]) -> None:
    st.session_state[JOB] = Measuring(port(), key, values)
