"""Starts the app as a person would, and a Chromium beside it that asks nobody else."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import (
    Browser,
    BrowserContext,
    Page,
    ViewportSize,
    expect,
    sync_playwright,
)

from free_ports import free_port

REPOSITORY = Path(__file__).parents[2]
QUIET = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)
"""No GPU and no sandbox in containers, and no requests of Chromium's own."""
DESKTOP: ViewportSize = {"width": 1400, "height": 1000}
PHONE: ViewportSize = {"width": 420, "height": 860}
START_SECONDS = 600
PATIENCE_MILLISECONDS = 600_000
"""Only what will never come is given up: a slow machine is waited for."""
PROCESSES: dict[str, int] = {}
"""The process id of each server that was started, by its address."""
QUIET_FOR_A_WHILE = """() => {
    const app = document.querySelector("[data-testid='stApp']");
    const busy = app?.dataset.testScriptState !== "notRunning"
        || document.querySelector("[data-stale='true'], [data-testid='stSkeleton']");
    if (busy) window.quietSince = 0;
    else window.quietSince ||= performance.now();
    return window.quietSince && performance.now() - window.quietSince > 400;
}"""
"""An edit needs a moment to start a script; a page is at rest when none has for longer."""
REST_SECONDS = 0.4
"""How long :func:`settle` watches a page that is at rest."""
expect.set_options(timeout=PATIENCE_MILLISECONDS)
DRAWN = "[data-testid='stMain'] [data-testid='stElementContainer']"
"""The first thing a script draws on a page."""


@contextmanager
def app(data: str = "", of: Path = REPOSITORY, port: int = 0) -> Iterator[str]:
    """A fresh ``streamlit run app.py`` that remembers no dry run and no trial; gives its address.

    ``data`` is a folder for trials that outlives it; by default they go when it ends. ``of`` is
    the checkout whose app it is, ``port`` where it listens; by default where nobody does.
    """
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as cache,
        _server(cache, data or os.path.join(cache, "data"), of, port or free_port()) as address,
    ):
        yield address


@contextmanager
def _server(cache: str, data: str, of: Path, port: int) -> Iterator[str]:
    command = [sys.executable, "-m", "streamlit", "run", "app.py"]
    options = [f"--server.port={port}", "--server.headless=true", "--server.fileWatcherType=none"]
    process = subprocess.Popen(
        [*command, *options],
        cwd=of,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "HEADROOM_CACHE": cache, "HEADROOM_DATA": data},
    )
    address = f"http://127.0.0.1:{port}"
    PROCESSES[address] = process.pid
    try:
        _wait_for(f"{address}/_stcore/health", process)
        yield address
    finally:
        process.terminate()
        process.wait(timeout=START_SECONDS)


def _wait_for(address: str, process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end:
        if process.poll() is not None:
            raise RuntimeError(f"streamlit ended with {process.returncode}")
        try:
            with urllib.request.urlopen(address, timeout=10):
                return
        except OSError:
            time.sleep(0.1)
    raise TimeoutError(f"{address} did not answer")


@contextmanager
def chromium() -> Iterator[Browser]:
    """Debian's Chromium, or the one HEADROOM_CHROMIUM names."""
    executable = os.environ.get("HEADROOM_CHROMIUM", "/usr/bin/chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=executable, args=list(QUIET), timeout=PATIENCE_MILLISECONDS
        )
        try:
            yield browser
        finally:
            browser.close()


def cpu_seconds(process: int) -> float:
    """User and system seconds of a process since it started."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def window(browser: Browser, **options: Any) -> BrowserContext:
    """A context of its own, of a desktop's size, that waits for a slow machine."""
    context = browser.new_context(**{"viewport": DESKTOP, **options})
    context.set_default_timeout(PATIENCE_MILLISECONDS)
    return context


def settle(page: Page) -> None:
    """Wait until something is drawn, and no script has run and nothing was stale for a while.

    Raises:
        AssertionError: the page shows an exception, so nobody need wait for what will not come.
    """
    page.wait_for_selector(DRAWN, state="attached", timeout=PATIENCE_MILLISECONDS)
    page.evaluate("() => { window.quietSince = 0; }")
    page.wait_for_function(QUIET_FOR_A_WHILE, timeout=PATIENCE_MILLISECONDS)
    failed = page.get_by_test_id("stException")
    assert not failed.count(), failed.first.inner_text()


def typed(page: Page, label: str, value: str) -> None:
    """A number into its field, and what that changes."""
    box = page.get_by_role("spinbutton", name=label)
    box.fill(value)
    box.press("Enter")
    settle(page)
