"""Trials stored, found and deleted, on both databases."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from sqlalchemy import URL, select, update

from planner.trial.history import Filter, History, HistoryError
from planner.trial.history.place import history_url, read_url, said
from planner.trial.history.schema import trials
from trial.history.results import PLAN, PROCESSOR, trial
from trial.test_result import finished


def test_what_is_stored_comes_back_whole(url: str) -> None:
    history = History(url)
    results = [
        finished(),
        trial(1),
        trial(2, status="failed", reason="It fell.", measured=None, environment=None),
        trial(3, notes=("ein Satz – mit ü",), stderr_tail="line\n\tline \\u0000 '\";--"),
    ]
    assert len(history.add(*results).added) == 4
    for result in results:
        assert History(url).get(result.id) == result
    assert sorted(one.id for one in history.results()) == sorted(one.id for one in results)
    assert history.get("20261121-000000-nobody") is None


def test_an_id_is_stored_once_and_what_was_there_stays(url: str) -> None:
    history = History(url)
    first = trial(1)
    assert history.add(first, trial(2)).added == (first.id, trial(2).id)
    again = history.add(first, trial(2, seconds=1.0), trial(3))
    assert again.added == (trial(3).id,)
    assert again.skipped == (first.id,)
    assert again.differing == (trial(2).id,)
    assert history.get(trial(2).id) == trial(2)
    assert history.count() == 3


def test_a_trial_written_by_another_release_is_the_same_whatever_its_order(url: str) -> None:
    history = History(url)
    history.add(trial(1))
    with history.transaction(writes=True) as connection:
        rest = json.loads(connection.execute(select(trials.c.rest)).scalar_one())
        turned = json.dumps(dict(reversed(rest.items())))
        connection.execute(update(trials).values(rest=turned))
    assert history.add(trial(1)).skipped == (trial(1).id,)


def test_the_same_id_twice_in_one_go_is_stored_once(url: str) -> None:
    done = History(url).add(trial(1), trial(1))
    assert (len(done.added), len(done.skipped)) == (1, 1)


def test_lists_are_newest_first_and_filtered(url: str) -> None:
    history = History(url)
    grpo = PLAN.changed(
        method="grpo", model="Qwen/Qwen2.5-1.5B", rollout="hf", responses_per_prompt=4
    )
    history.add(
        trial(1),
        trial(5, device=PROCESSOR),
        trial(3, plan=grpo),
        trial(4, status="killed", censored=True, environment=None),
    )

    def found(**chosen: object) -> list[int]:
        return [int(line.id[-6:]) for line in history.list(Filter(**chosen))]  # type: ignore[arg-type]

    assert found() == [5, 4, 3, 1]
    assert found(limit=2) == [5, 4]
    assert found(method="grpo") == [3]
    assert found(method="gr") == []
    assert found(model="qwen2.5-1") == [3]
    assert found(device="cpu") == [5]
    assert found(device="CUDA") == [4, 3, 1]
    assert found(device="h100-80gb") == [4, 3, 1]
    assert found(device="nvidia h100") == [4, 3, 1]
    assert found(device="%") == [] == found(device="_") == found(model="' OR 1=1 --")
    assert found(status="killed") == [4]
    assert found(torch_version="2.13.0+cu130", method="sft") == [5, 1]
    assert found(torch_version="2.13.0") == []
    line = history.list(Filter(status="killed"))[0]
    assert (line.censored, line.torch_version, line.gpu) == (True, "", "h100-80gb")


def test_deleting_says_how_many_there_were(url: str) -> None:
    history = History(url)
    history.add(trial(1), trial(2))
    assert history.delete([trial(1).id, "20261121-000000-nobody"]) == 1
    assert [line.id for line in history.list()] == [trial(2).id]


def test_a_row_that_somebody_has_changed_is_named(url: str) -> None:
    history = History(url)
    history.add(trial(1), trial(2))
    with history.engine.begin() as connection:
        connection.execute(
            update(trials).where(trials.c.id == trial(1).id).values(rest='{"status":"fine"}')
        )
    with pytest.raises(HistoryError, match=trial(1).id) as error:
        history.get(trial(1).id)
    assert "planner trials --delete" in str(error.value)
    assert history.get(trial(2).id) == trial(2)
    assert len(history.list()) == 2


def test_the_place_is_one_setting(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HEADROOM_DATA", str(tmp_path))
    assert said(history_url()) == str(tmp_path / "trials.sqlite")
    monkeypatch.setenv("HEADROOM_HISTORY_URL", f"sqlite:///{tmp_path}/other.sqlite")
    assert History().place == f"{tmp_path}/other.sqlite"
    assert (tmp_path / "other.sqlite").exists() and not (tmp_path / "trials.sqlite").exists()


@pytest.mark.parametrize("text", ["nonsense", "sqlite://", "sqlite:///:memory:", "://", "a:b@c"])
def test_a_setting_that_names_no_database_is_refused(text: str) -> None:
    with pytest.raises(HistoryError, match="HEADROOM_HISTORY_URL"):
        read_url(text)


def test_a_password_is_never_said(tmp_path: Path) -> None:
    url = read_url(f"postgres://me:secret@/trials?host={tmp_path}&password=secret")
    assert url.drivername == "postgresql+psycopg"
    with pytest.raises(HistoryError, match="cannot be reached") as error:
        History(url)
    assert "secret" not in str(error.value) and "HEADROOM_HISTORY_URL" in str(error.value)


def test_a_missing_driver_is_named() -> None:
    with pytest.raises(HistoryError, match="needs the driver"):
        History(URL.create("oracle", host="nowhere"))
