"""The Trial page: what would run, one button, its progress, and what was measured.

A trial belongs to the machine and not to a visitor: whoever may run trials sees those that run
and wait, and may stop them; a page that is opened anew finds them. Pressing is required: no link
and no edit starts one.

Session keys: ``trial error`` why the last press started nothing. ``trial-…`` are widgets.
"""

from __future__ import annotations

import streamlit as st

from planner.jobs.processes import JobState
from planner.plan import Plan
from planner.trial.ask.cards import Card, cards
from planner.trial.ask.description import describe
from planner.trial.ask.process import TRIALS
from planner.trial.ask.request import TrialRequest, request_of
from planner.trial.ask.result import TrialResult
from planner.ui import compute
from planner.ui.elements import named_choice, row, said
from planner.ui.trial import answer, benchmark, calibration, controls, found, history, inputs
from planner.ui.trial.allowed import SETTING, permitted
from planner.units import read_seconds

WHAT = (
    "Runs a few real training steps of this plan on the machine that serves this page, and shows "
    "measured values beside predicted ones. Closing the page does not stop the trial."
)
OFF = (
    "**Trials are off on this server.** Each takes a minute or more of its machine. To turn them "
    f"on, start the app with `{SETTING}=1`; without it they run only for an app on localhost "
    "without a proxy."
)
ALONE = (
    "On your own machine, `python -m planner trial LINK` runs the same trial; the *Plan* page has "
    "the link."
)
PROCESSOR = "cpu"
State = JobState[TrialRequest, TrialResult]


@st.cache_data(ttl=60, show_spinner=False)
def local_cards() -> tuple[Card, ...]:
    """The cards here; asked again after a minute."""
    return cards()


def page(plan: Plan) -> None:
    """The whole page."""
    st.title("Trial", anchor=False)
    st.caption(WHAT)
    if not permitted():
        st.info(OFF, icon=":material/lock:")
        st.markdown(ALONE)
        return
    request = _request(plan)
    if request is not None:
        _described(request)
        controls.watched(_panel, found.under_way, request)
    footprint = compute.footprint(plan)
    answer.newest(plan, footprint.verdict)
    calibration.section(footprint)
    benchmark.section(plan, local_cards())
    history.section()


def _request(plan: Plan) -> TrialRequest | None:
    ray = inputs.cluster()
    device = inputs.device() if ray else _device()
    cards = inputs.CARDS if ray else len(local_cards())
    try:
        chosen = inputs.choices(plan, device, cards, files=not ray)
        return request_of(plan, device=device, ray=ray, **chosen)
    except ValueError as error:
        st.error(said(error), icon=":material/block:")
        return None


def _device() -> str:
    names = {card.device: f"{card.name} ({card.device})" for card in local_cards()}
    if names:
        names[PROCESSOR] = "CPU"
        return named_choice(
            "Device", names, "trial-device", help="A device of the machine that serves this page."
        )
    st.markdown(
        ":material/memory: No NVIDIA GPU here, so the trial runs on the **CPU**. Memory can be "
        "compared with a GPU's, speed cannot."
    )
    return PROCESSOR


def _described(request: TrialRequest) -> None:
    told = describe(request)
    if told.refused:
        st.warning(said(told.refused), icon=":material/block:")
        return
    st.markdown(f"**What runs.** {said(told.runs)}")
    st.markdown(f"**Limits.** {said(told.most_words)}")
    if told.notes:
        st.caption(said(" ".join(told.notes)))


def _panel(running: list[State], request: TrialRequest) -> None:
    asked = [(state.request.plan, state.request.where) for state in running]
    # The first one stands beside the button, so that nothing below moves when it begins or ends.
    with row("trial-controls"):
        st.button(
            "Run the trial",
            key="trial-start",
            icon=":material/play_arrow:",
            type="primary",
            disabled=(request.plan, request.where) in asked or bool(describe(request).refused),
            on_click=controls.start,
            args=("trial", TRIALS.start, request),
        )
        for state in running[:1]:
            _progress(state, request)
    controls.refused("trial")
    for state in running[1:]:
        with row(f"trial-{state.identifier}"):
            _progress(state, request)


def _progress(state: State, request: TrialRequest) -> None:
    whose = "" if state.request.plan == request.plan else " (another plan)"
    name, words = state.identifier, how(state) + whose
    step, of = state.latest("step"), state.latest("steps")
    controls.progress("trial", TRIALS, name, step, of, words)


def how(state: State) -> str:
    """How a trial stands that is not over, in one line."""
    device = inputs.named(state.request)
    if state.stage == "queued":
        ahead = state.latest("ahead")
        if not ahead:
            return f"Waiting for {device}"
        noun = "trial is" if ahead == 1 else "trials are"
        return f"Waiting for {device}: {ahead} {noun} before it"
    steps = state.latest("steps")
    step = f", step {state.latest('step')} of {steps}" if steps else ""
    limit = read_seconds(state.request.limit_seconds)
    return f"Running on {device}: {state.doing}{step}; {state.seconds:.0f} s of at most {limit}"
