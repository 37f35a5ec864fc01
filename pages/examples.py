"""Examples: what five documents claim, and what is true."""

import streamlit as st

from planner.ui import frame

frame.enter()
st.title("Examples", anchor=False)
