"""A model that nobody derived: its layers are measured when the person asks, and can be given up.

Session key, set here only: ``measuring`` is the visitor's last :class:`Measuring`. No link and no
edit starts one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import streamlit as st

from planner import catalog
from planner.background import Background
from planner.catalog import spot
from planner.catalog.model_catalog import Model
from planner.dryrun.ask.port import Cancelled, DryRunError, Port
from planner.ui.dry_run.section import POLL, port
from planner.ui.elements import row
from planner.ui.state import session
from planner.ui.state.draft import Draft
from planner.wording.display import plain

JOB = "measuring"
GIVEN_UP = "Given up; nothing was kept."


class Measuring(Background):
    """One measurement of a model's layers."""

    failed = "The measurement failed"
    refusals = (DryRunError,)
    given_up_by = (Cancelled,)

    def __init__(self, asked: Port, model: Model, names: Sequence[str]) -> None:
        self.key = model.spot
        self._port, self._names = asked, names
        self._config = {key: value for key, value in model.config.items() if key != "seen"}
        super().__init__()

    def _work(self) -> None:
        self._port.measure(self.key, self._config, self._names, cancelled=self._cancel.is_set)


def needed(values: Mapping[str, Any]) -> tuple[Model, tuple[str, ...]] | None:
    """The model of these fields and the settings to measure; None where nothing is missing."""
    config = values.get("config")
    if not config:
        return None
    try:
        model = catalog.parse_config(catalog.decode_config(config))
    except ValueError:
        return None
    names = spot.missing(model.spot, values) if model.spot else ()
    return (model, names) if names else None


def panel(draft: Draft) -> bool:
    """Offers the measurement a draft lacks; whether it lacks one."""
    found = needed(draft.values)
    if found is None:
        if st.session_state.pop(JOB, None) is not None:
            session.edit({})  # the same fields make a plan now
            st.rerun()
        return False
    job = _job(found[0])
    drawn = st.fragment(_panel, run_every=POLL if job is not None and job.running else None)
    drawn(found[0], found[1], _state(job))
    return True


def _job(model: Model) -> Measuring | None:
    job: Measuring | None = st.session_state.get(JOB)
    return job if job is not None and job.key == model.spot else None


def _state(job: Measuring | None) -> tuple[int, bool]:
    """Which measurement, and whether it runs: what the page was drawn for."""
    return id(job), job is not None and job.running


def _panel(model: Model, names: tuple[str, ...], seen: tuple[int, bool]) -> None:
    job = _job(model)
    running = job is not None and job.running
    if _state(job) != seen:
        st.rerun()  # the whole page, so that looking at the job begins or ends
    st.info(
        f"Nobody derived what layers of {plain(model.model_type)} keep. A dry run of a few of "
        "them, without data, measures it on this machine; it usually takes seconds, and the "
        "answer is kept.",
        icon=":material/straighten:",
    )
    with row("measuring-controls"):
        st.button(
            "Measure its layers",
            key="measuring-start",
            icon=":material/play_arrow:",
            disabled=running,
            on_click=_start,
            args=(model, names),
        )
        if job is not None and running:
            st.markdown(
                f":material/hourglass_top: Measuring … {job.elapsed_seconds:.0f} s",
                width="content",
            )
            st.button(
                "Cancel", key="measuring-cancel", icon=":material/close:", on_click=job.cancel
            )
    ended = job is not None and not running and (GIVEN_UP if job.given_up else job.error)
    if ended:
        st.caption(f":material/info: {plain(ended)}")


def _start(model: Model, names: tuple[str, ...]) -> None:
    st.session_state[JOB] = Measuring(port(), model, names)
