"""Answers of dry runs on disk, by key."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from planner import disk_cache

FOLDER = "dry-runs"


def load(key: str, folder: Path | None = None) -> dict[str, Any] | None:
    """The answer stored under a key; None when there is none, or it cannot be read."""
    found = disk_cache.load(folder or disk_cache.folder(FOLDER), key)
    return found if found and "phases" in found else None


def save(key: str, found: dict[str, Any], folder: Path | None = None) -> None:
    """Keep an answer in a folder; by default in the user's cache."""
    disk_cache.save(folder or disk_cache.folder(FOLDER), key, found)
