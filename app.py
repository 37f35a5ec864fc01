"""Headroom: does this RL post-training run fit, how fast is it, what does it cost?

Run with ``streamlit run app.py``. Everything is in :mod:`planner.ui.frame`.
"""

import streamlit as st

from planner.ui import frame

st.set_page_config(
    page_title="Headroom",
    page_icon=frame.ICON,
    layout="wide",
    initial_sidebar_state=350,
)
frame.run()
