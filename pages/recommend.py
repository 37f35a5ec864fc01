"""Recommend: say what the run is for and what it may take; get three plans that do it."""

import streamlit as st

from planner.ui import frame
from planner.ui.recommend import page

plan = frame.current_plan()

st.title("Recommend", anchor=False)
page.page(plan)
