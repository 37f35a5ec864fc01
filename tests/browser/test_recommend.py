"""Recommend as a person does it: asked, waited for, a point opened by keyboard, a plan taken."""

from __future__ import annotations

import re
import subprocess
import time
from urllib.parse import parse_qs, urlencode, urlsplit

from playwright.sync_api import Browser, Page, expect
from running_app import PHONE, PROCESSES, cpu_seconds, settle, window

from planner.search.wish import PLACEMENT, USUAL, Wish, to_text
from trial.running import until

SMALL = {"v": "5", "preset": "grpo-7b@1", "model": "Qwen/Qwen2.5-1.5B"}
WISH = "1~cheapest~16~0~0~0_free~enforce.eager~micro.batch.size"


def query(page: Page) -> dict[str, str]:
    return {key: values[-1] for key, values in parse_qs(urlsplit(page.url).query).items()}


def test_a_link_is_searched_and_its_plans_are_taken(page: Page, server: str) -> None:
    page.goto(f"{server}/recommend?{urlencode({**SMALL, 'wish': WISH})}")
    expect(page.get_by_text("Search coverage")).to_be_visible()
    settle(page)
    expect(page.get_by_text(re.compile("^Cheapest: the .*balanced"))).to_be_visible()
    assert query(page)["wish"] == WISH and query(page)["gpus"] == "8"
    page.get_by_role("button", name="Apply").first.click()
    page.wait_for_url(lambda url: "/recommend" not in url and "gpus=8&" not in url)
    settle(page)
    expect(page.get_by_text("Applied.")).to_be_visible()
    page.get_by_role("button", name="Undo").first.click()
    page.wait_for_url(lambda url: "gpus=8&" in url)
    settle(page)
    page.get_by_role("link", name="Recommend", exact=True).click()
    expect(page.get_by_text("Search coverage")).to_be_visible()
    settle(page)
    # Another plan of the front: by keyboard alone, then by a click on its point.
    chosen = page.locator(".st-key-front-plan")
    shown = page.get_by_test_id("stVegaLiteChart").last.locator("[aria-roledescription=point]")
    points = shown.count()
    page.get_by_role("combobox", name="Plan on the Pareto front").focus()
    for key in ("ArrowDown", "ArrowDown", "Enter"):
        page.keyboard.press(key)
    settle(page)
    assert points > 1
    second = chosen.inner_text()
    shown.first.click()
    settle(page)
    assert chosen.inner_text() != second
    chosen.get_by_role("button", name="Open as plan").click()
    # The plan's own page opens, and from there on the launch of that plan.
    page.wait_for_url(lambda url: "/recommend" not in url and "gpus=8&" not in url)
    settle(page)
    page.get_by_role("link", name="Go to Launch").click()
    page.wait_for_url(lambda url: "/launch" in url and "gpus=8&" not in url)


def test_a_page_that_waits_stays_usable_and_narrow_windows_need_no_scrolling(
    page: Page, server: str
) -> None:
    page.set_viewport_size(PHONE)
    page.goto(f"{server}/recommend?{urlencode(SMALL)}")
    settle(page)
    page.get_by_role("button", name="Find plans").click()
    cancel = page.get_by_role("button", name="Cancel", exact=True)
    expect(cancel).to_be_visible()
    cancel.click()
    expect(page.get_by_text("Canceled.")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


LONG = Wish(
    goal="cheapest",
    free=(*USUAL, *PLACEMENT),
    max_gpus=64,
    cards=(
        *("l40s", "h100-80gb", "a100-80gb", "b200-180gb"),
        *("h200-141gb", "a100-40gb", "rtx-4090", "a10g"),
    ),
    lora_allowed=True,
)
"""A minute or more of two quiet cores."""
ENDED_CPU_SECONDS = 20
"""Until a closed tab is noticed; the whole search takes more than twice as many."""


def searching_seconds(server: str) -> float:
    """CPU seconds of the app's processes that search."""
    listed = subprocess.run(
        ["ps", "-o", "pid=,args=", "--ppid", str(PROCESSES[server])], capture_output=True, text=True
    )
    workers = [line.split()[0] for line in listed.stdout.splitlines() if "search.ask" in line]
    return sum(cpu_seconds(int(process)) for process in workers)


def searches(server: str) -> bool:
    """Whether a search is on its way just now."""
    before = searching_seconds(server)
    time.sleep(1.0)
    return searching_seconds(server) > before + 0.05


def test_a_closed_tab_ends_its_search(browser: Browser, server: str) -> None:
    context = window(browser)
    page = context.new_page()
    page.goto(f"{server}/recommend?{urlencode({**SMALL, 'wish': to_text(LONG)})}")
    expect(page.get_by_text(re.compile("Estimating plans|First try"))).to_be_visible()
    until(lambda: searches(server))
    page.close()
    before = searching_seconds(server)
    until(lambda: not any(searches(server) for _ in range(3)))
    assert searching_seconds(server) - before < ENDED_CPU_SECONDS
    context.close()
