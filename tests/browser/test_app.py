"""The app as a person meets it: Chromium against ``streamlit run app.py``."""

from __future__ import annotations

import zipfile
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Browser, Page, expect
from running_app import app, settle, window

from free_ports import free_port
from planner.plan import FIELDS
from planner.plan.migrations import VERSION

PAGES = {
    "": "Advice",
    "plan": "Advice",
    "scaling": "Compare with a second plan",
    "recommend": "You get up to four different plans",
    "compare": "Pin this plan, then change it",
    "trial": "Runs a few real training steps of this plan",
    "launch": "Framework",
    "examples": "Does Intuitor need more memory than PPO?",
    "formulas": "The expressions below are the code",
}


def query(page: Page) -> dict[str, str]:
    found = parse_qs(urlsplit(page.url).query, keep_blank_values=True)
    return {key: values[-1] for key, values in found.items()}


def peak(page: Page) -> str:
    return page.get_by_test_id("stMetricValue").first.inner_text()


def number(page: Page, label: str, value: int) -> None:
    """Edit a field; the address bar tells when the script has run with it."""
    before = page.url
    field = page.get_by_label(label, exact=True)
    field.fill(str(value))
    field.press("Enter")
    page.wait_for_url(lambda url: url != before)
    settle(page)


@pytest.fixture(scope="module")
def port() -> int:
    """Of all cold servers, one after the other: what the tab has read of one it has of all."""
    return free_port()


@pytest.mark.parametrize("name", PAGES)
def test_a_cold_deep_link_shows_the_page_in_its_frame(page: Page, port: int, name: str) -> None:
    with app(port=port) as address:
        page.goto(f"{address}/{name}?v=1&preset=grpo-7b@1&response_tokens=1024")
        expect(page.get_by_text(PAGES[name]).first).to_be_visible()
        settle(page)
        expect(page.get_by_label("Response, tokens", exact=True)).to_have_value("1024")
        assert set(FIELDS) <= set(query(page))
        assert urlsplit(page.url).path == f"/{name}"
        page.goto("about:blank")  # before its server is gone


def test_plan_opens_under_its_name_and_stays_there(page: Page, server: str) -> None:
    page.goto(f"{server}/plan?v=1&preset=grpo-7b@1&response_tokens=1024")
    settle(page)
    assert page.get_by_text("Page not found").count() == 0
    named, address = peak(page), page.url
    menu = page.get_by_role("link", name="Plan", exact=True)
    expect(menu).to_have_count(1)
    page.wait_for_timeout(600)
    assert page.url == address
    number(page, "Count", 16)
    assert (urlsplit(page.url).path, query(page)["gpus"]) == ("/plan", "16")
    link = page.get_by_test_id("stCode").last.inner_text().strip()
    assert link.startswith(f"{server}/?") and "gpus=16" in link
    page.go_back()
    settle(page)
    assert (urlsplit(page.url).path, peak(page)) == ("/plan", named)
    for title in ("Scaling", "Plan"):
        page.get_by_role("link", name=title, exact=True).click()
        settle(page)
    assert (urlsplit(page.url).path, peak(page)) == ("/", named)


def test_an_edit_reaches_the_address_and_survives_a_reload(page: Page, server: str) -> None:
    page.goto(server)
    settle(page)
    before = peak(page)
    assert {"v", "preset", "set", *FIELDS} == set(query(page))
    number(page, "Response, tokens", 24_576)
    after = peak(page)
    assert after != before
    page.wait_for_url(lambda url: "response_tokens=24576" in url)
    page.reload()
    settle(page)
    assert peak(page) == after
    expect(page.get_by_label("Response, tokens", exact=True)).to_have_value("24576")


