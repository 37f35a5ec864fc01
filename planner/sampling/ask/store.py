"""Runs of density-aware sampling: a folder each in ``HEADROOM_DATA/sampling``. No torch.

``request.json`` says what was asked, ``setup.json`` what it was asked of, ``progress.jsonl`` what
happens, ``result.json`` the end; beside them are the chunks of embeddings and neighbours, which a
run that goes on reads in place of computing, and the weights. The data folder is also where a page
finds prompts and models: ``prompts/`` and ``models/``.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path

from planner.jobs.folder import JobFolder
from planner.jobs.processes import Jobs
from planner.jobs.storage import data_folder, write_whole
from planner.sampling.ask.request import SamplingRequest
from planner.sampling.ask.result import SamplingResult, read_result
from planner.sampling.ask.source import checked

WEIGHTS = "weights.parquet"
LARGEST_RESULT_BYTES = 4 * 2**20
FILE = re.compile(r"[\w][\w.\- ]{0,120}\.jsonl", re.ASCII)
FOLDER = re.compile(r"[\w][\w.\-]{0,120}", re.ASCII)

RUNS = Jobs("sampling", JobFolder)
runs_folder, runs, new_run = RUNS.place, RUNS.all, RUNS.new


def asked(folder: JobFolder) -> SamplingRequest:
    """What a run was asked.

    Raises:
        ValueError: when the file is damaged.
        OSError: when it is not there.
    """
    return SamplingRequest.model_validate_json((folder.path / "request.json").read_bytes())


def ended(folder: JobFolder) -> SamplingResult | None:
    """How a run ended; None while it goes on.

    Raises:
        ValueError: when the file is damaged.
    """
    try:
        if folder.result_file.stat().st_size > LARGEST_RESULT_BYTES:
            raise ValueError("result.json is too large for one of ours")
        return read_result(folder.result_file.read_bytes())
    except FileNotFoundError:
        return None


def settle(folder: JobFolder, result: SamplingResult) -> SamplingResult:
    """Write how a run ended, once: whoever is first decides."""
    try:
        write_whole(folder.result_file, result.model_dump_json(indent=1), place=os.link)
    except FileExistsError:
        return ended(folder) or result
    return result


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
