"""What happens in a job's folder, line by line as it comes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from planner.jobs.folder import JobFolder

POLL_SECONDS = 0.2


@contextmanager
def followed(folder: JobFolder[Any, Any], hear: Callable[[list[str]], None]) -> Iterator[None]:
    """Hand on the lines of progress that are new, again and again, until the block ends."""
    over, path = threading.Event(), folder.path / "progress.jsonl"
    start = path.stat().st_size if path.exists() else 0
    teller = threading.Thread(target=_tell, args=(path, start, hear, over), daemon=True)
    teller.start()
    try:
        yield
    finally:
        over.set()
        teller.join()


def _tell(path: Path, read: int, hear: Callable[[list[str]], None], over: threading.Event) -> None:
    last = False
    while not last:
        last = over.wait(POLL_SECONDS)
        whole = b""
        with suppress(OSError), open(path, "rb") as file:
            file.seek(read)
            whole, end, _ = file.read().rpartition(b"\n")
            read += len(whole + end)
        hear(whole.decode("utf-8", "replace").splitlines())
