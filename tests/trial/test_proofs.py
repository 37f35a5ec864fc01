"""What stored trials say is read from small files: the same as from the history, and no slower."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from planner.cli.answer import own_comparisons
from planner.jobs.storage import data_folder
from planner.plan.query import to_query_string
from planner.trial.evidence import proofs
from planner.trial.history import History
from planner.trial.history.comparisons import compared
from planner.trial.history.intake import keep_all
from trial.running import ROOT
from trial.scaled import OF_OTHERS, PLAN, SCALED, said

HEAVY = (
    *("torch", "transformers", "streamlit", "pandas", "altair", "huggingface_hub"),
    *("sqlalchemy", "alembic", "sqlite3", "ray"),
)


def test_they_say_what_the_history_says() -> None:
    assert own_comparisons("sft") == ()
    History().add(*SCALED, *OF_OTHERS)
    found = own_comparisons("sft")
    assert found and sorted(found, key=str) == sorted(compared("sft"), key=str)
    assert set(said(SCALED)) <= set(found)
    assert own_comparisons("grpo") == tuple(compared("grpo"))


def test_a_deleted_trial_says_nothing_any_more() -> None:
    History().add(*SCALED)
    History().delete([SCALED[0].id])
    assert set(own_comparisons("sft")) == set(said(SCALED[1:]))
    (data_folder() / "trials.sqlite").unlink()
    assert own_comparisons("sft") == ()
    keep_all(History())
    assert own_comparisons("sft") == ()


def test_what_an_estimate_said_is_found_anew_when_the_formulas_change() -> None:
    History().add(SCALED[0])
    [path] = proofs.proofs_folder().iterdir()
    before = own_comparisons("sft")
    data = json.loads(path.read_text())
    data["formulas"] = "others"
    data["said"]["estimate"] = {name: 1 for name in data["measured"]}
    path.write_text(json.dumps(data))
    assert own_comparisons("sft") == before
    assert json.loads(path.read_text())["formulas"] != "others"
    path.write_text("{")
    assert own_comparisons("sft") == ()


def test_a_history_that_was_there_before_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    History().add(*SCALED)
    proofs.clear()
    assert set(own_comparisons("sft")) == set(said(SCALED))
    assert proofs.proofs_folder().is_dir()
    assert set(own_comparisons("sft")) == set(said(SCALED))


def test_a_history_without_any_proof_is_opened_once(monkeypatch: pytest.MonkeyPatch) -> None:
    History()
    assert own_comparisons("sft") == ()
    monkeypatch.setattr("planner.trial.history.comparisons.compared", lambda method: 1 / 0)
    assert own_comparisons("sft") == ()


def test_another_database_leaves_no_proofs(tmp_path: Path) -> None:
    History(f"sqlite:///{tmp_path}/elsewhere.sqlite").add(*SCALED)
    assert not proofs.proofs_folder().exists()


def test_an_estimate_beside_a_stored_trial_loads_nothing_heavy() -> None:
    History().add(*SCALED)
    code = (
        "import sys\nfrom planner.__main__ import main\n"
        f"main(['estimate', {to_query_string(PLAN)!r}])\n"
        f"print(sorted(set({HEAVY!r}) & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert "stored trials" in done.stdout and done.stdout.splitlines()[-1] == "[]"
