"""Answers of dry runs on disk, by key; losing one costs a second, so failures are silent."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

KEPT = 400
"""Answers kept; the oldest go first."""


def folder_of(given: Path | None) -> Path:
    """Where answers are kept: as given, ``HEADROOM_CACHE``, or the user's cache."""
    if given is not None:
        return given
    base = os.environ.get("HEADROOM_CACHE")
    if base:
        return Path(base) / "dry-runs"
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(cache) / "headroom" / "dry-runs"


def load(key: str, folder: Path | None = None) -> dict[str, Any] | None:
    """The answer stored under a key; None when there is none, or it cannot be read."""
    try:
        found = json.loads((folder_of(folder) / f"{key}.json").read_text("utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) and "phases" in found else None


def save(key: str, found: dict[str, Any], folder: Path | None = None) -> None:
    """Keep an answer, whole or not at all."""
    place = folder_of(folder)
    try:
        place.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=place, suffix=".part")
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(found, file)
        os.replace(name, place / f"{key}.json")
        stored = sorted(place.glob("*.json"), key=lambda path: path.stat().st_mtime)
        for path in stored[:-KEPT]:
            path.unlink(missing_ok=True)
    except OSError:
        return
