"""The script that starts the planned run, per framework, or what stands in its way."""

from __future__ import annotations

from functools import lru_cache, partial
from pathlib import Path

import pandas as pd
import streamlit as st

from planner.launch.bundle.places import PLACES, SHELL, place_label, why_not_on
from planner.launch.export import export, following, weighable, writing
from planner.launch.launch import ONLINE, CannotExpress, Launch, as_zip
from planner.launch.offer import offered, refuses
from planner.plan import Plan
from planner.plan.chosen import differences
from planner.plan.frameworks import exported
from planner.plan.query import to_query
from planner.ui import compute, messages
from planner.ui.elements import download, segments
from planner.ui.state import address, session
from planner.units import read_count
from planner.wording import choices
from planner.wording.display import plain
from planner.wording.fields import labelled, short_label
from planner.wording.subjects import ELSEWHERE, OTHERS

LANGUAGES = {
    **dict.fromkeys((".sh", ".sbatch"), "bash"),
    **dict.fromkeys((".yaml", ".yml"), "yaml"),
    ".py": "python",
    ".json": "json",
    ".md": "markdown",
}


def choose_framework(plan: Plan) -> str:
    """Which framework's files to show."""
    known = exported()
    able = writing(plan) or known
    followed = (plan.framework, plan.method)
    # Streamlit forgets a widget while another page is open, so its value is remembered beside it.
    shown = st.session_state.get("export to", st.session_state.get("exported to"))
    if st.session_state.get("export for") != followed:  # follows the plan, else the click
        st.session_state["export for"] = followed
        if plan.framework in able or shown not in able:
            shown = plan.framework if plan.framework in able else able[0]
    st.session_state["export to"] = shown
    found = segments(
        "Framework",
        known,
        "export to",
        format_func=partial(choices.name, "framework"),
        help="The plan is written in this framework's own options. Settings that the framework "
        "cannot do are named, never dropped.",
    )
    st.session_state["exported to"] = found
    return found


def show(plan: Plan, framework: str) -> None:
    """Preview, download and install line; or the reasons why not.

    What nobody set follows the framework, and stands above the files.
    """
    name = choices.name("framework", framework)
    weights = _density_weights(plan, framework)
    try:
        runs = following(plan, framework, session.draft().chosen)
        link = address.link(to_query(runs))
        launch = export(runs, framework, link=link, density_weights=weights)
    except CannotExpress as error:
        _why_not(plan, framework, name, error)
        return
    _followed(plan, runs, name)
    on = _launched_by(runs, launch)
    if on != SHELL:
        launch = export(runs, framework, link=link, density_weights=weights, on=on)
    st.markdown(f"Checked against {name} {launch.version}. Install it, then start it with")
    st.code(f"{launch.install}\n{launch.start}", language="bash", wrap_lines=True)
    _files(launch)
    if launch.notes:
        st.subheader("What to know", anchor=False)
        st.markdown("\n".join(f"- {note}" for note in launch.notes))


def elsewhere() -> None:
    """Name schedulers and frameworks without launch files, and say what to do meanwhile."""
    with st.expander("Other schedulers and frameworks"):
        others = (one for one in OTHERS if one.key in ELSEWHERE)
        st.markdown("\n".join(f"- **{one.title}.** {one.says}" for one in others))


def _launched_by(plan: Plan, launch: Launch) -> str:
    """On the machines themselves, by Slurm or Ray; what cannot be is not offered, and said."""
    refused = {place: why_not_on(plan, launch, place) for place in PLACES}
    able = [place for place, why in refused.items() if not why]
    # Streamlit forgets a widget while another page is open.
    kept = st.session_state.get("launched by", st.session_state.get("was launched by"))
    st.session_state["launched by"] = kept if kept in able else able[0]
    found = segments(
        "Launched by",
        able,
        "launched by",
        format_func=partial(place_label, plan=plan),
        help=" ".join(
            [
                "No number of the estimate depends on it. On several machines, launch.sh is run on "
                "each (torchrun's rendezvous, or Ray's); Slurm and Ray get a job's script.",
                *filter(None, refused.values()),
            ]
        ),
    )
    st.session_state["was launched by"] = found
    return found


