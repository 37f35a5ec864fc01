"""``scripts/measure``: every measuring command of a card in turn, and on where it was stopped."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def stand_in(tmp_path: Path) -> Path:
    """In place of Python: notes its arguments, writes what ``--out`` names, or fails."""
    path = tmp_path / "python"
    path.write_text(
        "#!/usr/bin/env bash\n"
        f'echo "$*" >>{tmp_path}/said\n'
        'case "$*" in *"$FAILS"*) exit 3 ;; esac\n'
        'while [ "$1" != --out ]; do shift; done\n'
        'touch "$2"\n'
    )
    path.chmod(0o755)
    return path


def measure(
    stand_in: Path, *words: str, fails: str = "nothing"
) -> subprocess.CompletedProcess[str]:
    found = {"PYTHON": str(stand_in), "FAILS": fails}
    return subprocess.run(
        [ROOT / "scripts" / "measure", *words],
        cwd=ROOT,
        env={**os.environ, **found},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )


def said(tmp_path: Path) -> list[str]:
    lines = (tmp_path / "said").read_text().splitlines()
    return [line.removeprefix("-m ").partition(" --")[0] for line in lines]


def test_everything_is_measured_in_turn(stand_in: Path, tmp_path: Path) -> None:
    done = measure(stand_in, "h200-141gb", str(tmp_path / "out"))
    assert done.returncode == 0, done.stderr
    parts = ("kernel_runs", "gpu", "trials", "programs")
    assert said(tmp_path) == ["planner benchmark", *(f"accuracy.{part}" for part in parts)]
    assert {file.name for file in (tmp_path / "out").iterdir()} == {
        "h200-141gb.json",
        *(f"{kind}-h200-141gb.json" for kind in ("kernels", "gpu", "trials", "programs")),
    }
    lines = (tmp_path / "said").read_text().splitlines()
    assert all("--gpu h200-141gb" in line for line in lines[1:])
    assert all("--resume" in line for line in lines[2:4])


def test_it_goes_on_where_it_was_stopped(stand_in: Path, tmp_path: Path) -> None:
    failed = measure(stand_in, "h200-141gb", str(tmp_path / "out"), fails="accuracy.trials")
    assert failed.returncode == 1 and "Trials: ended with status 3" in failed.stderr
    assert measure(stand_in, "h200-141gb", str(tmp_path / "out")).returncode == 0
    assert said(tmp_path).count("planner benchmark") == 1


def test_it_stops_when_its_time_is_up(stand_in: Path, tmp_path: Path) -> None:
    late = measure(stand_in, "h200-141gb", str(tmp_path / "out"), "0")
    assert late.returncode == 1 and "no time is left" in late.stderr


def test_it_asks_for_what_is_missing(stand_in: Path) -> None:
    asked = measure(stand_in, "h200-141gb")
    assert asked.returncode == 1 and "name the card and a folder" in asked.stderr
