"""Trials as a file that another Headroom reads: JSON, or CSV for a spreadsheet.

A CSV's columns are for a person; its last one, ``result``, holds the whole trial and is all that an
import reads. A file from elsewhere is hostile: it is limited in size, every trial passes the strict
reader of results, and where one is refused none is stored.
"""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from planner.catalog.safe_json import read_object
from planner.trial.ask.footprints import LEVELS, FootprintFigures
from planner.trial.ask.result import MAX_BYTES, TrialResult, read_result, result_json
from planner.trial.history.errors import HistoryError
from planner.trial.history.schema import summary_of
from planner.trial.history.store import Added, Filter, History

MAX_FILE_BYTES = 128 * 2**20
MAX_TRIALS = 10_000
QUANTITIES = (*LEVELS, "seconds")
COLUMNS = (
    *("id", "created", "status", "method", "model", "device_kind", "device", "gpu"),
    *("torch_version", "transformers_version", "censored", "extrapolated", "steps"),
    *(f"{side}_{name}" for name in QUANTITIES for side in ("predicted", "measured")),
    *("plan", "result"),
)
FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""What a spreadsheet would take for the beginning of a formula."""


def export(history: History, path: Path, filter: Filter | None = None) -> int:
    """Write the trials that are meant, newest first; the file is there whole or not at all.

    Args:
        history: where they are.
        path: its suffix chooses, ``.json`` or ``.csv``; a file of that name is replaced.
        filter: which; all by default.

    Returns:
        How many were written.

    Raises:
        HistoryError: for another suffix, or a file that would be too large to be read again.
        OSError: when it cannot be written.
    """
    write = {".json": _write_json, ".csv": _write_csv}.get(path.suffix.lower())
    if write is None:
        raise HistoryError(f"export: {path.name!r} ends neither in .json nor in .csv.")
    fresh = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with open(fresh, "w", encoding="utf-8", newline="") as file:
            count = write(file, history.results(filter))
        if fresh.stat().st_size > MAX_FILE_BYTES or count > MAX_TRIALS:
            raise HistoryError(
                f"export: {count} trials are more than an import reads ({MAX_TRIALS:,} trials, "
                f"{MAX_FILE_BYTES // 2**20} MiB). Choose fewer trials, by method or device."
            )
        fresh.replace(path)
    except BaseException:
        fresh.unlink(missing_ok=True)
        raise
    return count


def import_file(history: History, path: Path) -> Added:
    """Store every trial of a file that is not there yet.

    Args:
        history: where to.
        path: an export in JSON or CSV, or one result as ``planner trial --out`` writes it.

    Raises:
        HistoryError: one sentence that names the trial and the field; nothing is stored then.
        OSError: when it cannot be read.
    """
    with open(path, "rb") as file:
        content = file.read(MAX_FILE_BYTES + 1)
    if len(content) > MAX_FILE_BYTES:
        raise HistoryError(f"import: the file is larger than {MAX_FILE_BYTES // 2**20} MiB.")
    return history.add(*read_trials(content))


def read_trials(content: bytes) -> list[TrialResult]:
    """The trials of an export, or the one of a result's own file.

    Raises:
        HistoryError: one sentence that names the trial and the field.
    """
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise HistoryError("import: the file is no text in UTF-8.") from None
    texts = list(_in_json(text) if text.lstrip()[:1] in ("{", "[") else _in_csv(text))
    if not texts:
        raise HistoryError("import: the file holds no trial.")
    found = []
    for number, one in enumerate(texts, 1):
        try:
            found.append(read_result(one))
        except (ValueError, RecursionError) as error:
            raise HistoryError(
                f"import: trial {number} of {len(texts)}: {error} Nothing was stored."
            ) from None
    return found


def _write_json(file: Any, results: Iterable[TrialResult]) -> int:
    file.write('{"v":1,"source":"trials","trials":[')
    count = 0
    for count, result in enumerate(results, 1):  # noqa: B007
        file.write(("\n" if count == 1 else ",\n") + result_json(result))
    file.write("\n]}\n")
    return count


def _write_csv(file: Any, results: Iterable[TrialResult]) -> int:
    lines = csv.DictWriter(file, COLUMNS, extrasaction="ignore")
    lines.writeheader()
    count = 0
    for count, result in enumerate(results, 1):  # noqa: B007
        lines.writerow({name: _cell(value) for name, value in _line(result).items()})
    return count


def _line(result: TrialResult) -> dict[str, Any]:
    sides = {"predicted": result.predicted, "measured": result.measured}
    return {
        **summary_of(result),
        "device": result.device.name,
        "extrapolated": result.extrapolated,
        "steps": result.steps,
        **{
            f"{side}_{name}": most(figures, name)
            for name in QUANTITIES
            for side, figures in sides.items()
        },
        "plan": result.plan,
        "result": result_json(result),
    }


def most(figures: FootprintFigures | None, name: str) -> float | None:
    """A total of a whole step: the highest phase's bytes, or the step's seconds."""
    if figures is None:
        return None
    if name == "seconds":
        return figures.seconds
    known = [getattr(phase, name) for phase in figures.phases if phase.rank == "trainer"]
    return max((value for value in known if value is not None), default=None)


def _cell(value: Any) -> Any:
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULA) else value


def _in_json(text: str) -> Iterator[str]:
    try:
        data = read_object(text, "import", "file of trials", most_bytes=MAX_FILE_BYTES)
    except ValueError as error:
        raise HistoryError(str(error)) from None
    if data.get("source") == "trials":
        if data.get("v") != 1 or data.keys() != {"v", "source", "trials"}:
            raise HistoryError("import: v: the file is no export of version 1.")
        rows = data["trials"]
        if not isinstance(rows, list) or len(rows) > MAX_TRIALS:
            raise HistoryError(f"import: trials: it is no list of at most {MAX_TRIALS:,} trials.")
        yield from map(json.dumps, rows)
    else:
        yield text


def _in_csv(text: str) -> Iterator[str]:
    before = csv.field_size_limit(MAX_BYTES)
    try:
        lines = csv.DictReader(io.StringIO(text, newline=""), strict=True)
        if "result" not in (lines.fieldnames or ()):
            raise HistoryError("import: the file has no column named result.")
        for number, line in enumerate(lines, 1):
            if number > MAX_TRIALS:
                raise HistoryError(f"import: the file holds more than {MAX_TRIALS:,} trials.")
            yield line["result"] or ""
    except csv.Error as error:
        raise HistoryError(f"import: the file cannot be read as CSV: {error}.") from None
    finally:
        csv.field_size_limit(before)
