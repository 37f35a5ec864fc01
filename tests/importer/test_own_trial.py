"""A trial of this planner, pasted back: the figures of its record, and the plan."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from planner.cli.trial import _text
from planner.estimate import estimate
from planner.importer.answer import as_json
from planner.importer.imported import imported
from planner.importer.logs import Measured, read_logs
from planner.importer.logs.as_trial import as_trial
from planner.importer.logs.beside import beside
from planner.importer.rewriting import rewritten
from planner.trial.ask.result import read_result
from planner.units import GIB

MEASURED = Path(__file__).parents[2] / "accuracy" / "measured"
QUANTITIES = ("requested", "allocated", "reserved", "device", "host")


@cache
def record() -> dict[str, Any]:
    """A trial that ran on an H100, as it was kept."""
    rows = json.loads((MEASURED / "trials-h100-80gb.json").read_text("utf-8"))["cases"]
    result: dict[str, Any] = rows[0]["result"]
    return result


def told(found: Measured) -> dict[tuple[str, str], float]:
    return {(one.phases[0], one.quantity): one.value for one in found.figures}


WAYS: dict[str, Callable[[dict[str, Any]], str]] = {
    "a file": lambda one: json.dumps(one, separators=(",", ":")),
    "the command": json.dumps,
    "indented": lambda one: json.dumps(one, indent=2),
    "a job's log": lambda one: f'x\n{{"name":"step"}}\n(job pid=3) {json.dumps(one)}\nbye\n',
    "an export": lambda one: f'{{"v":1,"source":"trials","trials":[\n{json.dumps(one)}\n]}}\n',
}


@pytest.mark.parametrize("way", WAYS)
def test_every_phase_comes_back_to_the_byte(way: str) -> None:
    found = imported({"pasted text": WAYS[way](record())})
    [log] = found.logs
    phases = record()["measured"]["phases"]
    expected = {
        (one["name"], key): one[key]
        for one in phases
        for key in (*(f"{name}_bytes" for name in QUANTITIES), "seconds")
        if one.get(key) is not None
    }
    assert told(log) == expected and len(expected) > 3 * len(phases)
    assert log.steps == record()["steps"]
    assert found.plan == read_result(json.dumps(record())).planned()
    assert "H100" in log.notes[0] and found.understood


def test_it_is_kept_as_itself_and_stands_beside_the_plan() -> None:
    found = imported({"trial.json": json.dumps(record())})
    assert found.plan is not None
    whole = read_result(json.dumps(record()))
    assert as_trial(found.logs, found.plan.changed(steps=7)) == whole
    ratios = [one.ratio for one in beside(found.logs[0], estimate(found.plan))]
    assert sum(ratio is not None and 0.5 < ratio < 2 for ratio in ratios) > 6
    assert "steps" in as_json(found)["measured"][0]
    assert len(json.dumps(as_json(found), default=str)) < 60_000
    changed = found.plan.changed(prompts_per_step=2 * found.plan.prompts_per_step)
    assert "None of these files starts a run" in rewritten(found, changed).notes[0]


def test_the_printed_table_comes_back_as_far_as_it_goes() -> None:
    whole = read_result(json.dumps(record()))
    [log] = read_logs(f"$ planner trial …\n{_text(whole)}\n$\n")
    assert whole.measured is not None
    for phase in whole.measured.phases:
        size, seconds = (told(log)[phase.name, name] for name in ("reserved_bytes", "seconds"))
        assert size == pytest.approx(phase.reserved_bytes, abs=0.051 * GIB)
        assert seconds == pytest.approx(phase.seconds, rel=0.005)
    assert whole.id in log.notes[0] and not log.record


def test_a_trial_that_ended_early_says_so() -> None:
    ended = {"status": "stopped", "measured": None, "reason": "Somebody stopped it."}
    [log] = read_logs(json.dumps(record() | ended))
    assert log.figures == () and "stopped. Somebody stopped it." in log.notes[0]


def test_what_only_looks_like_a_trial_is_none() -> None:
    text = json.dumps(record())
    for wrong in (re.sub(r'"steps": \d+', '"steps": -1', text), '{"source":"trial"}', text[:-9]):
        assert read_logs(wrong) == ()
