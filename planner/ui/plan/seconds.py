"""Time on the Plan page: what a step's seconds rest on, drawn by phase, and each cause opened."""

from __future__ import annotations

from typing import Any

import pandas as pd
import streamlit as st

from planner.charts import seconds as drawn
from planner.cost import Cost, between_words
from planner.footprint import Footprint, Phase, highest, lowest
from planner.plan.length_words import named, offered, prompts, words
from planner.plan.lengths import at_caps
from planner.term import TimeTerm
from planner.throughput import Figure, read_figure, read_run, throughput
from planner.ui import compute
from planner.ui.elements import beside, ink, opened, row, share_column
from planner.ui.plan.kernels import kernels
from planner.ui.state import session
from planner.ui.tables import phase_name
from planner.units import read_number, read_seconds_between, read_seconds_bounds
from planner.wording.display import put_in
from planner.wording.fields import labelled

NOT_IN_A_STEP = "not in every step"
NO_TIME = "Nobody has published this GPU's peak rates, so its times are not known."
YIELDED = {
    "tokens_per_second_per_gpu": "**{}** tokens/s per GPU",
    "mfu": "**{}** MFU of the update",
    "hfu": "**{}** HFU",
}
MEANING = (
    "Tokens/s per GPU: prompt and response tokens of a step, divided by the step time and by all "
    "GPUs.  \nMFU, model FLOPs utilization: FLOPs of forward and backward, divided by the FLOPs "
    "that the GPU's peak allows in the update's time.  \nHFU, hardware FLOPs utilization: as MFU, "
    "but recompute and padding count too.  \nGPU-hours: all GPUs of the plan, for the whole run.  "
    "\nIn brackets: error on published runs."
)


def rests_on(footprint: Footprint, price: Cost) -> None:
    """Below the figures: rates, the run's length, and which lengths of responses all that is of."""
    figures = throughput(footprint, price)
    if not figures:
        return
    known = [key for key in YIELDED if key in figures]
    said = [YIELDED[key].format(read_figure(figures[key])) for key in known]
    run = f"the run **{read_run(price)}**"
    hours = f"**{read_figure(figures['gpu_hours_run'])}** GPU-hours"
    st.markdown(f":small[{' · '.join((*said, run, hours))}]", help=MEANING)
    if words := between_words(footprint):
        st.markdown(f":small[{words}]")
    _lengths(footprint)


def _lengths(footprint: Footprint) -> None:
    plan = footprint.plan
    shape = offered(plan)
    if not shape:
        if plan.batch_shape != "full" or not at_caps(plan):  # full rows have no other length
            st.caption(f"Times assume {words(plan)}, after {prompts(plan)}.")
        return
    other = compute.footprint(plan.changed(length_distribution=shape))
    took = f" With typical lengths a step takes **{_step(other)}**." if other.step_seconds else ""
    with row("lengths-offer"):
        st.markdown(
            f":small[:material/straighten: Times assume **{words(plan)}**, after {prompts(plan)}."
            f"{took}]",
            width="stretch",
        )
        st.button(
            "Use a typical length distribution",
            key="use-typical",
            help=f"As in published runs: {named(shape)}. Memory stays planned for the longest "
            "response; time and cost change.",
            on_click=session.apply,
            args=({"length_distribution": shape},),
        )


def _step(footprint: Footprint) -> str:
    assert footprint.step_seconds is not None
    between = footprint.low_seconds, footprint.high_seconds
    return read_seconds_between(footprint.step_seconds, *between)


def timed(footprint: Footprint) -> tuple[Phase, ...]:
    """The phases of a step whose time is known."""
    return tuple(one for one in footprint.phases if one.per_step and one.seconds is not None)


def bars(footprint: Footprint, chosen: str) -> tuple[dict[str, Any], str] | None:
    """Each phase's seconds by cause, and the same in words; None where no time is known.

    Phases that not every step has keep their row, so that a phase is where its memory is.
    """
    phases = timed(footprint)
    if not phases:
        return None
    causes = [
        drawn.Cause(phase_name(phase), term.name, float(term.seconds))
        for phase in phases
        for term in _lasting(phase)
    ]
    taken = [
        drawn.Taken(
            phase_name(one), one.seconds or 0.0, one.low_seconds, one.high_seconds, between(one)
        )
        if one in phases
        else drawn.Taken(phase_name(one), 0.0, None, None, NOT_IN_A_STEP)
        for one in footprint.phases
    ]
    said = ", ".join(f"{phase_name(one)} {between(one)}" for one in phases)
    spec = drawn.phase_seconds(causes, taken, ink=ink(), chosen=chosen)
    return spec, f"Seconds of each phase: {said}."


