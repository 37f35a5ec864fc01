"""A trial for somebody who follows it elsewhere: what happens as lines of JSON. No torch.

``planner trial --stream ID REQUEST`` is how a cluster's node runs one. Progress comes as it is
written, a result's fields so far as a line named ``known``, and last the result. Nothing stays on
the node: its folder, its queue of devices and its owner are temporary.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from planner.jobs.following import followed
from planner.jobs.storage import IDENTIFIER
from planner.trial.ask.folders import TrialFolder
from planner.trial.ask.request import TrialRequest


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
    known = "{}"

    def tell(lines: list[str]) -> None:
        nonlocal known
        found = json.dumps(folder.known())
        more = [] if found in (known, "{}") else [f'{{"name": "known", "known": {found}}}']
        known = found
        out.write("".join(line + "\n" for line in (*lines, *more)))
        out.flush()

    with followed(folder, tell):
        yield
