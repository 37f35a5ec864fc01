"""A job's log is read like any hostile text: progress, fields, one result of this very trial."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from planner.plan import Plan
from planner.plan.query import to_query_string
from planner.trial.ask.folders import TrialFolder
from planner.trial.ask.process import TRIALS
from planner.trial.ask.request import request_of
from planner.trial.ask.result import result_json
from planner.trial.cluster import job_log
from planner.trial.cluster.job_log import Heard
from trial.test_result import finished

ADDRESS = "http://head:8265"
PLAN = Plan(model="Qwen/Qwen2.5-0.5B", method="sft", gpus=1, sharding="none")


@pytest.fixture
def log(tmp_path: Path) -> Heard:
    request = request_of(PLAN, ray=ADDRESS)
    return Heard(request, TRIALS.new(request, tmp_path))


def line_of(log: Heard, **changes: Any) -> str:
    """The line in which a trial says its result."""
    own = {"id": log.folder.identifier, "plan": log.request.plan}
    return result_json(finished(**{**own, **changes})) + "\n"


def said(folder: TrialFolder) -> str:
    return folder.stderr.read_text("utf-8") if folder.stderr.exists() else ""


def test_pieces_become_lines_progress_and_a_result(log: Heard) -> None:
    text = (
        '2026-11-22 INFO job_manager.py -- Runtime env is setting up.\n{"at": 1.5, "name": '
        '"starting", "limit_seconds": 300.0}\n{"at": 2.5, "name": "measuring", "step": 3, '
        '"steps": 5, "layers": 2}\n' + line_of(log)
    )
    for place in range(0, len(text), 7):
        log.feed(text[place : place + 7])
    events = log.folder.progress()
    assert [event["name"] for event in events] == ["starting", "measuring"]
    assert (events[1]["step"], events[1]["steps"]) == (3, 5)
    assert events[0]["at"] > 1e9  # this machine's clock, not the node's
    assert log.result is not None and log.result.id == log.folder.identifier
    assert log.characters == len(text) and "Runtime env" in said(log.folder)


def test_where_it_ran_is_what_this_machine_knows(log: Heard) -> None:
    log.feed(
        line_of(log).replace(
            '"environment":null',
            '"environment":{"versions":{"torch":"2"},"cluster":"http://user:password@elsewhere"}',
        )
    )
    assert log.result is not None and log.result.environment is not None
    assert log.result.environment.cluster == ADDRESS
    assert log.result.environment.versions == {"torch": "2"}


def test_a_last_line_without_its_break_is_read_at_the_end(log: Heard) -> None:
    log.feed(line_of(log).rstrip("\n"))
    assert log.result is None
    log.finish()
    assert log.result is not None


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"id": "20990101-000000-ffffff"}, "id: it is of another trial"),
        ({"plan": to_query_string(PLAN.changed(gpus=2, sharding="fsdp2"))}, "plan: it is of anoth"),
    ],
)
def test_another_trials_result_is_refused(log: Heard, changes: Any, why: str) -> None:
    log.feed(line_of(log, **changes))
    assert log.result is None and log.refused.startswith(why)
    log.feed(line_of(log))
    assert log.result is not None  # the true one still counts


@pytest.mark.parametrize(
    "line",
    [
        "",
        "{",
        "{}",
        "null",
        '{"name": 5}',
        '{"name": "\\u001b[2J"}',
        '{"name": "phase", "phase": ["a"]}',
        '{"name": "measuring", "step": -1}',
        '{"name": "measuring", "step": 1e999}',
        '{"name": "measuring", "step": NaN}',
        '{"name": "a", "name": "b"}',
        '{"name": "known", "known": ' + '{"a": ' * 30 + "1" + "}" * 31,
        '{"name": "known", "known": ' + '{"a": ' * 5000 + "1" + "}" * 5001,
        '{"id": "x", "status": "completed"}',
        '{"id": 1, "status": {}}',
        '{"name": "\\ud800"}',
        "\x00\xff\ud800",
    ],
)
def test_a_hostile_line_is_no_progress_and_no_result(log: Heard, line: str) -> None:
    log.feed(line + "\n")
    assert log.folder.progress() == [] and log.folder.known() == {} and log.result is None
    log.feed(line_of(log))
    assert log.result is not None


def test_fields_so_far_are_kept_with_the_clusters_address(log: Heard) -> None:
    log.feed('{"name": "known", "known": {"steps": 3, "environment": {"versions": {}}}}\n')
    assert log.folder.known()["steps"] == 3
    log.feed('{"name": "known", "known": [1]}\n')
    assert set(log.folder.known()) == {"environment"}
    assert log.folder.known()["environment"]["cluster"] == ADDRESS


def test_endless_lines_and_endless_logs_are_not_kept(
    log: Heard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_log, "LINE_CHARACTERS", 100_000)
    monkeypatch.setattr(job_log, "LOG_CHARACTERS", 1_000_000)
    monkeypatch.setattr(job_log, "EVENTS", 10)
    for _ in range(5):
        log.feed("x" * 50_000)
    assert sum(map(len, log._line)) <= 100_000
    log.feed("\n")
    assert "a line of 250000 characters was left out" in said(log.folder)
    for _ in range(20):
        log.feed(json.dumps({"name": "measuring", "step": 1}) + "\n")
    assert len(log.folder.progress()) == 10
    for _ in range(20):
        log.feed("y" * 40_000 + "\n")
    assert log.too_much
    assert log.folder.stderr.stat().st_size <= job_log.SAID_CHARACTERS + 100
    assert log.last == "y" * 2000
