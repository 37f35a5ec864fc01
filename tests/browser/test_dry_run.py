"""The dry run as a person meets it: a real process behind the page, cancelled and killed too."""

from __future__ import annotations

import json
import os
import re
import signal
from pathlib import Path
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Browser, Page, expect
from running_app import PHONE, PROCESSES, settle

from trial.running import called, until, with_open

SLOW = 600_000
"""Milliseconds that a loaded machine may take."""
TINY = {
    "v": "1",
    "model": "Qwen/Qwen2.5-0.5B",
    "method": "sft",
    "framework": "plain",
    "gpus": "1",
    "micro_batch_size": "1",
}


def open_plan(page: Page, server: str, tokens: int) -> None:
    """Each test has a plan of its own, so that no other test's answer is stored for it."""
    page.goto(f"{server}/?{urlencode({**TINY, 'response_tokens': str(tokens)})}")
    settle(page)


def start(page: Page) -> None:
    page.get_by_role("button", name="Check with a dry run").click()


def answer(page: Page) -> None:
    expect(page.get_by_text("Alive at the peak")).to_be_visible(timeout=SLOW)


def worker(server: str) -> int:
    """The process id of the server's dry-run process."""
    handles = Path(f"/proc/{PROCESSES[server]}/fd")

    def reads_from_it() -> int | None:
        pipes = [os.readlink(one) for one in handles.iterdir() if one.is_symlink()]
        found = (with_open(0, pipe) for pipe in pipes if pipe.startswith("pipe:"))
        return next((one for one in found if one and "dryrun.run.work" in called(one)), None)

    return int(until(reads_from_it))


def no_overflow(page: Page) -> bool:
    return bool(page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"))


def test_a_real_step_is_executed_and_shown(page: Page, server: str, browser: Browser) -> None:
    open_plan(page, server, 300)
    heading = page.get_by_role("heading", name="Check with a dry run")
    heading.scroll_into_view_if_needed()
    place = heading.bounding_box()
    below = page.get_by_role("heading", name="Breakdown")
    process = worker(server)
    os.kill(process, signal.SIGSTOP)  # a step of a second could be over before it is looked at
    start(page)
    expect(page.get_by_text("Running …")).to_be_visible()
    assert heading.bounding_box() == place
    kept_free = below.bounding_box()
    page.get_by_label("Count", exact=True).focus()  # the page is usable meanwhile
    os.kill(process, signal.SIGCONT)
    answer(page)
    settle(page)
    stays = heading.bounding_box()
    assert place and stays and abs(stays["y"] - place["y"]) < 1, "scroll anchoring rounds to pixels"
    filled = below.bounding_box()
    assert kept_free and filled and abs(kept_free["y"] - filled["y"]) < 150
    expect(page.get_by_text("The step that ran peaks in")).to_be_visible()
    expect(page.get_by_text("with torch 2.13.0")).to_be_visible()
    expect(page.get_by_test_id("stException")).to_have_count(0)

    with page.expect_download() as event:
        page.get_by_role("button", name="Dry run as JSON").click()
    data = json.loads(Path(event.value.path()).read_text())
    assert data["source"] == "dry run"
    assert data["plan"]["response_tokens"] == 300
    ran = [row for row in data["dry_run"]["comparisons"] if row["dry_run_bytes"]]
    assert {"policy forward", "policy backward", "optimizer step"} <= {row["phase"] for row in ran}

    plot = page.locator("[data-testid=stVegaLiteChart] svg.marks").last
    plot.scroll_into_view_if_needed()
    size = plot.bounding_box()
    assert size is not None
    page.mouse.move(size["x"] + size["width"] / 2, size["y"] + size["height"] / 2)
    tip = page.locator("#vg-tooltip-element")
    expect(tip).to_be_visible()
    for word in ("phase", "op", "live, GiB", "parameters"):
        expect(tip).to_contain_text(word)

    for scheme in ("light", "dark"):
        page.set_viewport_size(PHONE)
        page.emulate_media(color_scheme=scheme)
        open_plan(page, server, 300)
        answer(page)  # stored: nobody presses
        settle(page)
        assert no_overflow(page)


def test_a_changed_plan_is_asked_about_anew(page: Page, server: str) -> None:
    open_plan(page, server, 310)
    start(page)
    answer(page)
    settle(page)
    tokens = page.get_by_label("Response, tokens", exact=True)
    tokens.fill("320")
    tokens.press("Enter")
    expect(page.get_by_text("The plan has changed since the last dry run")).to_be_visible()
    expect(page.get_by_text("Alive at the peak")).to_have_count(0)
    # The address bar follows when the run ends; back before that goes nowhere.
    page.wait_for_url(re.compile("response_tokens=320"))
    settle(page)
    page.go_back()
    answer(page)


def start_without_an_end(page: Page, server: str, tokens: int) -> int:
    """Presses while the worker is stopped, so that it takes the request and never answers."""
    open_plan(page, server, tokens)
    process = worker(server)
    os.kill(process, signal.SIGSTOP)
    start(page)
    expect(page.get_by_text("Running …")).to_be_visible()
    return process


def test_giving_up_ends_the_process_and_the_next_press_works(page: Page, server: str) -> None:
    stopped = start_without_an_end(page, server, 330)
    expect(page.get_by_text(re.compile(r"Running … ([2-9]|\d\d+) s"))).to_be_visible(timeout=SLOW)
    page.get_by_role("button", name="Cancel").click()
    expect(page.get_by_text("Cancelled; nothing")).to_be_visible(timeout=SLOW)
    settle(page)
    with pytest.raises(ProcessLookupError):
        os.kill(stopped, 0)
    assert worker(server) != stopped, "another one is warming up already"
    start(page)
    answer(page)


def test_a_killed_process_is_one_sentence_and_the_next_press_works(page: Page, server: str) -> None:
    os.kill(start_without_an_end(page, server, 340), signal.SIGKILL)
    expect(page.get_by_text("ended without an answer")).to_be_visible(timeout=SLOW)
    settle(page)
    expect(page.get_by_test_id("stException")).to_have_count(0)
    assert page.get_by_test_id("stMetricValue").first.inner_text()
    start(page)
    answer(page)
    expect(page.get_by_text("ended without an answer")).to_have_count(0)


def test_a_snapshot_can_be_taken_along(page: Page, server: str) -> None:
    open_plan(page, server, 350)
    start(page)
    answer(page)
    settle(page)
    page.get_by_role("button", name="Make a memory snapshot").click()
    file = page.get_by_role("button", name="Snapshot for PyTorch's viewer")
    expect(file).to_be_visible(timeout=SLOW)
    settle(page)
    with page.expect_download() as event:
        file.click()
    # A pickle of protocol 4, the newest that the viewer reads.
    assert Path(event.value.path()).read_bytes()[:2] == b"\x80\x04"
