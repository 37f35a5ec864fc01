"""The core's answers, kept: a page asks for the same plan many times while it is used.

Answers are frozen values of frozen plans, so a plain cache in the process may hand the
same object to every visitor. Sweeps are tables, which a page could alter: those are
copied by Streamlit's cache.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import lru_cache, partial
from typing import Any

import pandas as pd
import streamlit as st

from planner import late
from planner.advice.advice import Advice
from planner.advice.cards import Choice, choices
from planner.advice.outcome import Judge
from planner.cost import Cost, cost
from planner.dryrun.ask.answer import DryRun
from planner.dryrun.ask.counted import counted, counts
from planner.estimate import estimate
from planner.footprint import Footprint
from planner.launch.export import in_the_way
from planner.plan import FIELDS, Plan
from planner.plan.factors import Factors
from planner.plan.facts import holding
from planner.plan.fields import MOVES, NOT_KNOWN
from planner.speeds import Speeds
from planner.sweeps.table import sweep
from planner.totals.limits import incomplete
from planner.trial.evidence.correction import apply, obstacle
from planner.trial.evidence.stated_error import Compared, stated
from planner.trial.evidence.stated_sweep import stated_sweep
from planner.trial.history import HistoryError
from planner.trial.history.comparisons import compared
from planner.ui.dry_run import known as known_dry_runs
from planner.ui.state import session
from planner.ui.trial.allowed import permitted
from planner.wording.fields import short_label

SHOWING_SECONDS = 0.06
"""Long enough for what was sent to be there; a page has more to do than to draw a sentence."""


@lru_cache(maxsize=512)
def _estimated(plan: Plan, speeds: Speeds | None) -> Footprint:
    return estimate(plan, speeds)


def footprint(plan: Plan) -> Footprint:
    """The estimate of a plan, with the error that measurements state of each phase.

    Its times are by the link's benchmark where that holds for the plan. That of the page's own plan
    is incomplete while the link asked for more than can be planned.
    """
    return _whole(plan, _stated(plan, None))


def shown(plan: Plan) -> Footprint:
    """What pages say of a plan: counted from a dry run that leads, corrected by the link's trials.

    Its estimate alone where there is neither.
    """
    found = _stated(plan, counted_from(plan))
    return _whole(plan, _corrected(session.calibration(), found))


def uncorrected(plan: Plan) -> Footprint:
    """What pages would say of a plan without the link's trials."""
    return _whole(plan, _stated(plan, counted_from(plan)))


def _stated(plan: Plan, base: DryRun | None) -> Footprint:
    """The estimate, counted from a dry run if one is given, with the error that is stated of it."""
    found = _estimated(plan, holding(session.speeds(), plan))
    found = found if base is None else counted(base, found)
    return stated(found, own_comparisons(plan.method))


def _corrected(factors: Factors | None, found: Footprint) -> Footprint:
    """The footprint, corrected by the factors of trials where they hold for it."""
    holds = factors is not None and not obstacle(factors, found)
    return apply(factors, found).footprint if factors is not None and holds else found


def _whole(plan: Plan, found: Footprint) -> Footprint:
    """The same, incomplete where the link asked for more than can be planned."""
    left_out = session.left_out() if plan == session.draft().plan else {}
    if not left_out:
        return found
    reading = session.reading()
    why = {**MOVES, **dict(reading.moves if reading else ())}
    named = [
        f"{short_label(name) if name in FIELDS else quoted(name)} {text[:40]}".strip()
        for name, text in left_out.items()
    ]
    return incomplete(found, named, [why.get(name, NOT_KNOWN) for name in left_out])


def quoted(name: str) -> str:
    """A framework's own name of a setting, as a sentence says it."""
    return f"“{name}”"


def prepare(plan: Plan) -> None:
    """Have ready what a footprint of the plan takes, before there is a visitor."""
    stated(_estimated(plan, None))
def dry_run(plan: Plan) -> DryRun | None:
    """The dry run of a plan that this visitor made or somebody stored; None without one."""
    return known_dry_runs.dry_run(plan, own_comparisons(plan.method))


