"""What a server does before its first visitor: what that visit would otherwise wait for.

The first page takes a second and a half of imports and first answers; a browser needs about as
long for Streamlit's own files. So both happen at once (benchmarks/first_visit.py).
"""

from __future__ import annotations

import pkgutil
import webbrowser
from importlib import import_module

import streamlit as st

from planner.plan.presets import DEFAULT, presets
from planner.ui import compute, frame, plan


def start() -> None:
    """Import what the Plan page draws with, answer the plan it opens with, and open a browser.

    Streamlit opens one itself only where a script is served and no ``st.App``.
    """
    assert frame  # every page's; here for being imported
    compute.prepare(presets()[DEFAULT].plan)
    for module in pkgutil.iter_modules(plan.__path__, f"{plan.__name__}."):
        import_module(module.name)
    if not st.get_option("server.headless"):
        address = st.get_option("server.address") or "localhost"
        webbrowser.open(f"http://{address}:{st.get_option('server.port')}")
