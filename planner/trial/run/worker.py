"""The process that runs one trial: ``python -m planner.trial.run.worker FOLDER``. Imports torch.

Started by the supervisor, or as several processes by torchrun. It writes progress and a result to
the folder, and ends when whoever started it does.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
import traceback
from pathlib import Path
from typing import Any

from pydantic_core import to_jsonable_python

from planner.imports import kept_for_good
from planner.jobs.strict import shown
from planner.jobs.supervisor import UNFINISHED, end_with_parent
from planner.trial.ask.folders import TrialFolder
from planner.trial.ask.result import TrialResult


def main(arguments: list[str]) -> int:
    """Run the trial of a folder."""
    end_with_parent()
    folder = TrialFolder(Path(arguments[0]))
    result = run(folder)
    several = int(os.environ.get("WORLD_SIZE", "1")) > 1
    return UNFINISHED if several and result.status != "completed" else 0


def run(folder: TrialFolder) -> TrialResult:
    """Run a folder's request in this process and write its result to the folder.

    Of several processes the first speaks; any that ends early says how.
    """
    start, request = time.perf_counter(), folder.request()
    if request.snapshot:  # a name alone is a file in the trial's folder; a whole path stays
        place = str(folder.path / request.snapshot)
        request = request.model_copy(update={"snapshot": place})
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
        return folder.ended("failed", sentence, spent)
    if first or result.status != "completed":
        folder.say("done", status=result.status)
        if result.status == "failed":
            result = result.model_copy(update={"stderr_tail": folder.stderr_tail()})
        return folder.settled(result)
    return result


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
