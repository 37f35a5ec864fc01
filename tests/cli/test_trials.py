"""``planner trials``: list, show, export, import and delete, as a person calls them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from planner import estimate
from planner.__main__ import main
from planner.plan.presets import presets
from planner.plan.query import to_query_string
from planner.trial.ask.footprints import figures_of
from planner.trial.ask.process import TRIALS
from planner.trial.ask.request import request_of
from planner.trial.ask.result import TrialResult, read_result
from planner.trial.evidence.calibration import calibration, kind_of
from planner.trial.history import History
from trial.history.results import CARD, PLAN, PROCESSOR, trial
from trial.scaled import PLAN as MEASURED
from trial.scaled import scaled


@pytest.fixture(autouse=True)
def history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> History:
    monkeypatch.delenv("HEADROOM_HISTORY_URL", raising=False)
    monkeypatch.setenv("HEADROOM_DATA", str(tmp_path / "data"))
    return History()


def test_the_list_is_filtered_and_is_json_when_asked(
    history: History, capsys: pytest.CaptureFixture[str]
) -> None:
    history.add(trial(1), trial(2, device=PROCESSOR, censored=True))
    assert main(["trials"]) == 0
    header, *lines = capsys.readouterr().out.splitlines()
    assert header.split()[:3] == ["id", "created", "status"]
    assert [line.split()[0] for line in lines] == [trial(2).id, trial(1).id]
    assert "(censored)" in lines[0] and "h100-80gb" in lines[1]
    assert main(["trials", "--json", "--device", "cpu", "--method", "sft"]) == 0
    [row] = json.loads(capsys.readouterr().out)
    assert (row["id"], row["device_kind"], row["censored"]) == (trial(2).id, "cpu", True)
    assert main(["trials", "--method", "dpo"]) == 0
    assert "No such trial" in capsys.readouterr().out
    assert main(["trials", "--limit", "0"]) == 2


def test_finished_trials_of_this_machine_are_found_and_deleted_with_their_folders(
    history: History, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = TRIALS.new(request_of(PLAN), tmp_path / "data")
    result = trial(1, id=folder.identifier)
    folder.finish(result)
    assert main(["trials", "--show", result.id]) == 0
    assert read_result(capsys.readouterr().out) == result
    assert main(["trials", "--delete", result.id]) == 0
    assert not folder.path.exists() and history.count() == 0
    assert main(["trials", "--delete", result.id]) == 1
    assert main(["trials", "--show", result.id]) == 1
    assert result.id in capsys.readouterr().err


def test_a_trial_under_way_is_not_deleted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = TRIALS.new(request_of(PLAN), tmp_path / "data")
    folder.own()
    assert main(["trials", "--delete", folder.identifier]) == 2
    assert "not over yet" in capsys.readouterr().err
    assert folder.path.exists()


def test_trials_travel_between_machines(
    history: History,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    history.add(trial(1), trial(2))
    file = tmp_path / "trials.csv"
    assert main(["trials", "--export", str(file)]) == 0
    monkeypatch.setenv("HEADROOM_HISTORY_URL", f"sqlite:///{tmp_path}/elsewhere.sqlite")
    History().add(trial(2, seconds=2.0))
    assert main(["trials", "--import", str(file)]) == 0
    said = capsys.readouterr().out
    assert "Imported 1 trial." in said
    assert f"because different trials with the same ids are stored already: {trial(2).id}" in said
    assert main(["trials", "--import", str(file)]) == 0
    assert f"these trials are stored already: {trial(1).id}" in capsys.readouterr().out
    assert main(["trials", "--import", str(tmp_path / "none.json")]) == 2
    file.write_text("result\nnonsense\n")
    assert main(["trials", "--import", str(file)]) == 2
    assert "Nothing was stored" in capsys.readouterr().err


def measured(share: float) -> TrialResult:
    plan = presets()["grpo-7b@1"].plan
    said = estimate(plan)
    figures = figures_of(said)
    phases = tuple(
        phase.model_copy(
            update={"source": "trial", "device_bytes": round(phase.device_bytes * share)}
        )
        for phase in figures.phases
        if phase.device_bytes
    )
    found = figures.model_copy(update={"source": "trial", "phases": phases})
    device = CARD.model_copy(update={"gpu": plan.gpu})
    return trial(1, plan, device=device, estimated=figures, predicted=None, measured=found)


def test_an_estimate_of_a_link_with_factors_is_corrected_and_says_so(
    capsys: pytest.CaptureFixture[str],
) -> None:
    plan = presets()["grpo-7b@1"].plan
    result = measured(1.1)
    factors, _ = calibration([result], kind_of(result))
    link = to_query_string(plan, short=True, calibration=factors)
    assert main(["estimate", link, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["device_bytes"] == pytest.approx(estimate(plan).device_bytes * 1.1, rel=1e-6)
    assert main(["estimate", link]) == 0
    assert "Corrected phase by phase" in capsys.readouterr().out
    assert main(["estimate", link + "&method=intuitor"]) == 2
    assert capsys.readouterr().err.startswith("method: ")
    assert main(["sweep", link, "--over", "gpus=8"]) == 0
    assert "calibration" in capsys.readouterr().err
    assert main(["estimate", link.replace("device", "everything")]) == 2
    assert capsys.readouterr().err.startswith("calibration ")


def test_an_estimate_states_the_error_that_stored_trials_have_shown(
    history: History, capsys: pytest.CaptureFixture[str]
) -> None:
    link = to_query_string(MEASURED)
    assert main(["estimate", link]) == 0
    before = capsys.readouterr().out
    assert "committed measurements of SFT" in before and "stored trial" not in before
    history.add(scaled(1, 1.25))
    assert main(["estimate", link]) == 0
    after = capsys.readouterr().out
    assert re.search(
        r"Error of the peak: -20\.0% to \+\d\.\d%; 1 stored trial and \d+ committed", after
    )
    assert main(["estimate", link, "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["error"]["low"] == pytest.approx(-0.2, abs=1e-6)
    alone = {phase["name"]: phase["error"]["high"] for phase in said["phases"]}
    assert alone["load"] == pytest.approx(-0.2, abs=1e-6)
    assert alone["policy backward"] > 0
