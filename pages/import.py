"""Import: scripts, configurations, logs and errors in; the plan that they make."""

import streamlit as st

from planner.ui import frame
from planner.ui.importing import page

frame.enter()

st.title("Import", anchor=False)
page.page()
