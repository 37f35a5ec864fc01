"""Stored trials that prove something, and what they say of predictions of device bytes.

A stored trial never changes, so each is read and compared once in a process.
"""

from __future__ import annotations

from functools import lru_cache

from sqlalchemy import URL

from planner.trial.ask.folders import has_history
from planner.trial.ask.result import TrialResult
from planner.trial.evidence import proofs
from planner.trial.evidence.calibration import counts
from planner.trial.evidence.stated_error import Compared, of_trial
from planner.trial.history.place import history_url
from planner.trial.history.store import Filter, History

READ = 200
"""The newest so many trials are read."""


def proving(method: str, gpu: str = "") -> list[TrialResult]:
    """The newest stored trials of a method on GPUs that were completed and not censored.

    Args:
        method: the plan's.
        gpu: the catalog's key of the only card that is wanted; empty for every one.

    Raises:
        HistoryError: when the history cannot be read.
    """
    return [found for place in _places(method, gpu) if (found := _read(*place)) is not None]


def compared(method: str) -> tuple[Compared, ...]:
    """Every comparison that they make; none without a history.

    Raises:
        HistoryError: when the history cannot be read.
    """
    return tuple(one for place in _places(method) for one in _compared(*place))


def keep_proofs() -> None:
    """Write down what every stored trial says, of a history that was there before its proofs.

    Raises:
        HistoryError: when the history cannot be read.
    """
    proofs.begin()
    for result in History().results(Filter(status="completed")):
        proofs.put(result)


def _places(method: str, gpu: str = "") -> list[tuple[URL, str]]:
    if not has_history():
        return []  # looking for trials makes no database
    url = history_url()
    wanted = Filter(method=method, gpu=gpu, status="completed", limit=READ)
    return [
        (url, line.id)
        for line in History(url).list(wanted)
        if line.device_kind == "cuda" and not line.censored
    ]


@lru_cache(maxsize=1024)
def _read(url: URL, identifier: str) -> TrialResult | None:
    found = History(url).get(identifier)
    return found if found is not None and counts(found) else None


@lru_cache(maxsize=1024)
def _compared(url: URL, identifier: str) -> tuple[Compared, ...]:
    found = _read(url, identifier)
    return () if found is None else tuple(of_trial(found))
