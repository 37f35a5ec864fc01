"""JSON objects kept on disk, a file each; losing one costs seconds, so failures are silent."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

KEPT = 400
"""Objects kept in a folder; the oldest go first."""


def folder(name: str) -> Path:
    """A folder of ``HEADROOM_CACHE`` or, without it, of the user's cache."""
    base = os.environ.get("HEADROOM_CACHE")
    if base:
        return Path(base) / name
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(cache) / "headroom" / name


def load(place: Path, key: str) -> dict[str, Any] | None:
    """The object stored under a key; None when there is none, or it cannot be read."""
    try:
        found = json.loads((place / f"{key}.json").read_text("utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def save(place: Path, key: str, found: Mapping[str, Any]) -> None:
    """Keep an object, whole or not at all."""
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
