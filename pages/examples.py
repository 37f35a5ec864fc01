"""Examples: what the documents behind this project claim, and what is true."""

import streamlit as st

from planner.examples.documents import DOCUMENTS
from planner.ui import frame
from planner.ui.examples import cards, depth

frame.enter()

st.title("Examples", anchor=False)
st.markdown(
    "Five memory analyses that people wrote before a run, recomputed. Each analysis has its "
    "finding, a chart with a slider, and every claim next to the correct figure."
)
for document in DOCUMENTS:
    cards.card(document)
st.header("In depth", anchor="in-depth")
for document in DOCUMENTS:
    depth.folded_below(document)
