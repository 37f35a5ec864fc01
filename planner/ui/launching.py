"""The script that starts the planned run, per framework, or what stands in its way."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from planner.frameworks import exported
from planner.launch.export import export, fitted
from planner.launch.launch import CannotExpress, Launch, as_zip
from planner.plan import Plan
from planner.plan.presets import differences
from planner.ui import choices, session
from planner.ui.display import say
from planner.ui.fields import short_label

LANGUAGES = {".sh": "bash", ".yaml": "yaml", ".yml": "yaml", ".py": "python", ".json": "json"}


def choose_framework(plan: Plan) -> str:
    """Which framework's files to show."""
    known = exported()
    if st.session_state.get("export for") != plan.framework:  # follows the plan, else the click
        st.session_state["export for"] = plan.framework
        if plan.framework in known or "export to" not in st.session_state:
            st.session_state["export to"] = plan.framework if plan.framework in known else known[0]
    st.session_state.setdefault("export to", known[0])
    chosen = st.segmented_control(
        "Framework",
        known,
        key="export to",
        required=True,
        format_func=lambda name: choices.name("framework", name),
        on_change=session.acted,
        help="The plan is written in this framework's own options. A field it cannot do at the "
        "plan's value is named, never dropped.",
    )
    return str(chosen)


def show(plan: Plan, framework: str, link: str) -> None:
    """Preview, download and install line; or the reasons why not."""
    name = choices.name("framework", framework)
    try:
        launch = export(plan, framework, link=link)
    except CannotExpress as error:
        _why_not(plan, framework, name, error)
        return
    _install(launch, name)
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
    st.dataframe(
        pd.DataFrame(
            {
                "Field": [short_label(obstacle.field) for obstacle in error.obstacles],
                "Why": [obstacle.why for obstacle in error.obstacles],
                "What to do": [obstacle.fix for obstacle in error.obstacles],
            }
        ),
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
    changed = differences(near, plan)
    listed = ", ".join(f"{short_label(f)} → {say(getattr(near, f))}" for f in changed)
    st.button(
        f"Change the plan so that {name} can run it",
        icon=":material/build:",
        key="fit-framework",
        on_click=session.apply,
        args=({field: getattr(near, field) for field in changed},),
        help=f"Sets {listed}. The estimate changes with it.",
    )


def _install(launch: Launch, name: str) -> None:
    st.markdown(f"Checked against {name} {launch.version}. Install it with")
    st.code(launch.install, language="bash", wrap_lines=True)


def _files(launch: Launch) -> None:
    with st.container(horizontal=True):
        if len(launch.files) > 1:
            st.download_button(
                "All files as zip",
                data=lambda: as_zip(launch),
                file_name=f"headroom-{launch.framework}.zip",
                mime="application/zip",
                on_click="ignore",
                icon=":material/folder_zip:",
                type="primary",
                key="download-zip",
            )
        for file in launch.files:
            st.download_button(
                file.name,
                data=file.text,
                file_name=file.name,
                mime="text/plain",
                on_click="ignore",
                icon=":material/download:",
                key=f"download:{file.name}",
            )
    tabs = st.tabs([file.name for file in launch.files])
    for tab, file in zip(tabs, launch.files, strict=True):
        suffix = file.name[file.name.rfind(".") :]
        tab.code(file.text, language=LANGUAGES.get(suffix), line_numbers=True)
