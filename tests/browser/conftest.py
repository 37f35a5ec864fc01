"""One server, one Chromium and one tab in it for the tests that do not need a cold one."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Page

sys.path.insert(0, str(Path(__file__).parent))

from running_app import DESKTOP, app, chromium, window  # noqa: E402


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with chromium() as running:
        yield running


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    with app() as address:
        yield address


@pytest.fixture(scope="session")
def tab(browser: Browser) -> Iterator[Page]:
    context = window(browser, accept_downloads=True, reduced_motion="reduce")
    yield context.new_page()
    context.close()


@pytest.fixture
def page(tab: Page) -> Iterator[Page]:
    """A tab as good as new: a new one would read and compile all of the frontend again.

    That is two thirds of what a page costs. Whoever listens to the tab stops before it ends.
    """
    yield tab
    if urlsplit(tab.url).scheme == "http":
        tab.evaluate("() => { localStorage.clear(); sessionStorage.clear(); }")
    tab.goto("about:blank")  # its session ends in the server
    tab.context.clear_cookies()
    tab.set_viewport_size(DESKTOP)
    tab.emulate_media(color_scheme="light")
