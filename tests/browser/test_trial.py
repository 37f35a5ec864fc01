"""A trial as a person runs it: the page, a real worker on the processor, and the answer."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect
from running_app import app, settle, typed

from planner.plan.query import to_query_string
from trial.running import tiny

SLOW = 180_000
"""Milliseconds that a loaded machine may take."""


@pytest.fixture
def own_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A server with a history of its own, started plainly on localhost: nobody turned trials on."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    for name in ("HEADROOM_TRIALS", "HEADROOM_HISTORY_URL"):
        monkeypatch.delenv(name, raising=False)
    with app(data=str(tmp_path)) as address:
        yield address


def test_a_trial_runs_while_the_page_is_closed_and_is_found_again(
    page: Page, own_server: str, tmp_path: Path
) -> None:
    plan = tiny("sft", prompt_tokens=256, response_tokens=256)
    link = f"{own_server}/trial?{to_query_string(plan)}"
    page.goto(link)
    settle(page)
    assert not (tmp_path / "trials").exists()  # a link starts nothing
    page.get_by_text("How it runs").click()
    typed(page, "Measured steps", "50")  # a few are over before anybody sees them
    button = page.get_by_role("button", name="Run the trial")
    place = button.bounding_box()
    button.click()
    expect(page.get_by_text("Running on the CPU").first).to_be_visible(timeout=SLOW)
    assert button.bounding_box() == place
    page.goto("about:blank")

    page.goto(link)
    expect(page.get_by_text("memory is as predicted")).to_be_visible(timeout=SLOW)
    settle(page)
    expect(button).to_be_enabled()
    expect(page.get_by_test_id("stException")).to_have_count(0)
    with page.expect_download() as event:
        page.get_by_role("button", name="Trial as JSON").click()
    data = json.loads(Path(event.value.path()).read_text())
    assert data["status"] == "completed" and data["device"]["kind"] == "cpu"
    measured = {phase["name"]: phase["requested_bytes"] for phase in data["measured"]["phases"]}
    assert {"policy forward", "policy backward", "optimizer step"} <= measured.keys()
    for phase in data["predicted"]["phases"]:
        assert abs(measured[phase["name"]] / phase["requested_bytes"] - 1) < 0.01
    assert len([*(tmp_path / "trials").iterdir()]) == 1

    page.get_by_text("How it runs").click()
    typed(page, "Measured steps", "100")
    button.click()
    # Streamlit's own header has a Stop of its own while a script runs.
    page.get_by_test_id("stMain").get_by_role("button", name="Stop").click(timeout=SLOW)
    expect(page.get_by_text("Stopped; nothing was measured.")).to_be_visible(timeout=SLOW)
