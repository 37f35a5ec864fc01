"""Headroom: does this RL post-training run fit, how fast is it, what does it cost?

Run with ``streamlit run app.py``. The server imports this file once, as it starts, and runs it as a
script for every page; everything of a page is in :mod:`planner.ui.frame`.
"""

from importlib import import_module
from threading import Thread

import streamlit as st

if __name__ == "__main__":
    from planner.ui import frame

    st.set_page_config(
        page_title="Headroom",
        page_icon=frame.ICON,
        layout="wide",
        initial_sidebar_state=350,
    )
    frame.run()
else:
    # Beside the server, which would listen only after these imports, and a browser loads meanwhile.
    Thread(target=lambda: import_module("planner.ui.starting").start(), daemon=True).start()
    server = st.App(__file__)
