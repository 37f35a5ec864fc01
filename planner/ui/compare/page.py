"""The Compare page: up to four plans, their differences, and which of those matter."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from planner.charts import compared as drawn
from planner.comparison import Compared, compared, differing, effects, summary
from planner.plan import Plan
from planner.plan.labels import whole_subject
from planner.plan.pin import NAME_CHARACTERS, Pinned, to_pin
from planner.ui import compute
from planner.ui.compare import pins, rows
from planner.ui.elements import COLORS, ICONS, button, choice, ink, said, tell, text_table
from planner.ui.state import session
from planner.units import read_count
from planner.wording.display import plain

Shown = tuple[str, Pinned, int | None]
"""Name, plan, and its place among the pins."""


def page(plan: Plan) -> None:
    """All of it; with one plan only, what to do for a second."""
    shown = pins.named(plan)
    plans = compared([(name, one.plan) for name, one, _ in shown], compute.footprint)
    if len(plans) > 1:
        fit = all(one.footprint.verdict.said == "fits" for one in plans)
        tell("good" if fit else "doubt", summary(plans))
    else:
        st.markdown(
            "**Pin this plan, then change it in the sidebar:** both appear here side by side. "
            "You can also paste a link or open a plan file."
        )
    pins.controls(plan, [one._replace(name=name) for name, one, _ in shown])
    _cards(shown, plans, plan)
    if len(plans) < 2:
        return
    _figures(plans)
    _settings(plans)
    _phases(plans)
    _matters(plans)


def _cards(shown: Sequence[Shown], plans: Sequence[Compared], plan: Plan) -> None:
    """Each plan by name, with its verdict, and what can be done with it."""
    columns = st.columns(len(plans))
    for place, (name, pinned, pin), one in zip(columns, shown, plans, strict=True):
        word = one.footprint.verdict.said
        with place.container(border=True, height="stretch"):
            if pin is None:
                st.markdown(f"**{plain(name)}**")
            else:
                key = f"pin-name:{hash(to_pin(pinned))}"
                st.text_input(
                    f"Name of pinned plan {pin + 1}",
                    name,
                    max_chars=NAME_CHARACTERS,
                    key=key,
                    on_change=pins.rename,
                    args=(pin, key),
                    label_visibility="collapsed",
                )
            st.markdown(f":{COLORS[word]}[:material/{ICONS[word]}: **{word}**]")
            st.caption(plain(whole_subject(one.plan)))
            if one.footprint.blockers:
                st.caption(said(one.footprint.verdict.sentence))
            with st.container(horizontal=True):
                if pinned.plan == plan:
                    st.caption("Your current plan")
                else:
                    st.button(
                        "Open as plan",
                        key=f"open:{pin}",
                        icon=":material/open_in_new:",
                        on_click=session.open_plan,
                        args=(pinned.plan,),
                        help="Makes this plan the current one on every page. Pin the current plan "
                        "first if you want to keep it.",
                    )
                if pin is not None:
                    button("Remove", f"remove:{pin}", "close", pins.remove, pin)


def _figures(plans: Sequence[Compared]) -> None:
    st.subheader("Memory, time and money", anchor="figures")
    table = rows.figures(plans, session.read)
    text_table(table, "compared-figures", "What each plan needs, takes and costs")
    st.caption(
        "In brackets: error on published runs. Errors of the plans are correlated, so trust the "
        "ranking more than the numbers. The memory that training needs does not include vLLM's "
        "reservation."
    )


def _settings(plans: Sequence[Compared]) -> None:
    found = differing([one.plan for one in plans])
    st.subheader(f"{read_count(len(found), 'setting')} that differ{'s' * (len(found) == 1)}")
    table = rows.settings(found, plans)
    text_table(table, "compared-settings", "Settings that are not the same in all plans", most=30)


def _phases(plans: Sequence[Compared]) -> None:
    st.subheader("Memory by phase", anchor="compared-phases")
    phases_chart(plans, "compared-phases")


def phases_chart(plans: Sequence[Compared], key: str) -> None:
    """Every phase's memory in each plan, and what the marks say."""
    unit = session.unit()
    table = rows.phases(plans, unit)
    st.altair_chart(
        drawn.phases_of_plans(table, unit=unit.name, ink=ink()),
        key=key,
        height=drawn.height(table["phase"].nunique(), len(plans)),
        alt=rows.phases_in_words(table, unit),
    )
    st.caption("Light: vLLM's reservation. Vertical line: GPU capacity.")


def _matters(plans: Sequence[Compared]) -> None:
    st.subheader("Which differences matter", anchor="matters")
    first, *others = plans
    after = others[0]
    if len(others) > 1:
        names = [one.name for one in others]
        label = f"Compare {plain(first.name)} with"
        named = choice(label, names, "compared-with", index=len(names) - 1)
        after = others[names.index(named)]
    with st.spinner("Changing one setting at a time …"):
        found = effects(first.plan, after.plan, compute.footprint)
    table = rows.matters(found, first, after, session.read)
    if table.empty:
        st.markdown(
            "No single difference changes the verdict, or changes memory, time or cost by "
            "1%."
        )
    else:
        text_table(table, "compared-effects", "The effect of each difference", right=3, most=14)
        st.caption(
            f"Each setting that differs is changed alone in {plain(first.name)}, and changed back "
            f"alone in {plain(after.name)}; the larger effect is shown. The effects need not add "
            "up, because settings interact."
        )
    if idle := rows.idle(found):
        st.markdown(f"**Changes nothing by 1%:** {plain(', '.join(idle))}.")
