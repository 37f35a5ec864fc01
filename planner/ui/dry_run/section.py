"""Check with a dry run: a button, its progress, and what the executed step held.

Session keys, set here only: ``dry run job`` is the visitor's last :class:`Job`, ``dry run
shown`` the answer on the page with its sentences, ``dry run warm`` that the process was
started for this visitor. Pressing is required: no link and no edit starts a dry run.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass

import streamlit as st

from planner.dryrun.ask.answer import DryRun
from planner.dryrun.ask.finding import finding
from planner.plan import Plan
from planner.ui import compute
from planner.ui.dry_run import answer, known
from planner.ui.dry_run.job import FILE, Job
from planner.ui.elements import button, download, row, said
from planner.ui.watching import state, watched
from planner.wording.display import Unit

SHOWN = "dry run shown"
WARM = "dry run warm"
WHAT = (
    "Runs the real training step on fake tensors (shapes, no data) and counts every byte. Needs no "
    "GPU and takes a few seconds."
)
INSTEAD = "The closed form above needs no dry run. You can also change the plan and try again."


@dataclass(frozen=True, slots=True)
class Shown:
    """An answer on the page, and its sentences in the chosen unit."""

    plan: Plan
    unit: Unit
    found: DryRun
    sentences: tuple[str, ...]


def section(plan: Plan, unit: Unit) -> None:
    """The whole section; only this part of the page runs again while a dry run is on its way."""
    st.subheader("Check with a dry run", anchor="dry-run")
    st.caption(WHAT)
    _warm_up()
    watched(_panel, lambda: state(known.job()), plan, unit)


def _panel(plan: Plan, unit: Unit) -> None:
    job = known.job()
    shown = _shown(plan, unit)
    own = job is not None and job.plan == plan
    checking = job is not None and job.running and not job.with_snapshot
    with row("dry-run-controls"):
        if checking or shown is None:
            st.button(
                "Check with a dry run",
                key="dry-run-start",
                icon=":material/play_arrow:",
                disabled=checking,
                on_click=_start,
                args=(plan,),
            )
        if job is not None and checking:
            _progress(job, "" if own else " the plan before your change")
        elif shown is not None:
            answer.executed_with(shown.found)
    if shown is not None:
        answer.draw(shown.found, shown.sentences)
        with row("dry-run-files"):
            answer.save(shown.found)
            _snapshot(plan, job)
    elif checking:
        st.skeleton(answer.expected_height(plan))
    elif not own and SHOWN in st.session_state:
        st.caption(
            ":material/history: The plan has changed since the last dry run; the figures above are "
            "counted from it where that is possible. Press the button again to check this plan."
        )
    if job is not None and own and not job.running and (job.with_snapshot or shown is None):
        _ended(job)


def _progress(job: Job, whose: str) -> None:
    """Elapsed seconds and the way out."""
    words = "Stopping" if job.cancelling else f"Running{whose}"
    st.markdown(f":material/hourglass_top: {words} … {job.elapsed_seconds:.0f} s", width="content")
    button("Cancel", "dry-run-cancel", "close", _cancel, disabled=job.cancelling)


def _snapshot(plan: Plan, job: Job | None) -> None:
    """A second run writes the allocations down; then they can be downloaded."""
    if job is not None and job.plan == plan and job.snapshot:
        download("Snapshot for PyTorch's viewer", job.snapshot, FILE, "dry-run-snapshot-file")
    elif job is not None and job.running and job.with_snapshot:
        _progress(job, " the step for the snapshot")
    else:
        st.button(
            "Make a memory snapshot",
            key="dry-run-snapshot",
            icon=":material/memory:",
            on_click=_start,
            args=(plan,),
            kwargs={"with_snapshot": True},
            help="Runs the step once more and writes every allocation into a file for "
            "pytorch.org/memory_viz.",
        )


def _ended(job: Job) -> None:
    """How a job without an answer ended, and what to do."""
    if job.given_up:
        st.caption(":material/close: Cancelled; nothing was kept.")
    elif job.error:
        st.info(f"{said(job.error)} {INSTEAD}", icon=":material/info:")


def _start(plan: Plan, *, with_snapshot: bool = False) -> None:
    _cancel()
    st.session_state[known.JOB] = Job(known.port(), plan, with_snapshot=with_snapshot)


def _cancel() -> None:
    job = known.job()
    if job is not None and job.running:
        job.cancel()


def _shown(plan: Plan, unit: Unit) -> Shown | None:
    """The plan's answer in the chosen unit; None without one."""
    kept: Shown | None = st.session_state.get(SHOWN)
    if kept is not None and (kept.plan, kept.unit) == (plan, unit):
        return kept
    found = compute.dry_run(plan)
    if found is None:
        return None
    if kept is None or kept.plan != plan:
        st.session_state.pop(answer.PHASE, None)  # open at this answer's worst phase
    shown = Shown(plan, unit, found, finding(found, read=unit.read))
    st.session_state[SHOWN] = shown
    return shown


def _warm_up() -> None:
    """Once per visitor: the process starts while the page is read, off the page's own thread."""
    if WARM not in st.session_state:
        st.session_state[WARM] = True
        threading.Thread(target=known.port().warm_up, name="dry run warm-up", daemon=True).start()
