"""GPU options: the plan on every card of the catalog, by how many of it, and the cheapest.

Session keys, set here only: ``mending`` is the visitor's last :class:`Mending`, ``gpus chosen``
the place of the row that the list names.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import pandas as pd
import streamlit as st

from planner.advice.cards import Choice, Goal, best, smallest
from planner.catalog import gpu
from planner.cost import price_of
from planner.footprint import Footprint
from planner.plan import Plan, try_plan
from planner.plan.facts import facts_of
from planner.search.ask import Mending
from planner.ui import compute
from planner.ui.elements import ROW, alike, card_share_column, numbers, row, said
from planner.ui.state import session
from planner.ui.watching import state, watched
from planner.units import read_count, read_seconds, read_usd
from planner.wording.display import plain
from planner.wording.fields import labelled

MENDING, APPLY, CHOSEN = "mending", "apply-gpus", "gpus chosen"
WORDS = {"fits": 0, "incomplete": 1, "tight": 1, "out of memory": 2, "impossible": 3}
MOST_ROWS = 12
MEANING = (
    "The rest of the plan stays the same; a plan for one GPU is sharded with FSDP2 on several "
    "GPUs. Prices are the middle of each GPU's listed range; a GPU without a listed price has no "
    "cost."
)
MEND = (
    "For each plan that is out of memory, changes settings until the plan fits, as Make it fit "
    "does; keeps model, lengths and GPUs. Takes 5 to 15 seconds."
)


def show(footprint: Footprint) -> None:
    """The table, what is least in it, and a button in each row that takes it."""
    plan = footprint.plan
    with st.spinner("Estimating the plan on every GPU…"):
        found = compute.on_other_gpus(plan)
    mine = _mending(plan)
    mended = (mine.found if mine is not None else None) or ()
    place = st.container()
    found = _of_vendor(plan, found)
    every = _choices(plan, found, mine)
    instead = {(one.gpu, one.gpus): one for one in mended}
    found = tuple(instead.get((one.gpu, one.gpus), one) for one in found)
    with place:
        _least(found)
    shown = sorted(
        (one for one in found if every or WORDS[one.word] < 2),
        key=lambda one: (WORDS[one.word], one.usd_run is None, one.usd_run or one.gpus),
    )
    if not shown:
        st.info("This plan fits on none of these GPUs, in any number.")
        return
    rows = _table(plan, shown)
    st.dataframe(
        rows,
        hide_index=True,
        height=(min(len(shown), MOST_ROWS) + 1) * ROW + 3,
        key="other-gpus",
        alt="The plan on every GPU, by how many: verdict, peak, step time, price, cost of the run; "
        "Apply takes a row",
        column_config={
            "Apply": st.column_config.ButtonColumn(
                "", width=90, pinned=True, on_click=_apply, args=(shown,), key=APPLY
            ),
            **_columns(rows),
        },
    )
    _named_row(plan, shown)


def _of_vendor(plan: Plan, found: Sequence[Choice]) -> tuple[Choice, ...]:
    """Those of the plan's own vendor, unless the visitor wants to see all."""
    vendor = facts_of(plan).gpu.vendor
    only = vendor and st.toggle(f"{vendor} only", value=True, key="own-vendor")
    return tuple(one for one in found if not only or gpu(one.gpu).vendor == vendor)


def _choices(plan: Plan, found: Sequence[Choice], mine: Mending | None) -> bool:
    """Whether all rows are shown; and the way to what else would fit."""
    failing = sum(one.word == "out of memory" for one in found)
    with row("other-gpus-choices"):
        every = st.toggle("Show GPUs where it does not fit", key="all-gpus", help=MEANING)
        if failing and (mine is None or mine.given_up or mine.error):
            st.button(
                f"Find settings that make the other {failing} fit",
                key="mend-gpus",
                icon=":material/build:",
                on_click=_mend,
                args=(plan, tuple(found)),
                help=MEND,
            )
    watched(_waiting, lambda: state(mine), mine)
    if mine is not None and mine.error:
        st.warning(said(mine.error), icon=":material/info:")
    elif mine is not None and mine.found is not None:
        st.caption(
            f"{len(mine.found)} of the {failing} that are out of memory fit with the changes that "
            f"their rows name; found in {read_seconds(mine.took_seconds)}. Recommend also "
            "considers LoRA and other lengths."
        )
    return every


def _mend(plan: Plan, found: tuple[Choice, ...]) -> None:
    own = compute.own_comparisons(plan.method)
    st.session_state[MENDING] = Mending(plan, found, session.speeds(), own, session.attended())


def _mending(plan: Plan) -> Mending | None:
    """This plan's, once it was asked for; that of another one ends."""
    mine = cast("Mending | None", st.session_state.get(MENDING))
    if mine is not None and mine.plan != plan:
        mine.cancel()
        st.session_state.pop(MENDING)
        return None
    return mine


