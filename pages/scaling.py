"""Scaling: how memory, time and money change with length, batch, GPUs, cards and models."""

import streamlit as st

from planner.ui import compute, frame, verdict
from planner.ui.scaling import compare, curves, kinds
from planner.ui.scaling.axes import CARD
from planner.ui.scaling.choice import choose

plan = frame.current_plan()

st.title("Scaling", anchor=False)
verdict.sentence(compute.shown(plan))
other = compare.second_plan(plan)
choice = choose(plan, other)
if choice.field == CARD:
    kinds.kinds(plan, choice)
else:
    curves.curves(plan, other, choice)
