"""Real trials through the page: memory that ends, a queue, an app that restarts."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect
from running_app import PROCESSES, app, settle, typed

from planner.plan import Plan
from planner.plan.query import to_query_string
from planner.trial.ask.process import TRIALS
from trial.running import tiny, worker_of

SLOW = 600_000
"""Milliseconds that a loaded machine may take."""


@pytest.fixture(scope="module")
def own_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMP_NUM_THREADS", "1")
        for name in ("HEADROOM_TRIALS", "HEADROOM_HISTORY_URL"):
            patch.delenv(name, raising=False)
        with app(data=str(tmp_path_factory.mktemp("data"))) as address:
            yield address


def opened(page: Page, server: str, plan: Plan) -> None:
    page.goto(f"{server}/trial?{to_query_string(plan)}")
    settle(page)


def run(page: Page) -> None:
    page.get_by_role("button", name="Run the trial").click()


def chosen(page: Page, label: str, option: str) -> None:
    page.get_by_role("combobox", name=label).click()
    page.get_by_role("option", name=option).click()
    settle(page)


def test_the_end_of_memory_is_an_answer(page: Page, own_server: str) -> None:
    opened(page, own_server, tiny("sft"))
    page.get_by_text("How it runs").click()
    typed(page, "Memory cap, GiB", "0.004563")
    chosen(page, "Layers", "All, even if memory runs out")
    run(page)
    expect(page.get_by_text("Out of memory in policy backward.")).to_be_visible(timeout=SLOW)
    settle(page)
    expect(page.get_by_test_id("stException")).to_have_count(0)


def test_two_wait_for_each_other_and_a_restarted_app_finds_both(
    page: Page, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.delenv("HEADROOM_TRIALS", raising=False)
    first = tiny("sft", prompt_tokens=512, response_tokens=512)
    second = tiny("sft", layers=3)
    with app(data=str(tmp_path)) as server:
        opened(page, server, first)
        page.get_by_text("How it runs").click()
        typed(page, "Measured steps", "100")
        run(page)
        expect(page.get_by_text("Running on the CPU")).to_be_visible(timeout=SLOW)
        worker = worker_of(TRIALS.all(tmp_path)[0])
        os.kill(worker, signal.SIGSTOP)  # still running when the app comes back, and on no core
        opened(page, server, second)
        run(page)
        waits = page.get_by_text("Waiting for the CPU: 1 trial is before it")
        expect(waits).to_be_visible(timeout=SLOW)
        os.kill(PROCESSES[server], signal.SIGKILL)
    with app(data=str(tmp_path)) as server:
        opened(page, server, second)
        expect(page.get_by_text("Running on the CPU").first).to_be_visible(timeout=SLOW)
        os.kill(worker, signal.SIGCONT)
        page.get_by_test_id("stMain").get_by_role("button", name="Stop").first.click()
        expect(page.get_by_text("memory is as predicted")).to_be_visible(timeout=SLOW)
        opened(page, server, first)
        expect(page.get_by_text("Stopped; nothing was measured.")).to_be_visible(timeout=SLOW)