def _waiting(mine: Mending | None) -> None:
    """How far it is, and the way out; only this runs again meanwhile."""
    if mine is None or not mine.running:
        return
    text = f"{mine.doing} … {mine.elapsed_seconds:.0f} s"
    st.progress(min(max(mine.share, 0.0), 1.0), text=plain(text))
    st.button("Cancel", key="mend-cancel", icon=":material/close:", on_click=mine.cancel)


def _named_row(plan: Plan, shown: Sequence[Choice]) -> None:
    """The rows once more as a list: a table's buttons hear a pointer alone."""
    if st.session_state.get(CHOSEN, 0) >= len(shown):
        st.session_state[CHOSEN] = 0
    with st.container(horizontal=True, vertical_alignment="bottom", key="take-gpus"):
        place = st.selectbox(
            "Or choose by name",
            range(len(shown)),
            key=CHOSEN,
            format_func=lambda at: f"{_named(shown[at])}: {shown[at].word}",
            width=420,
        )
        one = shown[place]
        same = _is_plan(plan, one)
        st.button(
            "This is the plan" if same else "Apply",
            key="apply-named-gpus",
            icon=":material/check:",
            disabled=same or one.word == "impossible",
            on_click=session.apply,
            args=(dict(one.changes),),
        )
    if one.mended:
        st.caption(f"Changes: {labelled(one.mended)}.")


def _apply(shown: Sequence[Choice]) -> None:
    """A row's button: the plan is on these GPUs from now on."""
    session.apply(dict(shown[st.session_state[APPLY].row].changes))


def _is_plan(plan: Plan, one: Choice) -> bool:
    return all(getattr(plan, field) == value for field, value in one.changes.items())


def _table(plan: Plan, shown: Sequence[Choice]) -> pd.DataFrame:
    unit = session.unit()
    mended = any(one.mended for one in shown)
    return pd.DataFrame(
        {
            "Apply": ""
            if _is_plan(plan, one) or one.word == "impossible"
            else ":material/check: Apply",
            "GPU": one.name,
            "Count": one.gpus,
            "Verdict": f"{one.word}, changed" if one.mended else one.word,
            **({"Changes": labelled(one.mended)} if mended else {}),
            "Step, s": one.step_seconds,
            "GPU-hour, $": _per_hour(plan, one),
            "Run, $": one.usd_run,
            f"Peak, {unit.name}": unit.value(one.device_bytes) if one.device_bytes else None,
            "Of GPU": round(one.device_bytes / one.budget_bytes, 2)
            if one.device_bytes and one.budget_bytes
            else None,
            "Worst phase": one.worst,
            "Step, s: from": one.low_seconds,
            "to": one.high_seconds,
            "Run, $: from": one.low_usd,
            "to ": one.high_usd,
        }
        for one in shown
    )


def _per_hour(plan: Plan, one: Choice) -> float | None:
    """Dollars of a GPU for an hour, as the row's cost has them; None where nobody lists one."""
    made, _ = try_plan({**plan.model_dump(), **one.changes})
    return None if made is None else price_of(made).per_gpu_hour


def _columns(rows: pd.DataFrame) -> dict[str, Any]:
    return {
        "Of GPU": card_share_column(),
        **numbers([f"Peak, {session.unit().name}"], "%.1f"),
        **alike(rows, ["Step, s", "Step, s: from", "to"]),
        **numbers(["GPU-hour, $"], "%.2f"),
        **numbers(["Run, $", "Run, $: from", "to "], "%,.0f"),
        "Changes": st.column_config.TextColumn(width=260),
    }


def _least(found: Sequence[Choice]) -> None:
    """The cheapest, the fastest and the fewest, and which others are inside the error of it."""
    lines = []
    goals: tuple[tuple[str, Goal], ...] = (("Cheapest", "usd_run"), ("Fastest", "step_seconds"))
    for word, goal in goals:
        least = best(found, goal)
        if least is not None:
            first, ties = least
            tied = f" ({read_count(len(ties), 'other')} too close to call)" if ties else ""
            lines.append(f"**{word}**: {_named(first)}{_figure(first, goal)}{tied}")
    fewest = smallest(found)
    if fewest is not None:
        lines.append(f"**Fewest**: {_named(fewest)}")
    if lines:
        st.markdown("  \n".join(lines).replace("$", r"\$"))


def _named(one: Choice) -> str:
    return f"{one.gpus} × {one.name}{' with changes' if one.mended else ''}"


def _figure(one: Choice, goal: Goal) -> str:
    value = getattr(one, goal)
    if goal == "usd_run":
        return f", {read_usd(value)} the run"
    return f", {read_seconds(value)} a step"
