"""What a run was asked of, found out once before anything is computed. No torch.

A run that goes on compares it with what is there now: chunks of another model, or of another
file, are not gone on with.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from planner.jobs.folder import JobFolder
from planner.jobs.storage import write_whole
from planner.jobs.strict import Count, Line, Strict
from planner.sampling.ask.prompts import scan
from planner.sampling.ask.request import SamplingRequest
from planner.sampling.ask.source import source_of
from planner.sampling.estimate import SamplingEstimate, estimate
from planner.sampling.measured import Measured

SETUP, OFFSETS = "setup.json", "offsets"
NAMES = {
    "prompts_sha256": "the file of prompts",
    "identity": "the model",
    "width": "the width of an embedding",
    "prompts": "the number of prompts",
}


class Setup(Strict):
    """Prompts and model as they were when the run began."""

    prompts: Count
    prompts_sha256: Line
    chats: bool
    width: Count
    model_folder: str
    model: Line
    identity: Line
    cores: Count


def prepared(request: SamplingRequest, folder: Path) -> Setup:
    """Check prompts and model, and leave what the workers need in the run's folder.

    Raises:
        ValueError: a sentence that names what is wrong, or what has changed since the run began.
    """
    source = source_of(request.model, request.revision)
    width = source.width(request.embedding)
    file = scan(Path(request.prompts))
    setup = Setup(
        prompts=len(file),
        prompts_sha256=file.sha256,
        chats=file.chats,
        width=width,
        model_folder=str(source.folder),
        model=source.name[:500],
        identity=source.identity,
        cores=len(os.sched_getaffinity(0)),
    )
    request.planned(setup.prompts, width, setup.cores)
    try:
        before = Setup.model_validate_json((folder / SETUP).read_bytes())
    except FileNotFoundError:
        with open(folder / OFFSETS, "wb") as out:
            file.offsets.tofile(out)
        write_whole(folder / SETUP, setup.model_dump_json())
        return setup
    changed = [name for key, name in NAMES.items() if getattr(before, key) != getattr(setup, key)]
    if changed:
        raise ValueError(
            f"resume: {' and '.join(changed)} changed since this run began; start a new one."
        )
    return setup


RATES = "rates.json"


def say_predicted(folder: JobFolder[Any, Any]) -> None:
    """Say what the run is expected to take, as far as its folder tells."""
    found = predicted(folder.path)
    if found is not None:
        folder.say(
            "predicted",
            host_bytes=found.host_bytes,
            worst=found.worst.name,
            seconds={
                each.name: round(each.seconds, 3)
                for each in found.stages
                if each.seconds is not None and each.duration and not each.duration.assumed
            },
        )


def predicted(folder: Path) -> SamplingEstimate | None:
    """The estimate of a run, as far as its folder tells; None before it is prepared."""
    try:
        request = SamplingRequest.model_validate_json((folder / "request.json").read_bytes())
        setup = Setup.model_validate_json((folder / SETUP).read_bytes())
    except (OSError, ValueError):
        return None
    try:
        rates = json.loads((folder / RATES).read_text("utf-8"))
    except (OSError, ValueError):
        rates = {}
    return estimate(request.planned(setup.prompts, setup.width, setup.cores), Measured(**rates))
