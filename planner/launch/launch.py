"""What an export is: files that start a run, or the fields that stand in the way.

Imports nothing of ours; :mod:`planner.launch.export` is the way in.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass

ONLINE = "online"
"""Density weights that a run computes itself as it starts; any other is a sampling run's folder."""

EACH_NODE, RAY = "each node", "ray"
"""What runs on several nodes: ``launch.sh`` on each; or on one, from which Ray reaches them all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchFile:
    """One text file of an export, such as ``launch.sh``."""

    name: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """A complete export for one framework, in the version it was checked against.

    ``install`` is one shell line with exact versions. ``notes`` are sentences for a
    person: what the framework decides by itself, and what the plan leaves open. They
    stand in the script's comments too. ``says`` is where a run tells its memory, and
    ``start`` the command that starts it.
    """

    framework: str
    version: str
    files: tuple[LaunchFile, ...]
    install: str
    notes: tuple[str, ...]
    across: str = EACH_NODE
    says: str = "The driver sees each process: `nvidia-smi --query-gpu=memory.used --format=csv`."
    start: str = ""

    def text(self, name: str) -> str:
        """Text of the file with this name.

        Raises:
            KeyError: no file has it.
        """
        for file in self.files:
            if file.name == name:
                return file.text
        raise KeyError(f"{name}: this export has {', '.join(f.name for f in self.files)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Obstacle:
    """A field whose value the framework cannot be made to do: why, and what to set.

    ``changes`` are field and value pairs that remove the obstacle (more than one when
    fields depend on each other); empty when no change of the plan's fields would.
    """

    field: str
    why: str
    fix: str
    changes: tuple[tuple[str, object], ...] = ()

    @property
    def sentence(self) -> str:
        """Field, reason and fix as one line."""
        return f"{self.field}: {self.why} {self.fix}"


class CannotExpress(ValueError):
    """A plan that this framework cannot run as planned; carries every obstacle."""

    def __init__(self, framework: str, obstacles: tuple[Obstacle, ...]) -> None:
        super().__init__(" ".join(obstacle.sentence for obstacle in obstacles))
        self.framework = framework
        self.obstacles = obstacles

    @property
    def fields(self) -> tuple[str, ...]:
        """Names of the fields in the way, each once."""
        return tuple(dict.fromkeys(obstacle.field for obstacle in self.obstacles))

    @property
    def changes(self) -> Mapping[str, object]:
        """Every change the obstacles propose; apply them to get nearer to an export."""
        return {field: value for obstacle in self.obstacles for field, value in obstacle.changes}


def as_zip(launch: Launch) -> bytes:
    """The files as a zip archive; the same export gives the same bytes.

    Shell scripts are executable when unpacked on Unix.
    """
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for file in sorted(launch.files, key=lambda file: file.name):
            # A fixed date: zip stores one, and the archive must not depend on the clock.
            entry = zipfile.ZipInfo(file.name, date_time=(1980, 1, 1, 0, 0, 0))
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.create_system = 3  # Unix, else the permission bits are ignored
            entry.external_attr = (0o755 if file.name.endswith(".sh") else 0o644) << 16
            archive.writestr(entry, file.text.encode())
    return buffer.getvalue()
