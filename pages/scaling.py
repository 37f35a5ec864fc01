"""Scaling: how memory and time grow with length, batch, GPUs and model size."""

import streamlit as st

from planner.ui import compute, frame, verdict
from planner.ui.scaling import compare
from planner.ui.scaling import curves as scaling
from planner.ui.state import session

plan = frame.current_plan()
unit = session.unit()

st.title("Scaling", anchor=False)
verdict.sentence(compute.footprint(plan))
other = compare.second_plan(plan)
scaling.curves(plan, other, scaling.choose(plan, other), unit)