def test_a_copied_link_gives_a_teammate_the_same_numbers(
    page: Page, server: str, browser: Browser
) -> None:
    page.goto(server)
    settle(page)
    number(page, "Count", 16)
    number(page, "Prompt, tokens", 16_384)
    mine = page.get_by_test_id("stMetricValue").all_inner_texts()
    link = page.get_by_test_id("stCode").last.inner_text().strip()
    assert link.startswith(server)
    other = window(browser)
    theirs = other.new_page()
    theirs.goto(link)
    settle(theirs)
    assert theirs.get_by_test_id("stMetricValue").all_inner_texts() == mine
    expect(theirs.get_by_label("Count", exact=True)).to_have_value("16")
    other.close()


def test_back_and_forward_undo_and_redo_an_edit(page: Page, server: str) -> None:
    page.goto(server)
    settle(page)
    count = page.get_by_label("Count", exact=True)
    number(page, "Count", 16)
    number(page, "Count", 32)
    page.wait_for_url(lambda url: "&gpus=32&" in url)
    page.wait_for_timeout(600)
    page.go_back()
    settle(page)
    expect(count).to_have_value("16")
    page.go_back()
    settle(page)
    expect(count).to_have_value("8")
    page.go_forward()
    settle(page)
    expect(count).to_have_value("16")
    settle(page)
    assert query(page)["gpus"] == "16"


def test_pages_share_one_plan(page: Page, server: str) -> None:
    page.goto(server)
    settle(page)
    number(page, "Count", 16)
    for title in ("Scaling", "Launch", "Formulas", "Plan"):
        page.get_by_role("link", name=title, exact=True).click()
        settle(page)
        expect(page.get_by_label("Count", exact=True)).to_have_value("16")
        page.wait_for_url(lambda url: "&gpus=16&" in url)
        assert set(FIELDS) <= set(query(page))


def test_a_group_stays_open_while_its_title_counts(page: Page, server: str) -> None:
    page.goto(server)
    settle(page)
    page.get_by_text("Mini- and micro-batches", exact=True).click()
    settle(page)
    number(page, "Mini-batch, prompts", 32)
    expect(page.get_by_text("Mini- and micro-batches · 1 changed")).to_be_visible()
    expect(page.get_by_label("Mini-batch, prompts", exact=True)).to_be_visible()


def test_fast_edits_are_all_kept(page: Page, server: str) -> None:
    page.goto(server)
    settle(page)
    for label, value in (("Count", "16"), ("Prompt, tokens", "1024"), ("Response, tokens", "3000")):
        page.get_by_label(label, exact=True).fill(value)
        page.get_by_label(label, exact=True).press("Tab")
    page.wait_for_url(lambda url: "response_tokens=3000" in url)
    settle(page)
    found = query(page)
    assert (found["gpus"], found["prompt_tokens"], found["response_tokens"]) == (
        "16",
        "1024",
        "3000",
    )


def test_what_is_being_typed_survives_an_edit_that_makes_no_plan(page: Page, server: str) -> None:
    page.goto(server)
    settle(page)
    page.get_by_label("Prompt, tokens", exact=True).scroll_into_view_if_needed()
    place = page.get_by_label("Prompt, tokens", exact=True).bounding_box()
    number(page, "Count", 42)  # no whole nodes
    expect(page.get_by_text("This plan is not possible")).to_be_visible()
    count = page.get_by_label("Count", exact=True)
    count.fill("16")
    count.press("Tab")
    page.get_by_label("Prompt, tokens", exact=True).fill("1024")
    settle(page)  # the verdict is back before the field is left
    assert page.get_by_label("Prompt, tokens", exact=True).bounding_box() == place
    page.get_by_label("Prompt, tokens", exact=True).press("Tab")
    page.wait_for_url(lambda url: "prompt_tokens=1024" in url)
    assert query(page)["gpus"] == "16"


