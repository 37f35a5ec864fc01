"""What goes with every export: the same bytes each time, and a preflight that stops a launch."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

from launch.running import COMMON, PATHS, TESTS, unpack
from planner.cli.plan_argument import read_plan
from planner.estimate import estimate
from planner.launch.bundle.places import PLACES, why_not_on
from planner.launch.export import export, exported, fitted
from planner.launch.launch import as_zip
from planner.plan import Plan

GIB = 2**30
FLASH_3: dict[str, Any] = {"attention": "flash_attention_3", "dtype": "bf16"}
PLANS: dict[str, Plan] = {
    "plain": fitted(Plan(method="dpo", model="Qwen/Qwen2.5-0.5B", gpus=1), "plain"),
    "trl": fitted(Plan(framework="trl", gpus=16), "trl"),
    "verl": fitted(Plan(framework="verl", gpus=16, **FLASH_3), "verl"),
    "hf_trainer": fitted(Plan(method="sft", framework="hf_trainer", gpus=16), "hf_trainer"),
}


def test_every_exporter_is_among_the_plans() -> None:
    assert set(PLANS) == set(exported())


@pytest.mark.parametrize("framework", PLANS)
@pytest.mark.parametrize("on", PLACES)
def test_a_bundle_is_the_same_bytes_and_holds_the_common_files(framework: str, on: str) -> None:
    plan = PLANS[framework]
    first = export(plan, framework)
    if why := why_not_on(plan, first, on):
        with pytest.raises(ValueError, match="Launch it by slurm or on the machines"):
            export(plan, framework, on=on)
        assert framework in ("trl", "hf_trainer") and "each of 2" in why
        return
    launch = export(plan, framework, on=on)
    assert as_zip(launch) == as_zip(export(plan, framework, on=on))
    names = [file.name for file in launch.files]
    assert len(names) == len(set(names)) and {*COMMON, "launch.sh"} <= set(names)
    assert {file.name for file in launch.files} - {file.name for file in first.files} == {
        "machines": set(), "slurm": {"job.sbatch"}, "ray": {"submit.sh"}
    }[on]  # fmt: skip
    for file in launch.files:
        if file.name.endswith((".sh", ".sbatch")):
            subprocess.run(["bash", "-n"], input=file.text, text=True, check=True)


@pytest.mark.parametrize("framework", PLANS)
def test_requirements_are_pinned_lines_that_pip_reads(framework: str) -> None:
    launch = export(PLANS[framework], framework)
    lines = launch.text("requirements.txt").splitlines()
    found = {requirement.name: requirement for requirement in map(Requirement, lines)}
    assert all(str(one.specifier).startswith("==") or one.url for one in found.values())
    assert {"torch", "transformers"} <= set(found)
    if framework != "plain":
        package = {"hf_trainer": "transformers"}.get(framework, framework)
        assert str(found[package].specifier) == f"=={launch.version}"
    if framework == "verl":
        assert found["flash-attn-3"].url and found["verl"].extras >= {"vllm"}


@pytest.mark.parametrize("framework", PLANS)
def test_the_plan_that_goes_along_is_the_plan(framework: str, tmp_path: Path) -> None:
    plan = PLANS[framework]
    folder = unpack(export(plan, framework, link="https://x.example/?v=1"), tmp_path)
    assert read_plan(str(folder / "plan.json")).plan == plan
    assert json.loads((folder / "plan.json").read_text())["link"] == "https://x.example/?v=1"
    said = (folder / "expected.md").read_text()
    for phase in estimate(plan).phases:
        (row,) = [line for line in said.splitlines() if line.startswith(f"| {phase.name} |")]
        assert f" {phase.device_bytes / GIB:.1f} |" in row
    assert "https://x.example/?v=1" in said


ROOMY = """
import builtins, io, runpy, sys
own, name = builtins.open, "/proc/meminfo"
text = "MemAvailable: 999999999 kB\\n"
builtins.open = lambda file, *a, **k: io.StringIO(text) if file == name else own(file, *a, **k)
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""
"""Runs a program on a node with host RAM for anything, whatever else this machine does."""


