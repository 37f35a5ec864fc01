"""The process that runs one trial: ``python -m planner.trial.run.worker FOLDER``. Imports torch.

Started by the supervisor, or as several processes by torchrun. It writes progress and a result to
the folder, and ends when whoever started it does.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
import traceback
from pathlib import Path
from typing import Any

from pydantic_core import to_jsonable_python

from planner.imports import kept_for_good
from planner.jobs.folder import alive
from planner.jobs.strict import shown
from planner.trial.ask.folders import TrialFolder
from planner.trial.ask.request import TrialRequest
from planner.trial.ask.result import TrialResult
from planner.trial.ask.supervisor import SUPERVISOR, ended

WATCH_SECONDS = 0.5
UNFINISHED = 3
"""Exit status of one of several processes that ended early, so that torchrun ends the others."""


def main(arguments: list[str]) -> int:
    """Run the trial of a folder."""
    end_with_parent()
    folder = TrialFolder(Path(arguments[0]))
    result = run(folder.request(), folder)
    several = int(os.environ.get("WORLD_SIZE", "1")) > 1
    return UNFINISHED if several and result.status != "completed" else 0


def run(request: TrialRequest, folder: TrialFolder) -> TrialResult:
    """Run a request in this process and write its result to the folder.

    Of several processes the first speaks; any that ends early says how.
    """
    start = time.perf_counter()
    first = int(os.environ.get("RANK", "0")) == 0
    if first:
        folder.say("imports")
    with kept_for_good():
        from planner.trial.run.runner import run_trial

    def report(name: str, more: dict[str, Any]) -> None:
        if not first:
            return
        if name == "known":
            folder.remember(to_jsonable_python(more, by_alias=True))
        else:
            folder.say(name, **more)

    try:
        spent = time.perf_counter() - start
        result = run_trial(request, folder.identifier, report, spent)
    except Exception as error:  # whatever a library does, the trial has a result
        with contextlib.suppress(OSError):  # a full disk has no room for it
            traceback.print_exc()
        sentence = shown(" ".join(f"{type(error).__name__}: {error}".split()), 1000)
        spent = time.perf_counter() - start
        return ended(folder, request, "failed", sentence, seconds=spent)
    if first or result.status != "completed":
        folder.say("done", status=result.status)
        return folder.settled(result)
    return result


def end_with_parent() -> None:
    """End this process when its parent, or the supervisor above it, is gone."""
    parent = os.getppid()
    pid, _, began = os.environ.get(SUPERVISOR, "").partition(":")

    def watch() -> None:
        while os.getppid() == parent and (not pid or alive(int(pid), int(began) or None)):
            time.sleep(WATCH_SECONDS)
        os._exit(UNFINISHED)

    threading.Thread(target=watch, name="parent", daemon=True).start()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
