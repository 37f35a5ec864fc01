"""Job folders: in the user's data directory, named by their start time."""

from __future__ import annotations

import os
import re
import secrets
import tempfile
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

IDENTIFIER = re.compile(r"[a-z0-9][a-z0-9\-]{5,63}")


def data_folder() -> Path:
    """Where the user's data is: ``HEADROOM_DATA``, or the system's usual place."""
    given = os.environ.get("HEADROOM_DATA")
    if given:
        return Path(given)
    base = os.environ.get("XDG_DATA_HOME") or str(Path.home() / ".local" / "share")
    return Path(base) / "headroom"


def new_identifier() -> str:
    """A name for a job: when, and six characters against coincidence."""
    return f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(3)}"


def named(base: Path, suffix: str = "") -> list[Path]:
    """What in a folder has the name of a job, newest first."""
    try:
        names = sorted(os.listdir(base), reverse=True)
    except OSError:
        return []
    pattern = re.compile(IDENTIFIER.pattern + re.escape(suffix))
    return [base / name for name in names if pattern.fullmatch(name)]


def write_whole(path: Path, text: str, place: Callable[[str, Path], None] = os.replace) -> None:
    """Write a file atomically.

    Args:
        path: the file.
        text: all of it.
        place: brings the finished file there; ``os.link`` refuses where there is one already.

    Raises:
        OSError: when nothing can be written there.
    """
    handle, name = tempfile.mkstemp(dir=path.parent, suffix=".part")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        place(name, path)
    finally:
        with suppress(OSError):
            os.unlink(name)
