"""What travels to a cluster's node: the planner without its pages, and the pins of a trial.

The pins are those of ``requirements/trial.txt``, which the app installs as well, so a node runs
what this machine would. No Ray, no torch.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
REQUIREMENTS, CONSTRAINTS = "requirements/trial.txt", "requirements/constraints.txt"
LEFT_OUT = shutil.ignore_patterns("__pycache__", "*.pyc", "*.md", "*.css", "ui")
"""The pages, which need Streamlit, and what Python writes."""
PIP = "HEADROOM_RAY_PIP"
"""Environment variable: off where the cluster's nodes have the packages already."""
UNPACKED = "${RAY_RUNTIME_ENV_CREATE_WORKING_DIR}"
"""In a requirement, where Ray has unpacked the working directory on the node."""


def pack(folder: Path) -> None:
    """Put what a trial needs into a folder, and nothing else of this machine.

    Raises:
        OSError: when the disk is full, or a file of the planner is missing.
    """
    shutil.copytree(ROOT / "planner", folder / "planner", ignore=LEFT_OUT)
    shutil.copytree(ROOT / "requirements", folder / "requirements")


def runtime_env(folder: Path) -> dict[str, Any]:
    """Ray's description of where the job's command runs.

    Args:
        folder: as :func:`pack` left it.

    Raises:
        ValueError: naming the setting, when it is neither on nor off.
    """
    found: dict[str, Any] = {"working_dir": str(folder)}
    said = os.environ.get(PIP, "").strip().lower() or "on"
    if said not in ("on", "off"):
        raise ValueError(f"{PIP}: it is {said[:40]!r}; set it to on or off.")
    if said == "on":
        # Direct pins stand in the list itself, since Ray keeps an installation under its hash.
        found["pip"] = [*pins(), f"-c {UNPACKED}/{CONSTRAINTS}"]
    return found


def pins() -> list[str]:
    """The packages of a trial as pip wants them, ``name==version``."""
    lines = (line.strip() for line in (ROOT / REQUIREMENTS).read_text("utf-8").splitlines())
    return [line for line in lines if line and not line.startswith(("#", "-"))]