DRAWN = {"": "Uniform", ONLINE: "Density-weighted"}


def _density_weights(plan: Plan, framework: str) -> str:
    """How prompts are drawn; asked where the framework's program can draw them by weight."""
    if not weighable(plan, framework):
        return ""
    st.session_state.setdefault("density weights", "")
    return segments(
        "Prompt sampling",
        tuple(DRAWN),
        "density weights",
        format_func=DRAWN.__getitem__,
        help="Density-weighted: prompts unlike the others are drawn more often. The program "
        "computes the weights when it starts, or reads a sampling run's: "
        "bash launch.sh --use-precomputed-embeddings DIR.",
    )


def _followed(plan: Plan, runs: Plan, name: str) -> None:
    changes = differences(dict(plan), dict(runs))
    if not changes:
        return
    count = read_count(len(changes), "setting")
    told = f"{count} you left open {'uses' if len(changes) == 1 else 'use'} {name}'s defaults."
    effect = messages.what_it_does(plan, runs)
    after = compute.shown(runs).verdict
    bad = refuses(after, compute.shown(plan).verdict)
    with messages.telling("launch-followed", f"{told} {effect}", "Show them", changes):
        st.button(
            f"Apply to plan (then: {after.word})" if bad else "Apply to plan",
            icon=":material/check:",
            key="use-followed",
            on_click=session.edit,
            args=({"framework": runs.framework},),
        )


def _why_not(plan: Plan, framework: str, name: str, error: CannotExpress) -> None:
    count = len(error.obstacles)
    noun = "1 setting is" if count == 1 else f"{count} settings are"
    st.warning(
        f"**{name} cannot run this plan as it is:** {noun} in the way.", icon=":material/block:"
    )
    rows = [
        (short_label(one.field), labelled(one.why, one.field), labelled(one.fix, one.field))
        for one in error.obstacles
    ]
    st.dataframe(
        pd.DataFrame(rows, columns=["Setting", "Why", "What to do"]),
        hide_index=True,
        key="obstacles",
        alt="Settings in the way of the export, why, and what to do",
        row_height=60,
        column_config={"Setting": st.column_config.TextColumn(width="small")},
    )
    try:
        with st.spinner("Looking for the nearest plan that fits…"):
            near, able = _offered(
                plan, framework, frozenset(session.draft().chosen), compute.rests_on(plan)
            )
    except ValueError:
        return
    changes = differences(dict(plan), dict(able or near))
    named = plain(messages.in_words(changes))
    told = f"with {read_count(len(changes), 'setting')} changed, what goes with them included"
    effect = messages.what_it_does(plan, able or near)
    if able is None:
        st.info(
            f"{name} could run it {told}: {named}. But then it does not fit here, and nothing "
            f"that keeps model, lengths and GPUs mends that: {effect}",
            icon=":material/block:",
        )
        return
    fits = "" if able == near else " and make it fit"
    with messages.telling(
        "launch-fit", f"{name} can run it {told}: {named}. {effect}", "What would change", changes
    ):
        st.button(
            f"Change the plan so that {name} can run it{fits}",
            icon=":material/build:",
            key="fit-framework",
            on_click=session.apply,
            args=({one.field: one.after for one in changes},),
        )


@lru_cache(maxsize=16)
def _offered(
    plan: Plan, framework: str, chosen: frozenset[str], rests_on: object
) -> tuple[Plan, Plan | None]:
    """Kept, since a search for what fits takes seconds; it is judged by what the page rests on."""
    return offered(plan, framework, chosen, compute.judge(plan), compute.give_way)


def _files(launch: Launch) -> None:
    download(
        "All files as zip",
        lambda: as_zip(launch),
        f"headroom-{launch.framework}.zip",
        "download-zip",
        icon=":material/folder_zip:",
        type="primary",
    )
    tabs = st.tabs([file.name for file in launch.files])
    for tab, file in zip(tabs, launch.files, strict=True):
        with tab:
            language = LANGUAGES.get(Path(file.name).suffix)
            st.code(file.text, language=language, wrap_lines=True)
            download(file.name, file.text, file.name, f"download:{file.name}", mime="text/plain")
