"""``planner import``: the plan, what became of each setting, and the files back as a diff."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from importer.test_imported import OOM, VERL, VERL_PLAN
from planner.__main__ import main


@pytest.fixture
def script(tmp_path: Path) -> str:
    path = tmp_path / "run.sh"
    path.write_text(VERL)
    return str(path)


def test_json_has_the_plan_and_every_list(
    script: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["import", script, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {name: found["plan"].get(name) for name in VERL_PLAN} == VERL_PLAN
    lists = ("understood", "from_defaults", "no_effect", "open", "unknown", "messages")
    assert all(isinstance(found[name], list) for name in ("v", *lists)[1:])
    names = {one["name"]: one for one in found["understood"]}
    assert names["data.train_batch_size"]["line"] == 11
    assert "gpu" in found["asks"]


def test_what_a_log_measured_is_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "run.log"
    path.write_text("step:1 - timing_s/step:30.5 - perf/max_memory_allocated_gb:41.25\n")
    assert main(["import", str(path)]) == 0
    printed = capsys.readouterr().out
    assert "measured (verl): timing_s/step 30.5 s" in printed
    assert "max_memory_allocated_gb 41.2 GiB" in printed and "note: " in printed


def test_a_field_that_no_file_says_can_be_said(
    script: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["import", script, "--set", "gpu=h200"]) == 0
    assert "8 × H200" in capsys.readouterr().out
    assert main(["import", script, "--set", "gpv=h200"]) == 2
    assert "gpu" in capsys.readouterr().err


def test_diff_is_of_the_person_s_own_lines(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "run.sh"
    path.write_text(VERL.replace("7B-Instruct", "32B-Instruct").replace("micro=32", "micro=64"))
    assert main(["import", str(path), "--diff"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == ["--- run.sh", "+++ run.sh"]
    assert "-micro=64" in lines


def test_the_status_says_whether_anything_was_understood(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "oom.txt").write_text(OOM)
    (tmp_path / "no.txt").write_text("hello there\n")
    assert main(["import", str(tmp_path / "oom.txt")]) == 0
    assert "out of memory (torch, line 1)" in capsys.readouterr().out
    assert main(["import", str(tmp_path / "no.txt")]) == 2
    assert "Nothing here was understood" in capsys.readouterr().out
    assert main(["import", str(tmp_path / "absent.sh")]) == 2
    assert "cannot be read" in capsys.readouterr().err
