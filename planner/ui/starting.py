"""What a server does before its first visitor: what that visit would otherwise wait for.

The first page takes over a second of imports and first answers; a browser needs about as long for
Streamlit's own files. So both happen at once (benchmarks/first_visit.py).
"""

from __future__ import annotations

import webbrowser

import streamlit as st

from planner.plan.presets import DEFAULT, presets
from planner.ui import compute, frame  # noqa: F401  (every page's: here for being imported)


def start() -> None:
    """Answer the plan that the Plan page opens with, and open a browser.

    Streamlit opens one itself only where a script is served and no ``st.App``.
    """
    compute.prepare(presets()[DEFAULT].plan)
    if not st.get_option("server.headless"):
        address = st.get_option("server.address") or "localhost"
        webbrowser.open(f"http://{address}:{st.get_option('server.port')}")
