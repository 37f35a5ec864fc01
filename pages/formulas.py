"""Formulas: every expression the numbers come from, with its source and its limits."""

import streamlit as st

from planner.ui import formulas, frame

frame.enter()

st.title("Formulas", anchor=False)
st.markdown(
    "The expressions below are the code: an estimate evaluates these very strings. Sizes are in "
    "bytes; values stay whole numbers until the last step."
)
formulas.show()
