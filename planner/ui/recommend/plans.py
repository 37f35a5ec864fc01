"""The verdict, and the plans beside each other: what each changes, needs, takes and costs."""

from __future__ import annotations

import streamlit as st

from planner.comparison import Compared, compared, figures_of
from planner.launch.export import export, obstacles
from planner.launch.launch import as_zip
from planner.plan import Plan
from planner.plan.frameworks import exported
from planner.plan.query import to_query
from planner.report.recommended import CHECKED
from planner.search import GOALS, Found, Recommendation
from planner.search.check import lead
from planner.search.words import read_gpus
from planner.ui import compute
from planner.ui.compare.page import phases_chart
from planner.ui.elements import COLORS, TONES, download, said, tell
from planner.ui.plan.suggested import from_to
from planner.ui.recommend import rest
from planner.ui.recommend.asked import Asked
from planner.ui.recommend.take import apply_button, pin_button, take
from planner.ui.state import address, session
from planner.units import read_count
from planner.wording.display import plain

YOURS = "Your plan"
FIGURES = ("GPUs", "GPU peak", "Worst phase", "Step time", "The run", "Cost of run")
HOST = "Host RAM per node"


def plans(plan: Plan, mine: Asked, found: Found) -> None:
    """One verdict, then the plans, what their GPUs cost, and every phase's memory."""
    recommended = mine.recommended()
    first = lead(recommended)
    footprints = {one.plan: one.footprint for one in recommended}
    named = [(one.name, one.plan) for one in recommended]
    judged = {str(one.name): one for one in compared(named, footprints.__getitem__)}
    _verdict(first, judged[first.name], found)
    columns = st.columns(len(recommended))
    for place, one in zip(columns, recommended, strict=True):
        with place.container(border=True, height="stretch", key=f"plan:{one.name}"):
            _card(plan, mine, one, judged[one.name], first=one is first)
    rest.prices([one.plan for one in recommended])
    _phases(found, [judged[one.name] for one in recommended])


def _verdict(first: Recommendation, one: Compared, found: Found) -> None:
    """The answer in a sentence: the plan to take, its peak, its time, its money."""
    figures = figures_of(one, session.read)
    card = read_gpus(first.plan)
    tell(
        "doubt" if first.checked == "demoted" else TONES[first.footprint.verdict.said],
        f"{GOALS[found.wish.goal].label}: the {first.called} plan, {card}. "
        f"{first.footprint.verdict.said.capitalize()}, {figures['GPU peak']}; "
        f"{figures['Step time']} a step, {figures['Cost of run']} the run; "
        f"{CHECKED[first.checked]}.",
    )
    for sentence in filter(None, (found.knee, found.same)):
        st.markdown(said(sentence))
    tied = sum(tie.of == first.name for tie in found.ties)
    if tied:
        st.caption(
            f"{read_count(tied, 'other plan')} {'is' if tied == 1 else 'are'} within the error; "
            "see Ties."
        )


def _card(plan: Plan, mine: Asked, one: Recommendation, judged: Compared, *, first: bool) -> None:
    title = one.called.capitalize()
    st.markdown(f"**{title}** {_badges(mine, one)}")
    known = figures_of(judged, session.read)
    lines = [f"- {name}: **{plain(known[name])}**" for name in (*FIGURES, HOST)]
    st.markdown("\n".join(lines))
    count = read_count(len(one.differences), "change")
    st.markdown(f"**{count} from your plan**" if one.differences else "**Your plan, unchanged**")
    if one.differences:
        st.markdown("\n".join(f"- {from_to((change,))}" for change in one.differences))
    if one.trade_offs:
        st.markdown("**Trade-offs**")
        st.markdown("\n".join(f"- {said(text)}" for text in one.trade_offs))
    if one.reason:
        st.markdown(f":material/science: {said(one.reason)}")
    with st.expander("Why this plan", key=f"why:{one.name}"):
        st.markdown(said(one.why))
    with st.container(horizontal=True):
        apply_button(one.plan, plan, f"take:{one.name}", first=first)
        pin_button(one.plan, title, f"pin:{one.name}")
        _check(mine, one)
        _launch(one)


def _badges(mine: Asked, one: Recommendation) -> str:
    word = one.footprint.verdict.said
    job = mine.jobs.get(one.plan)
    state = {
        "agrees": ":green-badge[dry run agrees]",
        "demoted": ":red-badge[dry run disagrees]",
        "unchecked": ":gray-badge[estimate only]",
    }[one.checked]
    if job is not None and job.running:
        state = ":blue-badge[dry run running]"
    return f":{COLORS[word]}-badge[{word}] {state}"


def _check(mine: Asked, one: Recommendation) -> None:
    """The button that has the plan's step executed; how that ended, where it has no answer."""
    job = mine.jobs.get(one.plan)
    if job is not None and job.running:
        st.button("Cancel dry run", key=f"uncheck:{one.name}", on_click=job.cancel)
    elif mine.result(one.plan) is None:
        st.button(
            "Check with a dry run",
            key=f"check:{one.name}",
            icon=":material/play_arrow:",
            on_click=mine.check,
            args=(one.plan,),
            help="Runs the real step on fake tensors and counts every byte. Needs no GPU and takes "
            "a few seconds.",
        )
        if job is not None and job.error:
            st.caption(f"The dry run failed: {said(job.error)}")


def _launch(one: Recommendation) -> None:
    """Its files, where its framework can say it; else the way to other frameworks'."""
    plan, framework = one.plan, one.plan.framework
    if framework not in exported() or obstacles(plan, framework):
        if st.button(
            "Open on Launch",
            key=f"launch:{one.name}",
            icon=":material/rocket_launch:",
            on_click=take,
            args=(plan,),
            help=f"{said(one.launch)} The Launch page has scripts for other frameworks.",
        ):
            st.switch_page("pages/launch.py", query_params={})
        return
    link = address.link(to_query(plan))
    download(
        "Launch script",
        lambda: as_zip(export(plan, framework, link=link)),
        f"headroom-{framework}-{one.name}.zip",
        f"launch:{one.name}",
        icon=":material/rocket_launch:",
    )


def _phases(found: Found, three: list[Compared]) -> None:
    """The three plans' memory and that of the person's, phase by phase."""
    st.subheader("Memory by phase", anchor="recommended-phases")
    yours = compared([(YOURS, found.plan)], compute.footprint)
    phases_chart([*yours, *three], "recommended-phases")
