"""Every page by axe-core, light and dark: no finding that is serious or critical.

The package axe-playwright-python carries axe-core itself, so nothing is asked of the network.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal
from urllib.parse import urlencode

import pytest
from axe_playwright_python.base import AXE_SCRIPT
from playwright.sync_api import Page
from running_app import settle

GRAVE = ("serious", "critical")
OF_COLOURS = ("color-contrast", "link-in-text-block")
RULES = {"light": {}, "dark": {"runOnly": {"type": "rule", "values": OF_COLOURS}}}
"""All of them, and those that read colours: what the others look at is the same in the dark."""
RUN = """async rules => {
    const found = await axe.run(document, {resultTypes: ["violations"], ...rules});
    const named = at => {
        const node = document.querySelector(at[at.length - 1]);
        const owner = node?.closest("[data-testid]")?.dataset.testid ?? "";
        return `${owner} ${node?.tagName.toLowerCase() ?? at.join(" ")}`;
    };
    return found.violations.flatMap(rule => rule.nodes.map(node => [
        rule.impact, rule.id, named(node.target), node.failureSummary + " " + node.html]));
}"""
"""Findings, each with the nearest test id above it and its tag: classes change with each build."""
FULL = {"v": "1", "preset": "grpo-7b@1", "gpu": "a100-40gb", "response_tokens": "8192"}


def graves(page: Page, rules: Mapping[str, Any]) -> list[str]:
    """Rule and place of each grave finding, with what axe says of it."""
    page.evaluate(AXE_SCRIPT)
    return [
        f"{rule} at {place}: {' '.join(said.split())}"
        for impact, rule, place, said in page.evaluate(RUN, rules)
        if impact in GRAVE
    ]


@pytest.mark.parametrize("scheme", RULES)
def test_no_page_has_a_grave_finding(
    page: Page, server: str, scheme: Literal["light", "dark"]
) -> None:
    rules = RULES[scheme]
    page.emulate_media(color_scheme=scheme)
    page.goto(f"{server}/?{urlencode(FULL)}")
    settle(page)
    found = {"a plan that does not run": graves(page, rules)}
    page.get_by_text("fields differ").click()  # and the pointer stays on it
    settle(page)
    found["its differences"] = graves(page, rules)
    page.keyboard.press("Escape")
    settle(page)
    menu = page.locator("[data-testid=stTopNavLink]")
    titles = [title.strip().rpartition("\n")[2] for title in menu.all_inner_texts()]
    assert {"Plan", "Scaling", "Launch", "Examples"} <= set(titles)
    page.get_by_role("button", name="start over").click()
    settle(page)
    for title in titles:
        page.get_by_role("link", name=title, exact=True).click()
        settle(page)
        found[title] = graves(page, rules)
    assert len(found) == len(titles) + 2
    assert not {page: some for page, some in found.items() if some}


def test_words_follow_the_appearance_without_another_run(page: Page, server: str) -> None:
    """A machine that goes dark in the evening does not ask the server for a page."""
    page.goto(server)
    settle(page)
    read = """() => getComputedStyle(
        document.querySelector("[data-testid='stCaptionContainer']")).color"""
    light = page.evaluate(read)
    page.emulate_media(color_scheme="dark")
    page.wait_for_function(f"light => ({read})() !== light", arg=light)
    assert (light, page.evaluate(read)) == ("rgb(86, 92, 102)", "rgb(174, 182, 191)")
