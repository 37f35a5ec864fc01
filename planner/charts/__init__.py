"""Charts of the pages, as Altair draws them: bars, curves, timeline. No Streamlit, no torch."""
