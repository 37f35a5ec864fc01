"""History of trials in SQL: kept, found again, exported and imported. See docs/trial.md.

``store.History`` is what callers use. Loads SQLAlchemy, and neither torch nor Streamlit.
"""

from planner.trial.history.errors import HistoryError
from planner.trial.history.store import Filter, History, Summary

__all__ = ["Filter", "History", "HistoryError", "Summary"]
