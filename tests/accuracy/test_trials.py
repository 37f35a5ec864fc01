"""The command that runs a card's trials: its plans, its loop on a CPU, and what its file says."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from accuracy import trial_report, trials
from accuracy.trial_cases import TrialCase, cases
from planner.plan.methods import methods
from planner.plan.query import to_query_string
from planner.trial.ask.footprints import FootprintFigures, PhaseFigures
from planner.trial.ask.result import TrialResult, result_json
from trial.history.results import CARD, trial
from trial.running import tiny

CASES = list(cases("h200-141gb"))


def test_the_trials_are_of_every_method_size_and_kind() -> None:
    assert len(CASES) >= 30 and len({case.name for case in CASES}) == len(CASES)
    assert {case.plan.method for case in CASES} == methods().keys()
    parts = Counter(case.part for case in CASES)
    assert parts["base"] == parts["length"] == parts["batch"] == parts["depth"] == len(methods())
    assert parts["whole"] == parts["truncated"] >= 5 and parts["rank"] >= 4
    assert {"Qwen/Qwen2.5-0.5B", "Qwen/Qwen3-8B"} <= {case.plan.model for case in CASES}
    assert all(case.plan.sharding == "fsdp2" for case in CASES if case.part == "rank")
    for case in CASES:
        assert case.plan.gpu == "h200-141gb"


def test_the_loop_runs_on_a_cpu_and_goes_on_where_it_was_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HEADROOM_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    few = [
        TrialCase(name="one", group="tiny", part="base", plan=tiny("sft")),
        TrialCase(
            name="other",
            group="tiny",
            part="length",
            plan=tiny("sft", response_tokens=40),
            choices={"truncate": "never"},
        ),
    ]
    monkeypatch.setattr(trials, "cases", lambda gpu: iter(few))
    out = tmp_path / "trials-h200-141gb.json"
    command = ["--gpu", "h200-141gb", "--device", "cpu", "--out", str(out)]
    assert trials.main([*command, "--only", "one"]) == 0
    assert trials.main(command) == 2  # a file is never overwritten unasked
    failing = json.loads(out.read_text())
    (first,) = failing["cases"]
    lost = {"status": "failed", "reason": "The card fell off the bus."}
    failing["cases"].append({**first, "name": "other", "result": {**first["result"], **lost}})
    out.write_text(json.dumps(failing))
    assert trials.main([*command, "--resume"]) == 0
    told = [line for line in capsys.readouterr().out.splitlines() if "completed" in line]
    assert [line.split(":")[0] for line in told] == ["1", "2"]
    ((gpu, rows),) = trial_report.files(tmp_path)
    assert gpu == "h200-141gb" and [row["name"] for row in rows] == ["one", "other"]
    found = {(one.case, one.question, one.quantity): one for one in trial_report.errors(rows)}
    assert abs(found["one", "same plan", "memory"].signed) < 1e-3
    led = found["other", "from another trial", "memory"]
    assert abs(led.signed) < 1e-3  # what a CPU asks for is predicted to the byte, almost
    assert "2 trials, 2 of them completed" in trial_report.text([(gpu, rows)])


def figures(source: Any, **phases: tuple[int | None, float | None]) -> FootprintFigures:
    return FootprintFigures(
        source=source,
        plan={},
        phases=tuple(
            PhaseFigures(name=name, source=source, allocated_bytes=size, seconds=seconds)
            for name, (size, seconds) in phases.items()
        ),
    )


def row(part: str, group: str = "g", **changes: Any) -> dict[str, Any]:
    given: dict[str, Any] = {"device": CARD, "censored": False, **changes}
    result: TrialResult = trial(1, tiny("sft"), **given)
    assert result.plan == to_query_string(tiny("sft"))
    name = f"{group} {part}"
    said = json.loads(result_json(result))
    return {"name": name, "group": group, "part": part, "result": said}


def test_one_trial_corrects_another_phase_by_phase() -> None:
    base = row(
        "base",
        predicted=figures("dry run", forward=(100, None), backward=(200, None)),
        estimated=figures("estimate", forward=(None, 1.0), backward=(None, 2.0)),
        measured=figures("trial", forward=(150, 2.0), backward=(200, 3.0)),
    )
    longer = row(
        "length",
        predicted=figures("dry run", forward=(200, None), backward=(280, None)),
        estimated=figures("estimate", forward=(None, 3.0), backward=(None, 4.0)),
        measured=figures("trial", forward=(250, 5.0), backward=(240, 6.0)),
    )
    censored = row("batch", censored=True, measured=figures("trial", forward=(9, 9.0)))
    found = {
        (one.case, one.question, one.quantity): one
        for one in trial_report.errors([base, longer, censored])
    }
    assert set(found) == {
        ("g base", "same plan", "memory"),
        ("g length", "same plan", "memory"),
        ("g length", "from another trial", "memory"),
        ("g length", "from another trial", "time"),
    }
    # Dry run: 280 at most; measured 250. Corrected: forward 200 x 150/100, backward 280 x 1.
    assert found["g length", "same plan", "memory"].signed == pytest.approx(280 / 250 - 1)
    memory = found["g length", "from another trial", "memory"]
    assert memory.signed == pytest.approx(300 / 250 - 1)
    # Forward 3 x 2/1, backward 4 x 3/2: 12 s; measured 11 s.
    time = found["g length", "from another trial", "time"]
    assert time.signed == pytest.approx(12 / 11 - 1)


def test_a_whole_model_is_compared_with_what_two_shallow_ones_said() -> None:
    whole = row("whole", measured=figures("trial", forward=(100, 1.0), backward=(200, 2.0)))
    shallow = row("truncated", measured=figures("trial", forward=(99, 1.1), backward=(202, 1.6)))
    found = {
        one.quantity: one
        for one in trial_report.errors([whole, shallow])
        if one.question == "from shallower models"
    }
    assert found["memory"].signed == pytest.approx(0.01)
    assert found["time"].signed == pytest.approx(-0.1)
    page = trial_report.text([("h200-141gb", [whole, shallow])])
    assert "| from shallower models | memory | 1 | +1.00 % |" in page
    assert "median ≤ 2.0 %: met" in page and "median ≤ 7.0 %: missed" in page


def test_what_did_not_complete_is_listed_and_a_default_trial_is_timed() -> None:
    slow = row("default", seconds=61.0)
    failed = row("rank", group="r", status="stopped", reason="Somebody stopped it.")
    page = trial_report.text([("h200-141gb", [slow, failed])])
    assert "took 61 s in all (target 60 s: missed)" in page
    assert "- r rank: stopped. Somebody stopped it." in page
    assert "No trial on a GPU" in trial_report.text([])
