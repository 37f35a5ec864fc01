"""The Trial page: what would run, one button, its progress, and what was measured.

A trial belongs to the machine and not to a visitor: whoever may run trials sees those that run
and wait, and may stop them; a page that is opened anew finds them. Pressing is required: no link
and no edit starts one.

Session keys, set here only: ``trial error`` why the last press started nothing. ``trial-…`` are
widgets.
"""

from __future__ import annotations

import streamlit as st

from planner.plan import Plan
from planner.trial.ask import process
from planner.trial.ask.cards import Card, cards
from planner.trial.ask.description import describe
from planner.trial.ask.process import TrialState
from planner.trial.ask.request import TrialRequest, request_of
from planner.ui import (
    compute,
    session,
    trial_answer,
    trial_calibration,
    trial_found,
    trial_history,
    trial_inputs,
    trial_where,
)
from planner.ui.display import Unit
from planner.ui.messages import plain
from planner.ui.trial_allowed import SETTING, permitted
from planner.ui.trial_benchmark import section as benchmark_section
from planner.units import read_seconds

ERROR = "trial error"
POLL = "1s"
WHAT = (
    "Really runs a few of the plan's own steps on the machine that serves this page, and puts "
    "what it measures beside what was predicted. Closing the page does not stop it."
)
OFF = (
    "**Trials are off on this server.** They take a minute or more of the machine that serves "
    f"this page, so its owner turns them on: start the app with `{SETTING}=1`. Without that they "
    "are on only where the app listens on localhost and no proxy is in front."
)
ALONE = (
    "On a machine of yours, `python -m planner trial LINK` runs the same trial without the app; "
    "*Plan* has the link."
)
PROCESSOR = "cpu"


@st.cache_data(ttl=60, show_spinner=False)
def local_cards() -> tuple[Card, ...]:
    """The cards here; asked again after a minute."""
    return cards()


def page(plan: Plan, unit: Unit) -> None:
    """The whole page."""
    st.title("Trial", anchor=False)
    st.caption(WHAT)
    if not permitted():
        st.info(OFF, icon=":material/lock:")
        st.caption(ALONE)
        return
    request = _request(plan)
    if request is not None:
        _described(request)
        running = process_states()
        drawn = st.fragment(_panel, run_every=POLL if running else None)
        drawn(request, tuple(state.identifier for state in running))
    trial_answer.newest(plan, unit, compute.footprint(plan).verdict)
    trial_calibration.section(compute.footprint(plan))
    benchmark_section(plan, local_cards())
    trial_history.section(unit)


def process_states() -> list[TrialState]:
    """Trials of this machine that run or wait, those that began first in front."""
    return trial_found.under_way()


def _request(plan: Plan) -> TrialRequest | None:
    ray = trial_where.cluster()
    device = trial_where.device() if ray else _device()
    cards = trial_where.CARDS if ray else len(local_cards())
    try:
        chosen = trial_inputs.choices(plan, device, cards, files=not ray)
        return request_of(plan, device=device, ray=ray, **chosen)
    except ValueError as error:
        st.error(plain(str(error)), icon=":material/block:")
        return None


def _device() -> str:
    found = {card.device: card.name for card in local_cards()}
    if not found:
        st.markdown(
            ":material/memory: No NVIDIA driver answers on this machine, so the trial runs on its "
            "**processor**: the same tensors as on a GPU, but none of a GPU's seconds."
        )
        return PROCESSOR
    names = {device: f"{name} ({device})" for device, name in found.items()}
    chosen = st.selectbox(
        "Device",
        [*names, PROCESSOR],
        key="trial-device",
        format_func=lambda device: names.get(device, "The processor"),
        on_change=session.acted,
        help="Of the machine that serves this page.",
    )
    return str(chosen)


def _described(request: TrialRequest) -> None:
    found = describe(request)
    if found.refused:
        st.warning(plain(found.refused), icon=":material/block:")
        return
    st.markdown(f"**What runs.** {plain(found.runs)}")
    st.markdown(f"**The most it takes.** {plain(found.most_words)}")
    if found.notes:
        st.caption(" ".join(plain(note) for note in found.notes))


def _panel(request: TrialRequest, seen: tuple[str, ...]) -> None:
    running = process_states()
    if tuple(state.identifier for state in running) != seen:
        st.rerun()  # the whole page, so that looking begins or ends, and an answer appears
    same = any(
        (state.request.plan, state.request.where) == (request.plan, request.where)
        for state in running
    )
    # The first one stands beside the button, so that nothing below moves when it begins or ends.
    with st.container(horizontal=True, vertical_alignment="center", key="trial-controls"):
        st.button(
            "Run the trial",
            key="trial-start",
            icon=":material/play_arrow:",
            type="primary",
            disabled=same or bool(describe(request).refused),
            on_click=_start,
            args=(request,),
        )
        for state in running[:1]:
            _progress(state, request)
    if ERROR in st.session_state:
        st.error(plain(st.session_state[ERROR]), icon=":material/error:")
    for state in running[1:]:
        with st.container(
            horizontal=True, vertical_alignment="center", key=f"trial-{state.identifier}"
        ):
            _progress(state, request)


def _progress(state: TrialState, request: TrialRequest) -> None:
    whose = "" if state.request.plan == request.plan else " (another plan)"
    done = state.step / state.steps if state.steps else 0.0
    st.progress(min(done, 1.0), text=plain(how(state) + whose))
    st.button(
        "Stop",
        key=f"trial-stop-{state.identifier}",
        icon=":material/stop:",
        on_click=_stop,
        args=(state.identifier,),
    )


def how(state: TrialState) -> str:
    """How a trial stands that is not over, in one line."""
    device = trial_where.named(state.request)
    if state.stage == "queued":
        if not state.ahead:
            return f"Waiting for {device}"
        noun = "trial is" if state.ahead == 1 else "trials are"
        return f"Waiting for {device}: {state.ahead} {noun} before it"
    step = f", step {state.step} of {state.steps}" if state.steps else ""
    limit = read_seconds(state.request.limit_seconds)
    return f"Running on {device}: {state.doing}{step}; {state.seconds:.0f} s of at most {limit}"


def _start(request: TrialRequest) -> None:
    session.acted()
    st.session_state.pop(ERROR, None)
    if not permitted():
        return
    try:
        process.start(request)
    except OSError as error:
        st.session_state[ERROR] = (
            f"The trial cannot start: {error.strerror or error}. Set HEADROOM_DATA to a folder "
            "that the app may write to."
        )


def _stop(identifier: str) -> None:
    session.acted()
    folder = process.find(identifier) if permitted() else None
    if folder is not None:
        process.stop(folder)
