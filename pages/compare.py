"""Compare: up to four plans beside each other, and which of their differences matter."""

import streamlit as st

from planner.ui import frame, kept
from planner.ui.compare import page

plan = frame.current_plan()

st.title("Compare", anchor=False)
page.page(plan)
kept.section()
