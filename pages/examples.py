"""Examples: what the documents behind this project claim, and what is true."""

import streamlit as st

from planner.ui import frame
from planner.ui.examples import documents, grade

frame.enter()

st.title("Examples", anchor=False)
st.markdown(
    "Memory analyses that people wrote before a run, recomputed. ✓ the number follows from the "
    "document's own assumptions, ✕ it does not. *Right* is the same quantity as a trainer "
    "really has it."
)
documents.intuitor_against_ppo()
grade.optimised()
grade.out_of_memory()
documents.activations()
st.header("Still to come", anchor=False)
st.markdown(
    "Density-aware sampling (document 003) joins with its own page: it is not modelled yet."
)
