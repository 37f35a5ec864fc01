"""Comparing as a person does it, and the report as whoever approves it opens and prints it."""

from __future__ import annotations

import datetime as dt
import re
from dataclasses import replace
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Browser, Page, expect
from running_app import settle, window

from planner.estimate import estimate
from planner.plan.pin import Pinned, from_pin
from planner.plan.presets import presets
from planner.report import Advice, content_of, html_of
from planner.report import content as report
from planner.report.recommended import Recommended

GRPO = presets()["grpo-7b@1"].plan
LONG = "W" * 40 + " A sentence that goes on and on." * 12


def pins(page: Page) -> list[str]:
    return parse_qs(urlsplit(page.url).query).get("pin", [])


def test_a_plan_is_pinned_changed_compared_and_opened_again(page: Page, server: str) -> None:
    page.goto(f"{server}/?v=8&preset=grpo-7b@1")
    settle(page)
    page.get_by_role("button", name="Pin this plan").click()
    page.wait_for_url(lambda url: "pin=" in url)
    count = page.get_by_label("Count", exact=True)
    count.fill("16")
    count.press("Enter")
    page.wait_for_url(lambda url: "gpus=16" in url)
    settle(page)
    page.get_by_role("link", name="Compare", exact=True).click()
    expect(page.get_by_text("Both plans fit; fastest: This plan")).to_be_visible()
    settle(page)
    expect(page.get_by_text("1 setting that differs")).to_be_visible()
    assert [from_pin(one) for one in pins(page)] == [Pinned(GRPO, "Plan A")]
    page.reload()
    expect(page.get_by_text("Both plans fit; fastest: This plan")).to_be_visible()
    settle(page)
    page.get_by_role("button", name="Pin this plan").click()
    page.wait_for_url(lambda url: url.count("pin=") == 2)
    settle(page)
    page.get_by_role("button", name="Open as plan").click()
    page.wait_for_url(lambda url: "gpus=8" in url)
    settle(page)
    assert len(pins(page)) == 2
    expect(page.get_by_label("Count", exact=True)).to_have_value("8")
    page.go_back()
    page.wait_for_url(lambda url: "gpus=16" in url)
    settle(page)
    assert len(pins(page)) == 2


def test_the_report_of_the_page_is_one_file(page: Page, server: str, tmp_path: Path) -> None:
    page.goto(f"{server}/?v=8&preset=grpo-7b@1")
    settle(page)
    with page.expect_download() as saved:
        page.get_by_role("button", name="Report for approval").click()
    file = tmp_path / "report.html"
    saved.value.save_as(file)
    assert saved.value.suggested_filename == "headroom-report.html"
    written = file.read_text("utf-8")
    assert "GRPO of Qwen2.5-7B" in written and f"{server}/?v=9&amp;preset=grpo-7b%401" in written


def fullest() -> str:
    """As much as a report can hold, in the longest words."""
    footprint = replace(estimate(presets()["ppo-7b@1"].plan), warnings=(LONG,) * 9)
    found = content_of(
        footprint,
        made=dt.date(2026, 1, 31),
        advice=[Advice(LONG, LONG)] * 9,
        link=f"https://headroom.example/?{'x=1&' * 900}",
    )
    setting = ("A label as long as they are", report.cut(LONG, report.LONGEST_VALUE))
    bars = (found.bars * 2)[: report.MOST_PHASES]
    return html_of(
        replace(
            found,
            title=report.cut(LONG, report.LONGEST_TITLE),
            goal="By a deadline, under a budget",
            recommended=tuple(
                Recommended(
                    name,
                    "fits, 78.8 GiB of 79.1 GiB; 1.1 min (0.5–1.9) a step, "
                    "$19,999 ($9,999–$29,999) the run; its dry run disagrees",
                    report.cut(LONG, report.LONGEST_CHANGES),
                )
                for name in ("Conservative", "Balanced", "Aggressive")
            ),
            verdict=report.cut(LONG),
            recommendation=report.cut(LONG),
            settings=(setting,) * (report.MOST_SETTINGS + 1),
            money=(report.cut(LONG),) * 4,
            bars=bars,
        )
    )


@pytest.mark.parametrize("which", ["usual", "fullest"])
def test_a_report_prints_on_one_page_and_asks_nobody(
    browser: Browser, tmp_path: Path, which: str
) -> None:
    made = dt.date(2026, 1, 31)
    usual = html_of(content_of(estimate(presets()["ppo-7b@1"].plan), made=made, link="?v=5"))
    file = tmp_path / "report.html"
    file.write_text(usual if which == "usual" else fullest(), "utf-8")
    context = window(browser)
    page = context.new_page()
    asked: list[str] = []
    said: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.on("console", lambda message: said.append(message.text))
    page.goto(file.as_uri())
    assert asked == [file.as_uri()] and said == []
    for size in ("A4", "Letter"):
        printed = page.pdf(format=size)
        assert len(re.findall(rb"/Type\s*/Page\b", printed)) == 1, size
    page.set_viewport_size({"width": 420, "height": 900})
    assert page.evaluate("document.documentElement.scrollWidth") <= 420
    context.close()
