"""The script that starts the planned run, per framework, or what stands in its way."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pandas as pd
import streamlit as st

from planner.frameworks import exported
from planner.launch.export import export, fitted
from planner.launch.launch import CannotExpress, Launch, as_zip
from planner.plan import Plan
from planner.plan.presets import differences
from planner.ui.elements import download, segments
from planner.ui.inputs import choices
from planner.ui.inputs.fields import changes_in_words, labelled, short_label
from planner.ui.state import session

LANGUAGES = {".sh": "bash", ".yaml": "yaml", ".yml": "yaml", ".py": "python", ".json": "json"}


def choose_framework(plan: Plan) -> str:
    """Which framework's files to show."""
    known = exported()
    if st.session_state.get("export for") != plan.framework:  # follows the plan, else the click
        st.session_state["export for"] = plan.framework
        if plan.framework in known:
            st.session_state["export to"] = plan.framework
    st.session_state.setdefault("export to", known[0])
    return segments(
        "Framework",
        known,
        "export to",
        format_func=partial(choices.name, "framework"),
        help="The plan is written in this framework's own options. A field it cannot do at the "
        "plan's value is named, never dropped.",
    )


def show(plan: Plan, framework: str, link: str) -> None:
    """Preview, download and install line; or the reasons why not."""
    name = choices.name("framework", framework)
    try:
        launch = export(plan, framework, link=link)
    except CannotExpress as error:
        _why_not(plan, framework, name, error)
        return
    st.markdown(f"Checked against {name} {launch.version}. Install it with")
    st.code(launch.install, language="bash", wrap_lines=True)
    _files(launch)
    if launch.notes:
        st.subheader("What to know", anchor=False)
        st.markdown("\n".join(f"- {note}" for note in launch.notes))


def _why_not(plan: Plan, framework: str, name: str, error: CannotExpress) -> None:
    count = len(error.obstacles)
    noun = "One field is" if count == 1 else f"{count} fields are"
    st.warning(
        f"**{name} cannot run this plan as it is.** {noun} in the way.", icon=":material/block:"
    )
    rows = [
        (short_label(one.field), labelled(one.why), labelled(one.fix)) for one in error.obstacles
    ]
    st.dataframe(
        pd.DataFrame(rows, columns=["Field", "Why", "What to do"]),
        hide_index=True,
        key="obstacles",
        alt="Fields in the way of the export, why, and what to do",
        row_height=60,
        column_config={"Field": st.column_config.TextColumn(width="small")},
    )
    try:
        near = fitted(plan, framework)
    except ValueError:
        return
    changes = {field: getattr(near, field) for field in differences(near, plan)}
    st.button(
        f"Change the plan so that {name} can run it",
        icon=":material/build:",
        key="fit-framework",
        on_click=session.apply,
        args=(changes,),
        help=f"Sets {changes_in_words(changes)}. The estimate changes with it.",
    )


def _files(launch: Launch) -> None:
    with st.container(horizontal=True):
        if len(launch.files) > 1:
            download(
                "All files as zip",
                lambda: as_zip(launch),
                f"headroom-{launch.framework}.zip",
                "download-zip",
                icon=":material/folder_zip:",
                type="primary",
            )
        for file in launch.files:
            download(file.name, file.text, file.name, f"download:{file.name}", mime="text/plain")
    tabs = st.tabs([file.name for file in launch.files])
    for tab, file in zip(tabs, launch.files, strict=True):
        language = LANGUAGES.get(Path(file.name).suffix)
        tab.code(file.text, language=language, line_numbers=True)
