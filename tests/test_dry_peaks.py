"""Peaks of dry runs are replayed by plan, and computed anew where what decides them changed."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import dry_peaks
import evidence
from dry_peaks import ByPlan
from planner.dryrun.ask.stand_in import stand_in
from planner.plan import Plan

PLANS = [Plan(method="sft", rollout="none", kl="none", lora_rank=rank) for rank in range(1, 9)]
RAN = {"policy forward": 7}


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Plan]:
    """Plans that were run, in a repository without evidence."""
    found: list[Plan] = []

    def dry_run(plan: Plan, *_: Any, **__: Any) -> Any:
        found.append(plan)
        return SimpleNamespace(notes=[])

    peak = SimpleNamespace(phase="policy forward", total_bytes=7)
    monkeypatch.setattr(dry_peaks, "dry_run", dry_run)
    monkeypatch.setattr(dry_peaks, "curve", SimpleNamespace(peaks=lambda _: [peak]))
    for name, value in (("FOLDER", tmp_path), ("full", False), ("gathered", {}), ("names", {})):
        monkeypatch.setattr(evidence, name, value)
    return found


def test_a_plan_runs_once_and_then_an_eighth_of_all(ran: list[Plan]) -> None:
    first = ByPlan("plain")
    assert [first.peaks(stand_in(plan)) for plan in PLANS] == [RAN] * 8 and ran == PLANS
    evidence.write()
    ran.clear()
    again = ByPlan("plain")
    assert [again.peaks(stand_in(plan)) for plan in PLANS] == [RAN] * 8 and len(ran) == 1


def test_what_is_committed_is_what_is_told(ran: list[Plan], tmp_path: Path) -> None:
    found = ByPlan("plain")
    for plan in PLANS:
        found.peaks(stand_in(plan))
    evidence.write()
    path = tmp_path / "dry-peaks-plain.json"
    path.write_text(path.read_text("utf-8").replace('forward": 7', 'forward": 8'), "utf-8")
    ran.clear()
    again, told = ByPlan("plain"), []
    for plan in PLANS:
        try:
            told.append(again.peaks(stand_in(plan))["policy forward"])
        except (AssertionError, ValueError):  # whose sentence names a file of the repository
            continue
    assert told == [8] * 7 and len(ran) == 1


def test_rows_that_no_longer_hold_are_dropped(ran: list[Plan], tmp_path: Path) -> None:
    found = ByPlan("plain")
    for plan in PLANS[:2]:
        found.peaks(stand_in(plan))
    evidence.write()
    path = tmp_path / "dry-peaks-plain.json"
    rows = json.loads(path.read_text("utf-8"))
    gone, kept = rows
    rows[gone]["key"] = "of other sources"
    path.write_text(json.dumps(rows), "utf-8")
    evidence.gathered.clear()
    ByPlan("plain").peaks(stand_in(PLANS[2]))
    evidence.write()
    assert gone not in (now := json.loads(path.read_text("utf-8"))) and kept in now
    assert len(now) == 2


def test_processes_put_their_plans_together(
    ran: list[Plan], request: pytest.FixtureRequest
) -> None:
    plugins = request.config.pluginmanager.get_plugins()
    path = str(Path(__file__).parent / "conftest.py")
    [root] = [each for each in plugins if getattr(each, "__file__", "") == path]
    for case in ("one", "other"):
        sent = ({"some": {case: {"key": "k", "figures": 1}}}, {"some": [case]})
        root.pytest_testnodedown(SimpleNamespace(workeroutput={"evidence": sent}), None)
    evidence.write()
    assert list(json.loads((evidence.FOLDER / "some.json").read_text("utf-8"))) == ["one", "other"]
