"""The command that runs exported programs on a card, here on a processor with a tiny model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from accuracy import programs
from launch.tiny_models import config
from planner import catalog
from planner.frameworks.plain.exporter import write
from planner.plan import Plan


def test_every_case_is_exported_and_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = programs.planned
    own = {"config": catalog.encode_config(config()), "model": "tiny/model", "dtype": "fp32"}

    def planned(case: str, gpu: str) -> Plan:
        return made(case, gpu, **own, prompt_tokens=6, response_tokens=3, attention="eager")

    monkeypatch.setattr(programs, "planned", planned)
    monkeypatch.setattr(programs, "CASES", {name: programs.CASES[name] for name in RUN})
    monkeypatch.setattr(catalog, "model", lambda name: _Tiny)
    # A pasted config has no weights on the Hub, and these are on disk.
    monkeypatch.setattr(programs, "export", lambda plan, framework: write(plan, ""))
    out = tmp_path / "programs.json"
    words = ["--gpu", "h100-80gb", "--out", str(out), "--device", "cpu", "--steps", "1"]
    assert programs.main(words) == 0
    found = json.loads(out.read_text())["cases"]
    assert [one["case"] for one in found] == list(RUN)
    assert all(one["told"].startswith("Step 1: ") for one in found), found
    assert all(one["reserved_gib"] is None for one in found)  # a processor reserves nothing


RUN = ("grade lean",)


class _Tiny:
    config = config()


def test_what_a_program_says_of_a_card_is_read() -> None:
    from planner.launch.pieces import preflight

    said = "Step 3: loss 0.1, reserved at most 12.34 GiB (predicted 12.50, +1.3%)"
    found = programs.SAID.search(said)
    assert found is not None and found.groups() == ("12.34", "12.50")
    assert "reserved at most {reserved / GIB:.2f} GiB (predicted" in Path(
        preflight.__file__
    ).read_text("utf-8")
