"""A trial for somebody who follows it elsewhere: what happens as lines of JSON. No torch.

``planner trial --stream ID`` is how a cluster's node runs one. Progress comes as it is written,
a result's fields so far as a line named ``known``, and last the result. Nothing stays on the
node: its folder, its queue of devices and its owner are temporary.
"""

from __future__ import annotations

import json
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from planner.jobs.storage import IDENTIFIER
from planner.trial.ask.folders import TrialFolder
from planner.trial.ask.request import TrialRequest

POLL_SECONDS = 0.2


@contextmanager
def temporary_folder(request: TrialRequest, identifier: str) -> Iterator[TrialFolder]:
    """A trial's folder under its name, with the request in it, that does not stay.

    Raises:
        ValueError: when the name is none of a trial.
    """
    if not IDENTIFIER.fullmatch(identifier):
        raise ValueError(f"stream: {identifier[:80]!r} is no trial's name.")
    with tempfile.TemporaryDirectory(prefix="headroom-") as place:
        folder = TrialFolder(Path(place) / "trials" / identifier)
        folder.path.mkdir(parents=True)
        (folder.path / "request.json").write_text(request.model_dump_json(), "utf-8")
        yield folder


def root_of(folder: TrialFolder) -> Path:
    """Where a temporary folder's queues are."""
    return folder.path.parent.parent


@contextmanager
def streamed(folder: TrialFolder, out: TextIO) -> Iterator[None]:
    """Write what happens in a trial's folder, until the block ends."""
    over = threading.Event()
    teller = threading.Thread(target=_tell, args=(folder, out, over), name="stream", daemon=True)
    teller.start()
    try:
        yield
    finally:
        over.set()
        teller.join()


def _tell(folder: TrialFolder, out: TextIO, over: threading.Event) -> None:
    read, known = 0, ""
    last = False
    while not last:
        last = over.wait(POLL_SECONDS)
        lines, read = _new_lines(folder.path / "progress.jsonl", read)
        found = json.dumps(folder.known())
        if found not in (known, "{}"):
            known = found
            lines.append(f'{{"name": "known", "known": {found}}}')
        for line in lines:
            out.write(line + "\n")
        out.flush()


def _new_lines(path: Path, read: int) -> tuple[list[str], int]:
    """Whole lines after a place in a file, and the place behind them."""
    try:
        with open(path, "rb") as file:
            file.seek(read)
            whole, _, _ = file.read().rpartition(b"\n")
    except OSError:
        return [], read
    if not whole:
        return [], read
    return whole.decode("utf-8", "replace").split("\n"), read + len(whole) + 1
