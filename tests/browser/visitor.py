"""A person at the page, as a walk plays one: clicks and keys are counted, waits are timed.

Text that is typed counts a key a character, text that is pasted counts one. What a wait takes is
the time from an action until the page has come to rest; the while for which rest is watched is not
part of it, and nor is what a person would spend on reading.
"""

from __future__ import annotations

import re
import time

from playwright.sync_api import Locator, Page, expect
from running_app import REST_SECONDS, settle

VERDICT = re.compile(
    r"(Fits|Tight|Out of memory|Does not (run|start)|Incomplete|Still showing)\b.*", re.S
)


class Visitor:
    """Eyes, one pointer and one keyboard on a page of the app at ``server``."""

    def __init__(self, page: Page, server: str) -> None:
        self.page, self.server = page, server
        self.clicks = self.keys = 0
        self.seconds = 0.0
        self._begun = 0.0

    def __enter__(self) -> None:
        self._begun = time.monotonic()

    def __exit__(self, *_: object) -> None:
        """An action is over when the page is at rest."""
        settle(self.page)
        self.seconds += max(time.monotonic() - self._begun - REST_SECONDS, 0.0)

    def open(self, path: str = "") -> None:
        with self:
            self.page.goto(f"{self.server}/{path}")

    def click(self, what: Locator | str) -> None:
        """A button by its name, or anything else that can be clicked."""
        found = self.button(what) if isinstance(what, str) else what
        self.clicks += 1
        with self:
            found.click()

    def press(self, *keys: str) -> None:
        for key in keys:
            self.keys += 1
            self.page.keyboard.press(key)

    def tab_to(self, there: str) -> int:
        """To where ``there`` is true of the focused element ``at``; gives the tabs that took."""
        reached = f"() => {{ const at = document.activeElement; return {there}; }}"
        for tabs in range(1, 151):
            self.press("Tab")
            if self.page.evaluate(reached):
                return tabs
        raise AssertionError(f"150 tabs do not lead to {there}")

    def type(self, text: str) -> None:
        self.keys += len(text)
        self.page.keyboard.type(text)

    def write(self, label: str, value: object) -> None:
        """Into a field: a click, all of it selected, the value, Enter."""
        self.clicks += 1
        with self:
            self.page.get_by_label(label, exact=True).click()
            self.press("Control+A")
            self.type(str(value))
            self.press("Enter")

    def paste(self, where: Locator, text: str, end: str) -> None:
        self.clicks += 1
        self.keys += 2
        with self:
            where.fill(text)
            where.press(end)

    def choose(self, label: str, typed: str, option: str | re.Pattern[str]) -> None:
        """Of a list: a click, a few letters, a click on what is left."""
        self.clicks += 2
        with self:
            self.page.get_by_role("combobox", name=re.compile(rf"\b{label}$")).first.click()
            self.type(typed)
            self.page.get_by_role("option", name=option).first.click()

    def turn_to(self, page: str) -> None:
        self.click(self.page.get_by_role("link", name=page, exact=True))

    def button(self, name: str) -> Locator:
        return self.page.get_by_test_id("stMain").get_by_role("button", name=name).first

    def offers(self, name: str) -> bool:
        """Whether the page has a button of this name that can be pressed."""
        found = self.button(name)
        return bool(found.count()) and found.is_enabled()

    def verdict(self) -> str:
        found = self.page.get_by_test_id("stAlert").filter(has_text=VERDICT).first
        return found.inner_text().strip().rpartition("\n")[2] if found.count() else "no verdict"

    def figures(self) -> list[str]:
        """The metrics' values, in the page's order."""
        return self.page.get_by_test_id("stMetricValue").all_inner_texts()

    def cost(self) -> str:
        return next((value for value in self.figures() if "$" in value), "no cost")

    def script(self) -> str:
        """What Launch gives: its files are taken where there are any."""
        button = self.button("All files as zip")
        if not button.count():
            return "No script."
        with self.page.expect_download():
            self.click(button)
        return "A script."

    def sees(self, what: Locator) -> bool:
        """Whether it is in the window without scrolling."""
        expect(what).to_be_attached()
        return bool(
            what.evaluate(
                "at => { const box = at.getBoundingClientRect();"
                "return box.height > 0 && box.top >= 0 && box.bottom <= window.innerHeight; }"
            )
        )