def test_a_broken_link_is_explained_and_the_rest_of_it_used(page: Page, server: str) -> None:
    page.goto(f"{server}/?v=1&gpus=lots&respones_tokens=5&gpu=h101&prompt_tokens=640")
    settle(page)
    message = page.locator(".st-key-link-message")
    expect(message).to_contain_text("3 parts of this link")
    expect(message).to_contain_text("Did you mean response_tokens?")
    expect(message).to_contain_text("is not in the catalog")
    expect(page.get_by_label("Prompt, tokens", exact=True)).to_have_value("640")
    # The address keeps asking for it, and the page is of the rest, until someone goes on.
    assert query(page)["gpus"] == "lots"
    expect(page.locator(".st-key-verdict")).to_contain_text("Incomplete.")
    expect(page.get_by_test_id("stException")).to_have_count(0)
    page.get_by_role("button", name="Plan without it").click()
    expect(message).to_have_count(0)
    settle(page)
    assert query(page)["gpus"] == "8"
    expect(page.locator(".st-key-verdict")).to_contain_text("Fits. Peak")


def test_the_script_can_be_downloaded(page: Page, server: str) -> None:
    page.goto(f"{server}/launch")
    settle(page)
    with page.expect_download() as event:
        page.get_by_role("button", name="All files as zip").click()
    with zipfile.ZipFile(event.value.path()) as archive:
        script = archive.read("launch.sh").decode()
    assert script.startswith("#!")
    assert f"{server}/?v={VERSION}" in script


def test_an_example_card_holds_still_and_leads_on(page: Page, server: str) -> None:
    def places() -> list[object]:
        return [box.bounding_box() for box in page.locator(".vega-embed").all()]

    page.goto(f"{server}/examples")
    slider = page.locator(".st-key-slider-004 input")
    slider.wait_for(state="attached")
    expect(page.locator(".vega-embed")).to_have_count(5)
    slider.focus()  # which scrolls to it
    settle(page)
    before, peaks = places(), page.get_by_test_id("stMetricValue").all_inner_texts()
    page.keyboard.press("ArrowLeft")
    expect(page.get_by_test_id("stMetricValue").nth(17)).not_to_have_text(peaks[17])
    settle(page)
    assert places() == before
    assert page.get_by_test_id("stMetricValue").all_inner_texts()[:16] == peaks[:16]
    for button, path, shown in (
        ("plan-000", "/", "Advice"),
        ("try-001", "/trial", "Run the trial"),
        ("plan-003", "/sampling", "28 million prompts"),
    ):
        page.goto(f"{server}/examples")
        page.locator(f".st-key-{button} button").click()
        page.wait_for_url(lambda url, path=path: urlsplit(url).path == path)
        expect(page.get_by_text(shown).first).to_be_visible()


def test_a_click_on_a_cause_of_time_opens_it(page: Page, server: str) -> None:
    page.goto(server)
    settle(page)
    page.get_by_role("radio", name="Time", exact=True).click()
    settle(page)
    opened = page.get_by_test_id("stCode").filter(has_text="seconds").first
    before = opened.inner_text()
    table = page.locator(".st-key-causes").get_by_test_id("stDataFrame")
    table.scroll_into_view_if_needed()
    box = table.bounding_box()
    assert box is not None
    # The second row's box, below the header.
    page.mouse.click(box["x"] + 16, box["y"] + 2.5 * 35)
    expect(opened).not_to_have_text(before)
    page.get_by_role("tab", name="Time").click()
    settle(page)
    expect(page.get_by_text("time in a step")).to_be_visible()


def test_the_menu_is_four_keys_away_past_the_sidebar(page: Page, server: str) -> None:
    page.goto(server)
    settle(page)
    page.keyboard.press("Tab")
    expect(page.locator(":focus")).to_have_text("Skip to main content")
    page.keyboard.press("Enter")
    for _ in range(2):
        page.keyboard.press("Shift+Tab")
    last = page.get_by_test_id("stTopNavLink").last
    expect(last).to_be_focused()
    page.keyboard.press("Enter")
    page.wait_for_url(lambda url: urlsplit(url).path == "/formulas")
