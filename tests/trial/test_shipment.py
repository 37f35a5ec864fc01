"""What travels to a node: enough for the command to run alone, and nothing else of this machine."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from planner.trial.ask.process import TRIALS
from planner.trial.ask.request import request_of
from planner.trial.cluster import shipment
from planner.trial.cluster.dispatch import job_command
from trial.running import ROOT, environment, result_of, tiny

PLAN = tiny("sft", "llama")
ABSENT = """
from importlib.machinery import PathFinder
found = PathFinder.find_spec
absent = {%s}
def find_spec(name, path=None, target=None):
    return None if name.partition(".")[0] in absent else found(name, path, target)
PathFinder.find_spec = staticmethod(find_spec)
"""
"""A ``sitecustomize`` under which some packages are not installed."""


@pytest.fixture
def packed(tmp_path: Path) -> Path:
    place = tmp_path / "node"
    shipment.pack(place)
    return place


def names_in(file: str) -> set[str]:
    """Packages that a requirements file names itself."""
    lines = (ROOT / file).read_text("utf-8").splitlines()
    return {re.split(r"[\[=]", line)[0] for line in lines if re.match(r"\w", line)}


def test_only_the_planner_and_its_pins_travel(packed: Path) -> None:
    assert {path.name for path in packed.iterdir()} == {"planner", "requirements"}
    assert {shipment.REQUIREMENTS, shipment.CONSTRAINTS} <= {
        str(path.relative_to(packed)) for path in (packed / "requirements").iterdir()
    }
    files = [path for path in packed.rglob("*") if path.is_file()]
    licences = {path.name for path in files if not path.suffix}
    assert licences == {"LICENSE"}
    assert {path.suffix for path in files} <= {".py", ".json", ".jsonl", ".txt", ".npz", ""}
    assert not (packed / "planner" / "ui").exists()
    assert sum(path.stat().st_size for path in files) < 6 * 2**20


def test_what_travels_runs_with_a_trials_packages_alone(packed: Path, tmp_path: Path) -> None:
    request = request_of(PLAN, ray="http://head:8265", steps=1)
    folder = TRIALS.new(request, tmp_path / "here")
    # All that the app needs beyond a trial, except what transformers itself brings.
    apps = names_in("requirements.txt") - {"httpx2", "huggingface_hub", "PyYAML"}
    assert "streamlit" in apps
    absent = {*apps, "ray", "sqlalchemy"}
    named = ", ".join(repr(name.replace("-", "_")) for name in sorted(absent))
    (tmp_path / "sitecustomize.py").write_text(ABSENT % named, "utf-8")
    python, *words = shlex.split(job_command(request, folder))
    assert python == "python"
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    done = subprocess.run(
        [sys.executable, *words],
        cwd=packed,
        env={
            **environment(tmp_path / "there"),
            "PYTHONPATH": str(tmp_path),
            "TMPDIR": str(temporary),
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    result = result_of(done)
    assert result.status == "completed", (result.reason, result.stderr_tail)
    assert result.id == folder.identifier and done.returncode == 0
    lines = done.stdout.splitlines()
    assert sum('"name": "measuring"' in line for line in lines) == 1
    assert sum('"name": "known"' in line for line in lines) >= 1
    assert not (tmp_path / "there").exists()  # no history and no folder on the node
    assert not [name for name in os.listdir(temporary) if name.startswith("headroom-")]


def test_pins_stand_once_and_are_exact() -> None:
    pins = shipment.pins()
    assert {"torch", "transformers", "peft", "pydantic"} <= {pin.partition("==")[0] for pin in pins}
    assert all(re.fullmatch(r"[\w\-]+==[\w.]+", pin) for pin in pins)
    assert not names_in("requirements/trial.txt") & names_in("requirements.txt")
    assert "-r requirements/trial.txt" in (ROOT / "requirements.txt").read_text("utf-8")


def test_pip_installs_the_pins_within_the_constraints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ray.runtime_env import RuntimeEnv

    monkeypatch.delenv(shipment.PIP, raising=False)
    found = shipment.runtime_env(tmp_path)
    *pins, constraints = found["pip"]
    assert pins == shipment.pins()
    assert constraints == "-c ${RAY_RUNTIME_ENV_CREATE_WORKING_DIR}/requirements/constraints.txt"
    # Ray's own reading of it: the packages in this order.
    read = RuntimeEnv(pip=found["pip"], working_dir="gcs://x.zip").pip_config()
    assert read["packages"] == found["pip"]


def test_pip_can_be_turned_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(shipment.PIP, "Off")
    assert shipment.runtime_env(tmp_path) == {"working_dir": str(tmp_path)}
    monkeypatch.setenv(shipment.PIP, "no")
    with pytest.raises(ValueError, match="^HEADROOM_RAY_PIP: it is 'no'; set it to on or off"):
        shipment.runtime_env(tmp_path)
