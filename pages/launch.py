"""Launch: the files that start this run in a training framework."""

from urllib.parse import urlencode

import streamlit as st

from planner.plan.link import to_query
from planner.ui import compute, frame, verdict
from planner.ui import launch as launching
from planner.ui.state import address

plan = frame.current_plan()

st.title("Launch", anchor=False)
verdict.sentence(compute.footprint(plan))
framework = launching.choose_framework(plan)
launching.show(plan, framework, f"{address.root()}?{urlencode(to_query(plan))}")
