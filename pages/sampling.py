"""Sampling: what it takes to draw rare prompts more often, before and while it runs."""

import streamlit as st

from planner.ui import frame
from planner.ui.sampling import page

frame.enter()

st.title("Sampling", anchor=False)
st.markdown(
    "Density-aware sampling embeds every prompt, finds its nearest neighbours, and draws prompts "
    "from sparse regions more often than prompts from dense regions."
)
page.page()
