"""GRADE's documents on the Examples page: its runs, their findings, and the way to Plan."""

from __future__ import annotations

from pathlib import Path

from streamlit.testing.v1 import AppTest

from planner.examples import dry_runs

APP = str(Path(__file__).parents[2] / "app.py")


def examples() -> AppTest:
    app = AppTest.from_file(APP, default_timeout=600).run()
    for number in ("001", "002"):
        app.session_state[f"open:depth-{number}"] = True
    app.switch_page("pages/examples.py").run()
    assert not app.exception, [error.value for error in app.exception]
    return app


def test_each_run_stands_with_estimate_and_dry_run() -> None:
    app = examples()
    tables = [table.value for table in app.table if "Worst phase" in table.value.columns]
    rows = {label: row for table in tables for label, row in table.iterrows()}
    shown = [case for case in dry_runs.CASES if case is not dry_runs.SMALL]
    assert list(rows) != []
    assert {case.label for case in shown} == set(rows)
    before = rows["Before"]
    # 143,174,666,896 bytes requested in the backward, by the committed dry run.
    assert before["Dry run, GiB"] == "133.34"
    assert before["Worst phase"] == "policy backward"
    assert before["Difference"].endswith("%")


def test_the_findings_are_of_the_committed_runs() -> None:
    said = "\n".join(text.value for text in examples().markdown)
    assert "Step checkpointing: **−24.9 GiB**" in said
    assert "the reference's 7.5 GiB are the difference" in said


def test_a_run_opens_as_a_plan() -> None:
    app = examples()
    app.button(key=f"open:001:{dry_runs.OPTIMISED}").click().run()
    assert not app.exception
    assert app.selectbox(key="preset").value == dry_runs.OPTIMISED
