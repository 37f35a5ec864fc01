"""A part of a page that is drawn again and again while something is under way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import streamlit as st

from planner.background import Background

POLL = "500ms"


def state(job: Background | None) -> tuple[int, bool]:
    """What a page knows of a job: which one it is, and whether it runs."""
    return id(job), job is not None and job.running


def watched(
    panel: Callable[..., None], now: Callable[[], tuple[Any, bool]], *given: Any, poll: str = POLL
) -> None:
    """Draw a panel; while ``now`` says, second, that something is under way, again and again.

    The whole page is drawn anew once ``now`` says anything else, so that looking ends with what
    was under way, and its result appears.
    """
    seen = now()
    st.fragment(_drawn, run_every=poll if seen[1] else None)(panel, now, seen, given)


def _drawn(
    panel: Callable[..., None],
    now: Callable[[], tuple[Any, bool]],
    seen: tuple[Any, bool],
    given: tuple[Any, ...],
) -> None:
    if now() != seen:
        st.rerun()
    panel(*given)
