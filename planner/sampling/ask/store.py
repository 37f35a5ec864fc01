"""Runs of density-aware sampling: a folder each in ``HEADROOM_DATA/sampling``. No torch.

``request.json`` says what was asked, ``setup.json`` what it was asked of, ``progress.jsonl`` what
happens, ``result.json`` the end; beside them are the chunks of embeddings and neighbours, which a
run that goes on reads in place of computing, and the weights. The data folder is also where a page
finds prompts and models: ``prompts/`` and ``models/``.
"""

from __future__ import annotations

import json
import os
import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from planner.dryrun.ask.own_code import installed
from planner.jobs.folder import JobFolder
from planner.jobs.storage import data_folder
from planner.jobs.strict import shown
from planner.sampling.ask.request import SamplingRequest
from planner.sampling.ask.result import SamplingResult, StageFigures, Status, read_result
from planner.sampling.ask.setup import predicted
from planner.sampling.ask.source import checked

WEIGHTS = "weights.parquet"
STAGES_FILE = "stages.jsonl"
"""Figures of every stage, those of earlier tries included."""
FILE = re.compile(r"[\w][\w.\- ]{0,120}\.jsonl", re.ASCII)
FOLDER = re.compile(r"[\w][\w.\-]{0,120}", re.ASCII)


@dataclass(frozen=True, slots=True)
class SamplingFolder(JobFolder[SamplingRequest, SamplingResult]):
    """One run's files."""

    def request(self) -> SamplingRequest:
        """What it was asked."""
        return SamplingRequest.model_validate_json((self.path / "request.json").read_bytes())

    def result(self) -> SamplingResult | None:
        """How it ended; None while it goes on."""
        return self.found(read_result)

    def ended(self, status: Any, reason: str, seconds: float) -> SamplingResult:
        """Finish a run in its process's place, with what its stages have left."""
        return self.settled(result_of(self, status, reason, seconds))


def result_of(
    folder: SamplingFolder, status: Status, reason: str, seconds: float
) -> SamplingResult:
    """A run's result from what its stages have left."""
    text = (folder.path / "found.json").read_text("utf-8") if status == "completed" else "{}"
    stages = _stages(folder.path)
    peaks = [stage.host_peak_bytes for stage in stages if stage.host_peak_bytes is not None]
    expected = [one.predicted_peak_bytes for one in stages if one.predicted_peak_bytes is not None]
    whole = {
        "id": folder.identifier,
        "status": status,
        "reason": shown(reason, 2000),
        "request": folder.request().model_dump(),
        "seconds": max(seconds, 0.0),
        "stages": [stage.model_dump() for stage in stages],
        "measured_peak_bytes": max(peaks, default=None),
        "predicted_peak_bytes": max(expected, default=None),
        "versions": _versions(),
        "stderr_tail": "" if status == "completed" else folder.stderr_tail(),
        **json.loads(text),
    }
    return SamplingResult.model_validate_json(json.dumps(whole))


def _stages(folder: Path) -> list[StageFigures]:
    """Every stage that ended, a line a name; of one that was gone on with, the sum of its tries."""
    estimated = predicted(folder)
    expected = {} if estimated is None else {each.name: each for each in estimated.stages}
    found: dict[str, StageFigures] = {}
    try:
        lines = (folder / STAGES_FILE).read_text("utf-8").splitlines()
    except OSError:
        return []
    for line in lines:
        values = json.loads(line)
        name = values.pop("stage")
        values.pop("at", None)
        if name in expected:
            values["predicted_peak_bytes"] = expected[name].host_bytes
            duration = expected[name].duration
            if duration is not None and not duration.assumed:
                values["predicted_seconds"] = float(duration.seconds)
        one = StageFigures(name=name, **values)
        earlier = found.get(name)
        if earlier is not None:
            peaks = [p for p in (earlier.host_peak_bytes, one.host_peak_bytes) if p is not None]
            one = one.model_copy(
                update={
                    "seconds": earlier.seconds + one.seconds,
                    "host_peak_bytes": max(peaks, default=None),
                }
            )
        found[name] = one
    return list(found.values())


def _versions() -> dict[str, str]:
    """Of the libraries that compute, as they are installed."""
    names = ("torch", "transformers", "scikit-learn", "faiss-cpu", "pyarrow", "numpy")
    return {name: found for name in names if (found := installed(name))}


def offered_prompts(root: Path | None = None) -> list[str]:
    """Names of the files of prompts in the data folder, which its owner put there."""
    return _names((root or data_folder()) / "prompts", FILE, Path.is_file)


def offered_models(root: Path | None = None) -> list[str]:
    """Names of the models in the data folder that can embed prompts."""
    base = (root or data_folder()) / "models"
    found = []
    for name in _names(base, FOLDER, Path.is_dir):
        with suppress(ValueError):
            checked(base / name)
            found.append(name)
    return found


def _names(base: Path, pattern: re.Pattern[str], kind: object) -> list[str]:
    try:
        names = sorted(os.listdir(base))
    except OSError:
        return []
    return [name for name in names if pattern.fullmatch(name) and kind(base / name)]  # type: ignore[operator]


def prompts_file(name: str, root: Path | None = None) -> str:
    """The path of a file of prompts in the data folder.

    Raises:
        ValueError: for any other.
    """
    if name not in offered_prompts(root):
        raise ValueError("prompts: no file of this name in the data folder's prompts.")
    return str((root or data_folder()) / "prompts" / name)


def model_folder(name: str, root: Path | None = None) -> str:
    """The path of a model in the data folder.

    Raises:
        ValueError: for any other.
    """
    if name not in offered_models(root):
        raise ValueError("model: no model of this name in the data folder's models.")
    return str((root or data_folder()) / "models" / name)
