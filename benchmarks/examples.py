"""Milliseconds from a slider's move on an example card to its new figures, in Chromium.

Run: python -m benchmarks.examples [moves]. Starts the app; prints one line a card, then one JSON
line. The first round of moves computes its places, the later ones find them kept.
"""

from __future__ import annotations

import json
import statistics
import sys
from pathlib import Path

from playwright.sync_api import Page

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "browser"))

from running_app import app, chromium, settle, window  # noqa: E402

from planner.examples.documents import DOCUMENTS  # noqa: E402

WATCH = """() => {
    const read = () => [...document.querySelectorAll("[data-testid='stMetricValue']")]
        .map(value => value.innerText).join();
    const before = read(), start = performance.now();
    window.took = 0;
    const look = () => {
        if (read() !== before) window.took = performance.now() - start;
        else requestAnimationFrame(look);
    };
    look();
}"""


def move(page: Page, number: str, key: str) -> float:
    """Milliseconds from one key on a card's slider to a figure that is another."""
    page.locator(f".st-key-slider-{number} input").focus()
    page.evaluate(WATCH)
    page.keyboard.press(key)
    page.wait_for_function("() => window.took > 0")
    took = float(page.evaluate("() => window.took"))
    settle(page)
    return took


def main(moves: int = 12) -> None:
    """Move each slider there and back, ``moves`` times."""
    medians = {}
    with app() as address, chromium() as browser:
        page = window(browser).new_page()
        page.goto(f"{address}/examples")
        last = DOCUMENTS[-1].number
        page.locator(f".st-key-slider-{last} input").wait_for(state="attached")
        settle(page)
        for document in DOCUMENTS:
            keys = ["ArrowRight", "ArrowLeft"] * (moves // 2)
            first, *later = [move(page, document.number, key) for key in keys]
            medians[document.number] = round(statistics.median(later))
            print(
                f"{document.number}: first {first:.0f} ms, then {medians[document.number]} ms "
                f"(median of {len(later)}), {max(later):.0f} ms (slowest)"
            )
    print(json.dumps({"slider_milliseconds_median": medians}))


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:2]))
