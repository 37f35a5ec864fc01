"""The samplers for trainers, as files that stand alone: the very ones that the tests run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from planner.plan.frameworks import framework_named

_FOLDER = Path(__file__).resolve().parents[1] / "run"
_PREFIX = "on_"


@dataclass(frozen=True, slots=True)
class Sampler:
    """One trainer's: a Python file without an import of ours."""

    framework: str
    label: str
    file_name: str
    text: str


def samplers() -> tuple[Sampler, ...]:
    """One for each trainer that has a file here, which is named after it."""
    found = []
    for path in sorted(_FOLDER.glob(f"{_PREFIX}*.py")):
        name = path.stem.removeprefix(_PREFIX)
        label = framework_named(name).label
        found.append(Sampler(name, label, path.name, path.read_text("utf-8")))
    return tuple(found)
