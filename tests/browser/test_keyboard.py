"""Every page by keyboard alone: where the keyboard is can be seen, nothing holds it, and it does.

A stop is a place that Tab leads to. Cells of a table are drawn by its grid, which marks its own.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from typing import Any

import pytest
from PIL import Image, ImageChops
from playwright.sync_api import ElementHandle, Page, expect
from running_app import settle

PAGES = (
    *("", "import", "scaling", "recommend", "compare", "trial", "sampling", "launch", "examples"),
    "formulas",
)
MOST = 250
"""Stops of the longest page, twice over."""
AROUND = 8
MARKED = """at => {
    const style = getComputedStyle(at);
    const outlined = style.outlineStyle !== "none" && parseFloat(style.outlineWidth) > 0;
    return outlined || style.boxShadow !== "none";
}"""
OF_A_GRID = "at => !!at.closest('[data-testid=stDataFrameResizable]')"
IN_THE_SIDEBAR = "at => !!at.closest('[data-testid=stSidebar]')"
CALLED = """at => `${at.tagName} ${at.getAttribute("aria-label") || at.innerText || ""}`"""


def stop(page: Page) -> ElementHandle:
    found = page.evaluate_handle("document.activeElement").as_element()
    assert found is not None
    return found


def picture(page: Page, at: ElementHandle) -> Image.Image | None:
    """What is drawn there and around it; None of what is not in the window."""
    box, window = at.bounding_box(), page.viewport_size
    if box is None or window is None:
        return None
    x, y = max(box["x"] - AROUND, 0), max(box["y"] - AROUND, 0)
    wide = min(box["width"] + 2 * AROUND, window["width"] - x)
    high = min(box["height"] + 2 * AROUND, window["height"] - y)
    if wide <= 0 or high <= 0:
        return None
    clip: Any = {"x": x, "y": y, "width": wide, "height": high}
    drawn = page.screenshot(clip=clip, animations="disabled")
    return Image.open(io.BytesIO(drawn)).convert("L")


def differ(one: Image.Image | None, other: Image.Image | None) -> bool:
    """Whether somebody sees the two apart; pictures of what moved are no proof, and are."""
    if one is None or other is None or one.size != other.size:
        return True
    changed = ImageChops.difference(one, other).point(lambda value: 255 if value > 24 else 0)
    return changed.histogram()[255] >= 20


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path or "plan")
def test_every_stop_shows_that_it_is_one_and_none_holds_the_keyboard(
    page: Page, server: str, path: str
) -> None:
    page.goto(f"{server}/{path}")
    settle(page)
    unseen, before = [], None
    for number in range(MOST):  # noqa: B007
        page.keyboard.press("Tab")
        at = stop(page)
        if before is not None:
            left, drawn = before
            if not differ(drawn, picture(page, left)):
                unseen.append(left.evaluate(CALLED)[:60])
        if at.evaluate("at => at === document.body"):
            break
        # Inputs are the same beside every page, and are looked at on the first.
        passed = bool(path) and at.evaluate(IN_THE_SIDEBAR)
        marked = passed or at.evaluate(MARKED) or at.evaluate(OF_A_GRID)
        before = None if marked else (at, picture(page, at))
    else:
        raise AssertionError(f"{MOST} tabs do not lead around {path}: {at.evaluate(CALLED)[:60]}")
    assert number > 40 and unseen == []
    page.keyboard.press("Shift+Tab")
    assert not stop(page).evaluate("at => at === document.body"), "and back again"


def to(page: Page, there: str) -> None:
    """Tabs until what has the keyboard is the thing that a condition of ``at`` names."""
    for _ in range(MOST):
        page.keyboard.press("Tab")
        if page.evaluate(f"() => {{ const at = document.activeElement; return {there}; }}"):
            return
    raise AssertionError(f"{MOST} tabs do not lead to {there}")


def to_button(page: Page, name: str) -> None:
    """One of ours: Streamlit's header has a Stop of its own while a script runs."""
    ours = "at.tagName === 'BUTTON' && !at.role && at.dataset.testid !== 'stBaseButton-header'"
    to(page, f"{ours} && /(^|\\s){name}$/.test(at.innerText.trim())")


def to_field(page: Page, name: str) -> None:
    to(page, f"at.tagName === 'INPUT' && at.getAttribute('aria-label')?.endsWith({name!r})")


def to_radio(page: Page, name: str) -> None:
    to(page, f"at.getAttribute('role') === 'radio' && at.innerText.trim() === {name!r}")


OPEN = "() => document.activeElement.parentElement.open"
"""Whether the fold is open whose title has the keyboard."""


def press(page: Page, *keys: str) -> None:
    for key in keys:
        page.keyboard.press(key)
    settle(page)


