"""The Scaling page in Chromium: three panels as wide as the page, one pointer, one row opened."""

from __future__ import annotations

from playwright.sync_api import Page, expect
from running_app import settle

TIP = "#vg-tooltip-element.visible"
WIDEST = """chart => Math.max(
    ...[...chart.querySelectorAll("svg, canvas")].map(one => one.getBoundingClientRect().width)
)"""


def test_one_pointer_reads_memory_seconds_and_dollars_and_a_row_opens(
    page: Page, server: str
) -> None:
    page.set_viewport_size({"width": 1400, "height": 2000})
    page.goto(f"{server}/scaling")
    settle(page)
    chart = page.get_by_test_id("stVegaLiteChart")
    expect(chart.get_by_text("Dollars per run", exact=True)).to_be_visible()
    place = chart.bounding_box()
    assert place is not None
    assert abs(chart.evaluate(WIDEST) - place["width"]) <= 4, "neither cut off nor narrower"
    for share in (0.2, 0.8):  # the first panel, and the last
        for along in (0.4, 0.5):
            height = place["y"] + share * place["height"]
            page.mouse.move(place["x"] + along * place["width"], height)
        for word in ("policy backward, GiB", "Seconds per step, s", "Dollars per run, $"):
            expect(page.locator(TIP)).to_contain_text(word)

    expect(page.get_by_role("button", name="Select a row to apply it", exact=True)).to_be_disabled()
    table = page.get_by_test_id("stDataFrame").bounding_box()
    assert table is not None
    page.mouse.click(table["x"] + 18, table["y"] + 3.5 * 35)  # the third row's box
    button = page.get_by_role("button", name="Apply: Response length")
    length = button.inner_text().rpartition(" ")[2]
    button.click()
    settle(page)
    expect(page.get_by_label("Response, tokens", exact=True)).to_have_value(length)
