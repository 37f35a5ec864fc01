"""Launch: the files that start this run in a training framework."""

import streamlit as st

from planner.ui import compute, frame, launch, verdict

plan = frame.current_plan()

st.title("Launch", anchor=False)
verdict.sentence(compute.shown(plan))
launch.show(plan, launch.choose_framework(plan))
launch.elsewhere()
