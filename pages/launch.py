"""Launch: the files that start this run in a training framework."""

import streamlit as st

from planner.plan.link import to_query
from planner.ui import compute, frame, launch, verdict
from planner.ui.state import address

plan = frame.current_plan()

st.title("Launch", anchor=False)
verdict.sentence(compute.footprint(plan))
launch.show(plan, launch.choose_framework(plan), address.link(to_query(plan)))
