"""Plans that are named and kept: listed, renamed, deleted, and their trials found, on both."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import insert, inspect

from planner.plan import Plan
from planner.trial.history import History, HistoryError, plans
from planner.trial.history.place import WRITES, engine_of, read_url
from planner.trial.history.plans import MOST, KeptPlans
from planner.trial.history.schema import plans as table
from planner.trial.history.schema import trials
from planner.trial.history.upgrade import migrate
from trial.history.results import PLAN, trial

OTHER = Plan(method="grpo", variation="dapo", gpus=16)


def names(kept: KeptPlans) -> list[str]:
    return [one.name for one in kept.list()]


def test_kept_listed_renamed_deleted(url: str) -> None:
    kept = KeptPlans(History(url))
    assert kept.list() == []
    kept.keep(" SFT, one card ", PLAN)
    kept.keep("DAPO 🚀 <b>%s</b>", OTHER)
    named = {one.name: one for one in kept.list()}
    first, second = named["SFT, one card"], named["DAPO 🚀 <b>%s</b>"]
    assert (first.plan, second.plan) == (PLAN, OTHER)
    kept.rename(first.id, "Robert'); DROP TABLE headroom_plans;--")
    kept.rename(first.id, "Robert'); DROP TABLE headroom_plans;--")  # its own name is free
    assert set(names(kept)) == {"Robert'); DROP TABLE headroom_plans;--", second.name}
    kept.delete(second.id)
    kept.delete("no-such-plan")
    assert [one.plan for one in KeptPlans(History(url)).list()] == [PLAN]


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("taken", "already"),
        ("  ", "^Give the plan a name"),
        ("x" * 41, "more than 40 characters"),
        ("two\nlines", "cannot be printed"),
        ("nul\0", "cannot be printed"),
        ("from right to left \u202e", "cannot be printed"),
    ],
)
def test_a_name_that_cannot_be_one_changes_nothing(sqlite_url: str, name: str, why: str) -> None:
    kept = KeptPlans(History(sqlite_url))
    kept.keep("taken", PLAN)
    kept.keep("other", PLAN)
    before = kept.list()
    other = next(one for one in before if one.name == "other")
    with pytest.raises(HistoryError, match=why):
        kept.keep(name, OTHER)
    with pytest.raises(HistoryError, match=why):
        kept.rename(other.id, name)
    assert kept.list() == before


def test_there_are_only_so_many(sqlite_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert MOST == 200
    monkeypatch.setattr(plans, "MOST", 2)
    kept = KeptPlans(History(sqlite_url))
    kept.keep("a", PLAN)
    kept.keep("b", PLAN)
    with pytest.raises(HistoryError, match="2 plans are kept already"):
        kept.keep("c", PLAN)


def test_the_newest_completed_trial_of_a_plan_is_found(url: str) -> None:
    history = History(url)
    kept = KeptPlans(history)
    kept.keep("ran", PLAN)
    kept.keep("did not", OTHER)
    assert kept.trials(kept.list()) == {}
    history.add(trial(1), trial(2), trial(3, status="killed"), trial(4, PLAN.changed(steps=2)))
    links = {one.name: one.link for one in kept.list()}
    assert kept.trials(kept.list()) == {links["ran"]: trial(2)}


def test_a_row_that_somebody_else_wrote_is_listed_without_a_plan(url: str) -> None:
    kept = KeptPlans(History(url))
    rows = [
        {"id": f"20261128-000000-{n}", "created": "2026-11-28T00:00:00Z", "name": str(n), "link": t}
        for n, t in enumerate(("", "v=99&model=x", "v=9&gpus=0", "<script>", "v=9" + "&a=1" * 999))
    ]
    with kept.history.transaction(writes=True) as connection:
        connection.execute(insert(table), rows)
    found = kept.list()
    assert {one.plan for one in found} <= {None, Plan()}
    assert all(one.plan is None for one in found if one.name in "1234")
    for one in found:
        kept.delete(one.id)
    assert kept.list() == []


def test_a_history_of_version_2_gets_the_table_and_keeps_its_trials(url: str) -> None:
    engine = engine_of(read_url(url))
    with engine.connect().execution_options(**{WRITES: True}) as connection, connection.begin():
        migrate(connection, "2")
        assert not inspect(connection).has_table(table.name)
    old = History(url)
    old.add(trial(1))
    KeptPlans(old).keep("mine", PLAN)
    assert names(KeptPlans(History(url))) == ["mine"]
    assert [line.id for line in History(url).list()] == [trial(1).id]
    assert trials.name != table.name


def test_a_store_that_cannot_be_opened_is_told_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "trials.sqlite").write_bytes(b"no database" * 100)
    with pytest.raises(HistoryError, match="damaged or no database"):
        KeptPlans(History(f"sqlite:///{tmp_path / 'trials.sqlite'}"))
