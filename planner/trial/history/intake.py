"""From trials' folders to the history: each once, whoever finished it and whenever.

A folder whose result is in the history has an empty file ``kept``, so that a trial deleted from
the history does not come back. Where storing fails the result stays in its folder, and the next
look at the history tries again. A history without any trial, whose file was deleted or emptied, is
made anew from all results there are.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from planner.trial.ask.folders import TrialFolder
from planner.trial.ask.process import TRIALS
from planner.trial.ask.result import TrialResult
from planner.trial.evidence import proofs
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
    return result is not None and _stored(folder, result, history)


def _stored(folder: TrialFolder, result: TrialResult, history: History | None) -> bool:
    try:
        found = (history or History()).add(result)
    except HistoryError as error:
        raise HistoryError(f"{error} The trial's result stays in {folder.result_file}.") from None
    with suppress(OSError):  # a full disk: next time it is found to be there already
        (folder.path / MARK).touch()
    return bool(found.added)


def keep_all(
    history: History, root: Path | None = None, note: Callable[[str], None] = lambda sentence: None
) -> int:
    """Store the results of all folders that are not stored yet; returns how many.

    A trial whose process is gone is given the result that says so. One whose process is still
    there is left to it.

    Args:
        history: where to.
        root: the user's data directory, where it is not the usual one.
        note: told a sentence of each result that cannot be read.

    Raises:
        HistoryError: when one cannot be stored; the sentence says where the result stays.
    """
    count = 0
    empty = history.count() == 0
    if empty and history.own:
        proofs.clear()
    for folder in TRIALS.all(root):
        if (not empty and (folder.path / MARK).exists()) or folder.owned():
            continue
        if not folder.result_file.exists():
            TRIALS.look(folder)
        try:
            result = folder.result()
        except (OSError, ValueError) as error:
            note(
                f"The result of {folder.identifier} cannot be read, so no list has it: {error} "
                f"It is {folder.result_file}; put a copy in its place, or delete the trial: "
                f"planner trials --delete {folder.identifier}"
            )
            continue
        if result is not None:
            count += _stored(folder, result, history)
    return count
