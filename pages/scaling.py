"""Scaling: how memory and time grow with length, batch, GPUs and model size."""

import streamlit as st

from planner.ui import compute, frame, verdict
from planner.ui.scaling import compare, curves

plan = frame.current_plan()

st.title("Scaling", anchor=False)
verdict.sentence(compute.footprint(plan))
other = compare.second_plan(plan)
curves.curves(plan, other, curves.choose(plan, other))
