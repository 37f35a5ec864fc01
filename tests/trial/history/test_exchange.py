"""Exports are read again whole; files from elsewhere are refused in a sentence, all or nothing."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

from planner.trial.ask.result import Device, result_json
from planner.trial.history import Filter, History, HistoryError, exchange
from planner.trial.history.exchange import export, import_file, read_trials
from trial.history.results import PROCESSOR, trial
from trial.test_result import finished


@pytest.fixture
def history(sqlite_url: str) -> History:
    return History(sqlite_url)


@pytest.mark.parametrize("suffix", ["json", "csv"])
def test_an_export_is_imported_whole_and_duplicates_are_said(
    url: str, suffix: str, tmp_path: Path
) -> None:
    history = History(url)
    results = [finished(), trial(1, notes=('a "quoted", comma; ü',)), trial(2, device=PROCESSOR)]
    history.add(*results)
    path = tmp_path / f"trials.{suffix}"
    assert export(history, path) == 3
    assert export(history, tmp_path / f"some.{suffix}", Filter(device="h100-80gb")) == 1
    assert {one.id for one in read_trials(path.read_bytes())} == {one.id for one in results}
    history.delete([trial(1).id, trial(2).id])
    history.add(trial(2, seconds=1.0))
    done = import_file(history, path)
    assert done.added == (trial(1).id,)
    assert done.skipped == (finished().id,)
    assert done.differing == (trial(2).id,)
    assert history.get(trial(1).id) == results[1]
    assert {one.name for one in tmp_path.iterdir()} >= {path.name}
    assert not list(tmp_path.glob(".*"))


def test_a_trials_own_file_is_imported(history: History, tmp_path: Path) -> None:
    (tmp_path / "result.json").write_text(result_json(trial(1)) + "\n")
    assert import_file(history, tmp_path / "result.json").added == (trial(1).id,)


def test_a_spreadsheet_runs_nothing_and_sees_the_figures(history: History, tmp_path: Path) -> None:
    device = Device(kind="cuda", name='=HYPERLINK("http://evil")', gpu="h100-80gb")
    history.add(trial(5, device=device))
    export(history, tmp_path / "trials.csv")
    [row] = csv.DictReader(io.StringIO((tmp_path / "trials.csv").read_text("utf-8"), newline=""))
    assert row["device"] == "'" + device.name
    assert (row["measured_requested_bytes"], row["predicted_requested_bytes"]) == (
        str(10**9 + 5),
        str(10**9),
    )
    assert row["measured_device_bytes"] == ""  # nobody measured it, which is not 0
    assert read_trials((tmp_path / "trials.csv").read_bytes())[0].device == device


def changed(**changes: Any) -> dict[str, Any]:
    return {**json.loads(result_json(trial(2))), **changes}


def exported(*rows: Any, **changes: Any) -> bytes:
    head = {"v": 1, "source": "trials", "trials": list(rows)}
    return json.dumps({**head, **changes}).encode()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "no column named result"),
        (b"\xff\xfe\x00", "UTF-8"),
        (b"a,b\n1,2\n", "no column named result"),
        (b'result\n"unclosed', "CSV"),
        (b"result\n\n{}\n", "trial 1 of 1"),
        (b"[1]", "one JSON object"),
        (b"[" * 200_000, "nested deeper than"),
        (b'{"v":1,"v":2}', "'v' stands twice"),
        (b'{"v":NaN}', "NaN is not a number"),
        (b'{"v":' + b"9" * 9000 + b"}", "a whole number of 9000 digits"),
        (b'{"v":1,"v":1,"source":"trials","trials":[]}', "'v' stands twice"),
        (exported(), "holds no trial"),
        (exported(v=2), "version 1"),
        (exported(more=1), "version 1"),
        (exported(trials={}), "no list"),
        (exported(trials=[{}] * 10_001), "at most 10,000"),
        (exported(changed(), changed(id="../../etc")), "trial 2 of 2: id: "),
        (exported(changed(status="fine")), "trial 1 of 1: status: "),
        (exported(changed(reason="\x1b[2J")), "reason: "),
        (exported(changed(reason="\ud800")), "trial 1 of 1"),
        (exported(changed(seconds=1e300)), "seconds: "),
        (exported(changed(plan="v=1&model=no/such")), "plan: "),
        (exported([[[[[[[[[[[[[[1]]]]]]]]]]]]]]), "trial 1 of 1"),
    ],
)
def test_a_hostile_file_is_refused_and_nothing_of_it_is_stored(
    content: bytes, said: str, history: History, tmp_path: Path
) -> None:
    path = tmp_path / "hostile"
    path.write_bytes(content)
    with pytest.raises(HistoryError, match=r"^.{1,600}$") as error:
        import_file(history, path)
    assert said in str(error.value)
    assert str(error.value).isprintable()
    assert history.count() == 0


def test_a_huge_file_is_refused_before_it_is_parsed(
    history: History, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exchange, "MAX_FILE_BYTES", 2**20)
    (tmp_path / "huge.json").write_bytes(b" " * (2**20 + 1))
    with pytest.raises(HistoryError, match="larger than 1 MiB"):
        import_file(history, tmp_path / "huge.json")


def test_an_export_too_large_to_be_read_again_is_refused(
    history: History, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    history.add(trial(1))
    (tmp_path / "trials.json").write_text("before")
    monkeypatch.setattr(exchange, "MAX_FILE_BYTES", 100)
    with pytest.raises(HistoryError, match="Choose fewer"):
        export(history, tmp_path / "trials.json")
    assert (tmp_path / "trials.json").read_text() == "before"
    assert [one.name for one in tmp_path.iterdir() if one.is_file()] == ["trials.json"]


def test_other_suffixes_are_refused(history: History, tmp_path: Path) -> None:
    with pytest.raises(HistoryError, match=r"\.json nor in \.csv"):
        export(history, tmp_path / "trials.xlsx")
