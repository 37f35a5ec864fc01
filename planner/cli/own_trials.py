"""What this machine's stored trials say of a prediction's error, for the command line."""

from __future__ import annotations

import os
import sys
from typing import Any

from planner.footprint import Footprint


def own_comparisons(method: str) -> tuple[Any, ...]:
    """Comparisons of stored trials of a method (``Compared`` of the stated error).

    A history that cannot be read is no reason to hold back an answer: a line on stderr says so.
    """
    from planner.trial.ask.folders import HISTORY_SETTING, has_history

    if not has_history():
        return ()
    if not os.environ.get(HISTORY_SETTING, "").strip():
        from planner.trial.evidence.proofs import proven

        found = proven(method)
        if found is not None:
            return found  # without SQLAlchemy, which takes longer to load than an estimate
    from planner.trial.history.comparisons import compared, keep_proofs
    from planner.trial.history.errors import HistoryError

    try:
        if not os.environ.get(HISTORY_SETTING, "").strip():
            keep_proofs()
        return compared(method)
    except HistoryError as error:
        print(f"note: {error}", file=sys.stderr)
        return ()


def error_line(footprint: Footprint) -> str:
    """The error to expect of the peak, in words."""
    error = footprint.error
    known = "" if error.low is None else f"{error.low:+.1%} to {error.high:+.1%}; "
    return f"Error of the peak: {known}{error.source.rstrip('.')}."
