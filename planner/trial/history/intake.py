"""From trials' folders to the history: each once, whoever finished it and whenever.

A folder whose result is in the history has an empty file ``kept``. Where storing fails the result
stays in its folder, and the next look at the history tries again.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from planner.trial.ask.folders import TrialFolder, folders
from planner.trial.history.errors import HistoryError
from planner.trial.history.store import History

MARK = "kept"


def keep(folder: TrialFolder, history: History | None = None) -> bool:
    """Store a folder's result; False when it has none, or is stored already.

    Raises:
        HistoryError: when it cannot be stored; the sentence says where the result stays.
    """
    if (folder.path / MARK).exists():
        return False
    try:
        result = folder.result()
    except (OSError, ValueError):
        return False
    if result is None:
        return False
    try:
        found = (history or History()).add(result)
    except HistoryError as error:
        raise HistoryError(f"{error} The trial's result stays in {folder.result_file}.") from None
    with suppress(OSError):  # a full disk: next time it is found to be there already
        (folder.path / MARK).touch()
    return bool(found.added)


def keep_all(history: History, root: Path | None = None) -> int:
    """Store the results of all folders that are not stored yet; returns how many."""
    return sum(keep(folder, history) for folder in folders(root))