def _lasting(phase: Phase) -> list[TimeTerm]:
    """Causes that take any time; a phase of none has its one cause of nothing."""
    return [term for term in phase.times if float(term.seconds)] or list(phase.times[:1])


def between(of: Phase) -> str:
    """A phase's seconds with their interval."""
    return read_seconds_between(of.seconds or 0.0, of.low_seconds, of.high_seconds)


def causes(footprint: Footprint) -> None:
    """Every cause of a step's time, longest first; the chosen one opens to its formula."""
    found = sorted(
        ((phase, term) for phase in timed(footprint) for term in _lasting(phase)),
        key=lambda pair: -float(pair[1].seconds),
    )
    if not found or not footprint.step_seconds:
        st.caption(NO_TIME)
        return
    total = footprint.step_seconds
    rows = pd.DataFrame(
        {
            "Time": _term_between(phase, float(term.seconds)),
            "Cause": term.name,
            "Phase": phase_name(phase),
            "Model": term.role,
            "Of step": 100 * float(term.seconds) / total,
        }
        for phase, term in found
    )
    columns = {"Of step": share_column(), "Cause": st.column_config.TextColumn(width=230)}
    listed, panel = beside(5, 3)
    with listed:
        phase, term = found[opened(rows, "causes", "Causes of a step's time", columns)]
    with panel:
        st.markdown(f"**{term.name}** · {phase_name(phase)}")
        explain_time(term)
        st.caption(
            f"{phase_name(phase)} in all: {between(phase)}; "
            f"{'its error is not known.' if phase.doubt is None else phase.doubt.words}"
        )
    kernels(term, f"{phase.name}:{term.role}:{term.name}")


def _term_between(phase: Phase, seconds: float) -> str:
    """A cause's seconds, as uncertain as its phase's."""
    low, high = lowest(seconds, phase.doubt), highest(seconds, phase.doubt)
    return read_seconds_between(seconds, low, high)


def explain_time(term: TimeTerm) -> None:
    """Formula, the same with the numbers put in, measured rows, source, and what is left out."""
    _computed(term.formula, term.inputs, f"{float(term.seconds):,.4g} seconds")
    measured = f"Measured: {term.evidence.rstrip('.')}. " if term.evidence else ""
    left_out = f" Left out: {term.ignores}." if term.ignores else ""
    st.caption(labelled(f"{measured}Source: {term.source}.{left_out}"))
    if term.low is not None and term.high is not None:
        own = read_seconds_bounds(float(term.seconds), float(term.low), float(term.high))
        st.caption(
            f"Range from this term's own assumption: {own}. The phase's range comes from "
            "published runs."
        )


def rates(footprint: Footprint, price: Cost) -> None:
    """Every figure that comes of the seconds; the chosen one opens to its formula."""
    found: list[Figure] = list(throughput(footprint, price).values())
    if not found:
        st.caption("No throughput: the plan does not run, or its time is not known.")
        return
    rows = pd.DataFrame(
        {
            "Value": read_figure(one),
            "Figure": one.name[0].upper() + one.name[1:],
        }
        for one in found
    )
    listed, panel = beside(5, 3)
    with listed:
        figure = found[opened(rows, "rates", "What a step's time yields and costs")]
    value = f"{read_number(figure.value)} {figure.rate.unit}"
    left_out = f" Left out: {figure.rate.ignores}." if figure.rate.ignores else ""
    with panel:
        st.markdown(f"**{figure.name[0].upper()}{figure.name[1:]}**")
        _computed(figure.rate.expression, figure.inputs, value)
        st.caption(f"{figure.rate.why} Source: {figure.rate.source}.{left_out}")


def _computed(formula: str, inputs: object, value: str) -> None:
    text = f"{formula}\n= {put_in(formula, inputs)}\n= {value}"  # type: ignore[arg-type]
    st.code(text, language=None, wrap_lines=True)