def counted_from(plan: Plan) -> DryRun | None:
    """The dry run that a plan's figures are counted from; None where its estimate stands alone."""
    return known_dry_runs.counted_from(plan, own_comparisons(plan.method))


def own_comparisons(method: str) -> tuple[Compared, ...]:
    """What stored trials of a method say of predictions, to a visitor who may see them."""
    if not permitted():
        return ()
    try:
        return compared(method)
    except HistoryError:  # the Trial page says it, and what to do
        return ()


@lru_cache(maxsize=128)
def longest_responses(plan: Plan) -> str:
    """What the longest of a plan's responses do to its memory; empty where that is not known."""
    return late.longest_responses(_estimated(plan, None))


def rests_on(plan: Plan) -> tuple[Speeds | None, Factors | None, DryRun | None]:
    """The benchmark, the trials and the dry run that figures of a plan and its edits rest on."""
    return session.speeds(), session.calibration(), counted_from(plan)


def price(plan: Plan) -> Cost:
    """What the plan costs; not kept, since a price grows old."""
    return cost(shown(plan))


def advice(plan: Plan) -> Advice:
    """Advice on a plan, by the same errors as its footprint; worked out part by part."""
    return _advice(plan, own_comparisons(plan.method), *rests_on(plan))


@lru_cache(maxsize=16)
def _advice(
    plan: Plan,
    known: tuple[Compared, ...],
    speeds: Speeds | None,
    factors: Factors | None,
    base: DryRun | None,
) -> Advice:
    judge = partial(_judged, speeds=speeds, known=known, base=base, factors=factors)
    return Advice(judge(plan), judge, give_way, in_the_way)


def judge(plan: Plan) -> Judge:
    """The function that estimates a plan's edits as this visitor's pages do; it caches nothing."""
    speeds, factors, base = rests_on(plan)
    return partial(_judged, speeds=speeds, known=None, base=base, factors=factors)


def _judged(
    plan: Plan,
    *,
    speeds: Speeds | None,
    known: tuple[Compared, ...] | None,
    base: DryRun | None = None,
    factors: Factors | None = None,
) -> Footprint:
    own = own_comparisons(plan.method) if known is None else known
    found = estimate(plan, holding(speeds, plan))
    if base is not None and counts(base, plan):
        found = counted(base, found)
    return _corrected(factors, stated(found, own))


def let_it_show() -> None:
    """Lets a browser draw what was sent before more comes: it draws all that came together at once.

    Without it the verdict of an edit is seen with the charts, some 70 ms later.
    """
    time.sleep(SHOWING_SECONDS)
    give_way()


def give_way() -> None:
    """Lets an edit that was made meanwhile begin: Streamlit looks for one at each such access."""
    st.session_state.get("draft")


@lru_cache(maxsize=16)
def _choices(plan: Plan, speeds: Speeds | None, known: tuple[Compared, ...]) -> tuple[Choice, ...]:
    def judged(table: pd.DataFrame, base: Plan) -> pd.DataFrame:
        return stated_sweep(table, _estimated(base, None), known)

    return choices(plan, speeds, judged=judged, progress=give_way)


def on_other_gpus(plan: Plan) -> tuple[Choice, ...]:
    """The plan on every card, by how many of it."""
    return _choices(plan, session.speeds(), own_comparisons(plan.method))


@st.cache_data(max_entries=64, show_spinner=False, hash_funcs={Plan: hash, Speeds: hash})
def _swept(plan: Plan, over: Mapping[str, list[Any]], speeds: Speeds | None) -> pd.DataFrame:
    return sweep(plan, over=dict(over), speeds=speeds)


def swept(plan: Plan, over: Mapping[str, list[Any]]) -> pd.DataFrame:
    """A table of the plan over the axes, judged by the errors that measurements state."""
    table = _swept(plan, over, holding(session.speeds(), plan))
    found = stated_sweep(table, footprint(plan), own_comparisons(plan.method))
    if footprint(plan).verdict.incomplete:  # no plan of which a part is left out fits
        over_it = found["verdict"].astype(str) == "out of memory"
        found = found.assign(verdict=found["verdict"].astype(object).where(over_it, "incomplete"))
    return found