def find(page: Page, option: str) -> None:
    """Type into an open list; it narrows a moment later, and Enter takes its first option.

    A list that is drawn anew meanwhile loses what is typed, so first nothing may be under way.
    """
    settle(page)
    page.keyboard.type(option)
    expect(page.get_by_role("option").first).to_contain_text(option)


def takes_other_gpus(page: Page) -> None:
    to_radio(page, "Hide")
    press(page, "ArrowRight", "Space")
    expect(page.get_by_text("Cheapest:")).to_be_visible()
    to_field(page, "Or choose by name")
    find(page, "4 × H200")
    press(page, "Enter")
    to_button(page, "Apply")
    press(page, "Enter")
    expect(page.get_by_text("Applied.").first).to_be_attached()
    assert "gpu=h200-141gb" in page.url and "gpus=4" in page.url


def varies_gpus(page: Page) -> None:
    to_radio(page, "Response length")
    press(page, "ArrowRight", "ArrowRight", "ArrowRight", "Space")
    expect(page.get_by_text("Knee: 8 GPUs", exact=True)).to_be_visible()


def asks_for_plans(page: Page) -> None:
    to_field(page, "Goal")
    page.keyboard.type("Cheapest")
    page.keyboard.press("Enter")
    to_button(page, "Find plans")
    press(page, "Enter")
    expect(page.get_by_text(re.compile("^Cheapest: the .*balanced.* plan"))).to_be_visible()
    to_button(page, "Apply")
    press(page, "Enter")
    expect(page.get_by_text("Applied.")).to_be_visible()


def pins_and_compares(page: Page) -> None:
    to_button(page, "Pin this plan")
    press(page, "Enter")
    page.wait_for_url(lambda url: "pin=" in url)
    to_field(page, "Response, tokens")
    page.keyboard.press("Control+A")
    page.keyboard.type("4096")
    press(page, "Enter")
    expect(page.get_by_text("Which differences matter")).to_be_visible()


def asks_for_a_trial(page: Page) -> None:
    to(page, "at.tagName === 'SUMMARY' && /How it runs/.test(at.innerText)")
    assert not page.evaluate(OPEN)
    press(page, "Enter")
    assert page.evaluate(OPEN)
    to_button(page, "Run the trial")
    page.keyboard.press("Enter")
    expect(page.get_by_test_id("stMain").get_by_role("button", name="Stop")).to_be_visible()
    to_button(page, "Stop")
    page.keyboard.press("Enter")
    # "Stopped." while it goes; "Stopped; nothing was measured." of one that had no step.
    expect(page.get_by_text(re.compile(r"^Stopped[.;]")).first).to_be_visible()


def plans_sampling(page: Page) -> None:
    to_field(page, "Prompts")
    page.keyboard.press("Control+A")
    page.keyboard.type("5000000")
    press(page, "Enter")
    page.wait_for_url(lambda url: "prompts=5000000" in url)


def saves_a_script(page: Page) -> None:
    to_radio(page, "Plain PyTorch")
    press(page, "ArrowRight", "ArrowRight", "Space")
    expect(page.get_by_role("tab", name="launch.sh")).to_be_visible()
    to_button(page, "launch.sh")
    with page.expect_download() as saved:
        page.keyboard.press("Enter")
    assert saved.value.suggested_filename == "launch.sh"


def moves_a_slider_and_opens_the_plan(page: Page) -> None:
    to_field(page, "Tokens of a response")
    before = page.get_by_test_id("stMain").inner_text()
    press(page, "ArrowLeft")
    assert page.get_by_test_id("stMain").inner_text() != before
    to_button(page, "Open as plan")
    press(page, "Enter")
    page.wait_for_url(lambda url: "/examples" not in url)
    expect(page.get_by_role("heading", name="Phases of a step")).to_be_visible()


def finds_a_formula(page: Page) -> None:
    to_field(page, "Search")
    page.keyboard.type("one sequence")
    press(page, "Enter")
    to(page, "at.tagName === 'SUMMARY' && at.closest('[data-testid=stMain]')")
    assert not page.evaluate(OPEN)
    press(page, "Enter")
    assert page.evaluate(OPEN)


WALKS: dict[str, Callable[[Page], None]] = {
    "": takes_other_gpus,
    "scaling": varies_gpus,
    "recommend": asks_for_plans,
    "compare": pins_and_compares,
    "trial": asks_for_a_trial,
    "sampling": plans_sampling,
    "launch": saves_a_script,
    "examples": moves_a_slider_and_opens_the_plan,
    "formulas": finds_a_formula,
}
SMALL = "?v=6&preset=grpo-7b@1&model=Qwen/Qwen2.5-0.5B"


@pytest.mark.parametrize("path", WALKS, ids=lambda path: path or "plan")
def test_what_a_page_is_for_is_done_by_keyboard_alone(
    page: Page, server: str, path: str
) -> None:
    page.goto(f"{server}/{path}{SMALL if path == 'recommend' else ''}")
    settle(page)
    WALKS[path](page)
