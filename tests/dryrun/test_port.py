"""The port to the worker process: answers, ends, cancellation, the store."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from accuracy.tiny import LLAMA
from planner import catalog, disk_cache
from planner.answer import to_json
from planner.background import GivenUp, Refused
from planner.dryrun.ask import request, store
from planner.dryrun.ask.finding import finding
from planner.dryrun.ask.port import Port
from planner.forks.client import ROOT
from planner.plan import Plan
from planner.term import OUTSIDE

CONFIG = catalog.encode_config({**LLAMA, "model_type": "llama"})


def plan_of(**changes: Any) -> Plan:
    values = {
        "model": "tiny/model",
        "config": CONFIG,
        "method": "sft",
        "gpus": 1,
        "master_dtype": "none",
        "prompts_per_step": 2,
        "prompt_tokens": 16,
        "response_tokens": 16,
        "attention": "eager",
        **changes,
    }
    return Plan(**values)


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Port]:
    opened = Port(tmp_path_factory.mktemp("answers"))
    yield opened
    opened.close()


def test_an_answer_and_the_same_from_the_store(port: Port) -> None:
    plan = plan_of()
    assert port.remembered(plan) is None
    found = port.run(plan)
    phases = {one.phase: one for one in found.comparisons}
    assert phases["load"].dry_bytes is None
    assert abs(phases["policy backward"].difference or 1) < 0.001
    shape = to_json(found.footprint)
    assert shape["source"] == "dry run"
    sources = {phase["name"]: phase["source"] for phase in shape["phases"]}
    assert sources["policy forward"] == "dry run"
    assert sources["checkpoint"] == "estimate"
    for phase in found.footprint.phases:
        assert phase.requested_bytes <= phase.allocated_bytes <= phase.reserved_bytes
        inside = sum(int(t.bytes) for t in phase.terms if not t.host and t.category not in OUTSIDE)
        assert inside == phase.reserved_bytes
        low, most = phase.host_low_bytes or 0, phase.host_high_bytes or 0
        assert 0 < low < (phase.host_bytes or 0) < most, "processes are known as roughly as before"
    assert finding(found)
    assert port.remembered(plan) == found
    assert port.run(plan) == found


def test_every_room_whose_code_decides_an_answer_is_read() -> None:
    """A folder that is no more would be passed over, and stored answers outlive their code."""
    for room in request.SOURCES:
        assert [*(ROOT / "planner" / room).rglob("*.py")], room
    key = request.key_of(plan_of(), full_depth=False)
    assert key != request.key_of(plan_of(response_tokens=17), full_depth=False)


def test_what_cannot_run_is_a_sentence(port: Port) -> None:
    with pytest.raises(Refused, match="gpu"):
        port.run(plan_of(gpu="mi300x"))


def test_another_allocation_of_the_engine_is_another_question(port: Port, tmp_path: Path) -> None:
    port.run(plan_of(), snapshot=tmp_path / "snapshot.pickle")
    assert (tmp_path / "snapshot.pickle").stat().st_size > 1000


def test_giving_up_ends_the_worker_and_the_next_question_starts_another(port: Port) -> None:
    port.warm_up()
    (first,) = port._workers._idle
    with pytest.raises(GivenUp):
        port.run(plan_of(prompts_per_step=3), cancelled=lambda: True)
    assert first.process.poll() is not None
    assert port.run(plan_of(prompts_per_step=4)).comparisons


def test_a_killed_worker_is_said_and_replaced(port: Port) -> None:
    port.run(plan_of(prompts_per_step=5))
    (worker,) = port._workers._idle
    pid = worker.process.pid

    signals = iter([signal.SIGKILL])

    def killed() -> bool:
        """Looked at for the first time when the request has been written."""
        for one in signals:
            os.kill(pid, one)
        return False

    os.kill(pid, signal.SIGSTOP)
    with pytest.raises(Refused, match="ended without an answer"):
        port.run(plan_of(prompts_per_step=6), cancelled=killed)
    assert port.run(plan_of(prompts_per_step=6)).comparisons


def test_lengths_come_when_asked_for(port: Port) -> None:
    plan = plan_of(prompt_tokens=20)
    assert not port.run(plan).lengths
    found = port.run(plan, lengths=True)
    assert [row["order"] for row in found.lengths] == ["longest first", "random order"]
    assert all(row["reserved_bytes"] >= row["allocated_bytes"] > 0 for row in found.lengths)


def test_the_port_loads_nothing_heavy() -> None:
    check = (
        "import planner.dryrun.ask.port, planner.dryrun.ask.finding, sys; "
        "print(sorted({'torch', 'transformers', 'streamlit', 'pandas'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", check], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_the_store_forgets_what_is_damaged(tmp_path: Path) -> None:
    store.save("key", {"phases": []}, tmp_path)
    assert store.load("key", tmp_path) == {"phases": []}
    (tmp_path / "key.json").write_text("{")
    assert store.load("key", tmp_path) is None
    assert store.load("other", tmp_path) is None


def test_a_store_that_cannot_be_written_costs_only_time(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    store.save("key", {"phases": []}, blocked)
    assert store.load("key", blocked) is None


def test_the_store_keeps_the_newest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk_cache, "KEPT", 2)
    for number in range(4):
        store.save(str(number), {"phases": [number]}, tmp_path)
        os.utime(tmp_path / f"{number}.json", (number, number))
    store.save("last", {"phases": []}, tmp_path)
    assert sorted(path.stem for path in tmp_path.glob("*.json")) == ["3", "last"]
    assert json.loads((tmp_path / "last.json").read_text()) == {"phases": []}
