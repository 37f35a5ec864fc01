"""One server and one Chromium for the tests that do not need a cold one."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

sys.path.insert(0, str(Path(__file__).parent))

from running_app import app, chromium, window  # noqa: E402


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with chromium() as running:
        yield running


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    with app() as address:
        yield address


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    context = window(browser, accept_downloads=True)
    yield context.new_page()
    context.close()
