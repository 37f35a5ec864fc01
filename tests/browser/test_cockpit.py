"""The Plan page's verdict stays in sight, its phases can be chosen, and it asks no other host."""

from __future__ import annotations

from playwright.sync_api import Page, Request, expect
from running_app import DESKTOP, PHONE, settle

ROW = 30
"""Pixels of a phase in the chart."""


def chosen(page: Page) -> str:
    return page.get_by_label("Phase", exact=True).input_value()


def click(page: Page, place: int, phases: int, chart: str = "phase-chart") -> None:
    """Click on a phase's bar, counted from the top; the axis below takes 56 pixels."""
    drawn = page.locator(f"[class*=st-key-{chart}] .vega-embed")
    drawn.scroll_into_view_if_needed()
    box = drawn.bounding_box()
    assert box is not None
    top = box["y"] + box["height"] - 56 - ROW * phases
    page.mouse.click(box["x"] + 110, top + ROW * (place + 0.5))


def test_verdict_and_name_stay_in_sight_and_nobody_else_is_asked(page: Page, server: str) -> None:
    asked: list[str] = []

    def hear(request: Request) -> None:
        asked.append(request.url)

    page.on("request", hear)
    page.goto(server)
    settle(page)
    page.remove_listener("request", hear)
    verdict = page.locator(".st-key-verdict-short")
    expect(page.get_by_test_id("stSidebar").get_by_role("img").first).to_be_visible()
    expect(verdict).to_be_hidden()  # all of it stands below
    page.get_by_test_id("stMain").evaluate("main => main.scrollTo(0, 1500)")
    expect(page.get_by_role("heading", name="Phases of a step")).not_to_be_in_viewport()
    expect(verdict).to_be_in_viewport(ratio=1)
    expect(verdict).to_contain_text("GRPO of Qwen2.5-7B")
    assert [url for url in asked if not url.startswith((server, "data:", "blob:"))] == []


def test_on_a_phone_the_verdict_stays_over_page_and_inputs(page: Page, server: str) -> None:
    page.set_viewport_size(PHONE)
    page.goto(server)
    settle(page)
    page.get_by_test_id("stMain").evaluate("main => main.scrollTo(0, 1500)")
    short = page.locator(".st-key-verdict-short")
    expect(short).to_be_in_viewport(ratio=1)
    page.get_by_test_id("stExpandSidebarButton").first.click()
    beside = page.locator(".st-key-verdict-beside")
    length = page.get_by_label("Response, tokens", exact=True)
    length.scroll_into_view_if_needed()
    before = beside.inner_text()
    length.fill("4096")
    length.press("Enter")
    expect(beside).not_to_have_text(before)
    expect(beside).to_be_in_viewport(ratio=1)


def test_after_an_impossible_plan_the_worst_phase_is_the_chosen_one(
    page: Page, server: str
) -> None:
    """The list is new on the page then, and the browser took its first phase for chosen."""
    page.goto(server)
    settle(page)
    count = page.get_by_label("Count", exact=True)
    for gpus in ("9", "8"):
        count.fill(gpus)
        count.press("Enter")
        expect(page.get_by_text("This plan is not possible")).to_have_count(int(gpus == "9"))
        settle(page)
    assert chosen(page) == "rollout (peak)"
    for name in ("Use the free memory", "Hide"):  # they came back with nothing chosen
        expect(page.get_by_role("radio", name=name)).to_be_checked(timeout=10_000)
    length = page.get_by_label("Response, tokens", exact=True)
    length.fill("1024")
    length.press("Enter")
    settle(page)
    assert chosen(page) == "rollout (peak)"
    expect(page.get_by_role("radio", name="Use the free memory")).to_be_checked()


def test_a_phase_is_chosen_by_a_click_and_by_the_keyboard(page: Page, server: str) -> None:
    page.goto(server)
    settle(page)
    names = ["load", "rollout", "old log-probs", "policy forward", "policy backward"]
    phases = 9
    caption = page.get_by_test_id("stCaptionContainer").filter(has_text=", at ")
    assert chosen(page) == "rollout (peak)"
    click(page, 4, phases)
    expect(caption).to_contain_text("policy backward, at")
    page.get_by_label("Phase", exact=True).focus()
    page.keyboard.press("Enter")
    page.keyboard.type("load")
    page.keyboard.press("Enter")
    expect(caption).to_contain_text("load, at")
    settle(page)
    # The same phase as was clicked last.
    click(page, names.index("policy backward"), phases)
    expect(caption).to_contain_text("policy backward, at")


def test_nothing_moves_between_memory_time_and_table(page: Page, server: str) -> None:
    for size in (DESKTOP, PHONE):
        page.set_viewport_size(size)
        page.goto(server)
        settle(page)
        before = tops(page)
        assert len(before) > 5
        for name in ("Time", "Table", "Memory"):
            page.get_by_role("tab", name=name).click()
            settle(page)
            assert tops(page) == before, name
        page.get_by_role("tab", name="Time").click()
        settle(page)
        click(page, 1, 9, "seconds-chart")
        settle(page)
        assert chosen(page) == "rollout (peak)"
        expect(page.get_by_text("What lowers rollout")).to_be_attached()


def tops(page: Page) -> list[object]:
    """Where the titles of the page's parts stand."""
    found: list[object] = page.evaluate(
        """() => {
            const main = document.querySelector("[data-testid=stMain]");
            const at = (one) => Math.round(one.getBoundingClientRect().top + main.scrollTop);
            return [...main.querySelectorAll("h3")].map((one) => [one.innerText, at(one)]);
        }"""
    )
    return found


def test_no_figure_is_cut(page: Page, server: str) -> None:
    for size in (DESKTOP, PHONE):
        page.set_viewport_size(size)
        for link in ("", "?v=8&preset=grpo-7b%401&model=Qwen/Qwen2.5-14B&gpu=a100-40gb"):
            page.goto(f"{server}/{link}")
            settle(page)
            cut = (
                page.get_by_test_id("stMetric")
                .locator("p, div")
                .evaluate_all(
                    "all => all.filter(one => one.scrollWidth > one.clientWidth + 1)"
                    ".map(one => one.innerText)"
                )
            )
            assert cut == [], size