@dataclass(frozen=True, slots=True)
class Node:
    """A machine with stand-ins for its cards, on which a bundle's preflight is run."""

    folder: Path

    def check(self, *free_gib: float, planner: bool = False, **variables: str) -> tuple[int, str]:
        """Exit status and all that was said, on cards with so much free."""
        programs = self.folder / "programs"
        programs.mkdir(exist_ok=True)
        rows = [
            f"{place}, GPU-{place}f, NVIDIA Something 24GB, {int(free * 1024)}"
            for place, free in enumerate(free_gib)
        ]
        smi = programs / "nvidia-smi"
        smi.write_text("#!/bin/bash\ncat <<'ROWS'\n" + "\n".join(rows) + "\nROWS\n")
        smi.chmod(0o755)
        where = {"PYTHONPATH": str(TESTS.parent)} if planner else {}
        done = subprocess.run(
            [sys.executable, "-c", ROOMY, str(self.folder / "preflight.py")],
            env={"PATH": f"{programs}:/usr/bin:/bin", "HOME": os.environ["HOME"], **where}
            | variables,
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=600,
        )
        return done.returncode, done.stdout + done.stderr


SMALL = fitted(
    Plan(method="sft", framework="trl", model="Qwen/Qwen2.5-0.5B", gpus=2, sharding="ddp"), "trl"
)


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(unpack(export(SMALL, "trl"), tmp_path))


def peak_gib() -> float:
    return estimate(SMALL).device_bytes / GIB


def test_a_plan_that_fits_is_let_through_and_one_that_does_not_is_stopped(node: Node) -> None:
    status, said = node.check(peak_gib() + 0.1, peak_gib() + 0.1)
    assert status == 0 and "the plan fits here" in said
    assert "Here: NVIDIA Something 24GB. Planned: H100" in said
    assert "no dry run: Headroom is not installed here" in said
    status, said = node.check(peak_gib() + 0.1, peak_gib() - 1)
    assert status == 1 and f"GPU 1: phase {estimate(SMALL).worst.name} needs" in said
    assert "1.0 GiB are missing" in said and "Nothing was loaded" in said
    status, said = node.check(peak_gib() + 0.1, peak_gib() - 1, ANYWAY="1")
    assert status == 0 and "1.0 GiB are missing" in said and "Going on" in said


def test_cards_that_are_not_there_or_not_ours_do_not_count(node: Node) -> None:
    status, said = node.check(80)
    assert status == 1 and "Of a node's GPUs the plan needs 2, and 1 can be used here." in said
    assert node.check()[0] == 1
    assert node.check(1, 80, 1, 80)[0] == 1
    assert node.check(1, 80, 1, 80, CUDA_VISIBLE_DEVICES="1,3")[0] == 0
    assert node.check(1, 80, 1, 80, CUDA_VISIBLE_DEVICES="GPU-3f,GPU-1f")[0] == 0
    # Numbers of a scheduler that shows this job's cards alone.
    assert node.check(80, 80, CUDA_VISIBLE_DEVICES="4,5")[0] == 0


def test_where_headroom_is_installed_the_step_is_run_dry(node: Node) -> None:
    status, said = node.check(3, 3, planner=True)
    assert status == 1 and "GPU 0: the dry run's phase " in said, said


@pytest.mark.parametrize("framework", PLANS)
def test_launch_sh_stops_before_anything_where_the_preflight_does(
    framework: str, tmp_path: Path
) -> None:
    folder = unpack(export(PLANS[framework], framework), tmp_path)
    (folder / "preflight.py").write_text("raise SystemExit('does not fit')\n")
    programs = folder / "programs"
    programs.mkdir()
    # A cluster of several nodes has to stand before each of them can be checked.
    for name, does in (("accelerate", "touch begun"), ("torchrun", "touch begun"), ("ray", ":")):
        begun = programs / name
        begun.write_text(f"#!/bin/bash\n{does}\n")
        begun.chmod(0o755)
    (programs / "python3").symlink_to(sys.executable)
    done = subprocess.run(
        ["bash", "launch.sh"],
        cwd=folder,
        env={**PATHS, "PATH": f"{programs}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1 and "does not fit" in done.stderr
    assert not (folder / "begun").exists()


def test_an_engines_own_cards_are_not_the_trainers(tmp_path: Path) -> None:
    engine = {"rollout": "vllm-separate", "rollout_gpus": 2, "rollout_tensor_parallel": 2}
    small = {"model": "Qwen/Qwen2.5-0.5B", "gpus": 6, "gpu_memory_utilization": 0.95}
    plan = fitted(Plan(framework="trl", **engine, **small), "trl")
    launch = export(plan, "trl")
    found = estimate(plan).phases
    trainers = max(one.device_bytes for one in found if one.rank == "trainer") / GIB
    engines = max(one.device_bytes for one in found if one.rank != "trainer") / GIB
    assert engines > trainers + 1
    node = Node(unpack(launch, tmp_path))
    assert node.check(*[trainers + 0.1] * 4, CUDA_VISIBLE_DEVICES="0,1,2,3")[0] == 0
    assert node.check(*[trainers - 0.1] * 4, CUDA_VISIBLE_DEVICES="0,1,2,3")[0] == 1
