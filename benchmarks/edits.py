"""Milliseconds and CPU seconds from an edit on the Plan page to its new verdict, in Chromium.

Run: python -m benchmarks.edits [edits [preset]]. Starts the app; prints one line and one JSON
line. Every edit is of a plan not asked before; its verdict is there when sentence or figures are
others. CPU seconds are the server's, all threads: a busy machine changes them little,
milliseconds much.
"""

from __future__ import annotations

import json
import statistics
import sys
from pathlib import Path

from playwright.sync_api import Page

sys.path[:0] = [str(Path(__file__).parents[1] / place) for place in ("tests/browser", "tests")]

from running_app import PROCESSES, app, chromium, cpu_seconds, settle, window  # noqa: E402

FIRST_TOKENS = 4096
WARM = 5
WATCH = """() => {
    const read = () => [...document.querySelectorAll(
        "[data-testid='stAlert'], [data-testid='stMetricValue']")].map(one => one.innerText).join();
    const before = read();
    window.took = 0;
    addEventListener("keydown", key => {
        const look = () => {
            if (read() !== before) window.took = performance.now() - key.timeStamp;
            else requestAnimationFrame(look);
        };
        look();
    }, {capture: true, once: true});
}"""


def edit(page: Page, tokens: int) -> float:
    """Milliseconds from the key that ends an edit to a verdict that is another."""
    field = page.get_by_label("Response, tokens", exact=True)
    field.fill(str(tokens))
    page.evaluate(WATCH)
    field.press("Enter")
    page.wait_for_function("() => window.took > 0")
    return float(page.evaluate("() => window.took"))


def main(edits: int = 20, preset: str = "grpo-7b@1") -> None:
    """Lengthen responses so often, and wait each time until the page is at rest."""
    shown, taken = [], []
    with app() as address, chromium() as browser:
        page = window(browser).new_page()
        sizes = {"bytes": 0}

        def count(frame: str | bytes) -> None:
            sizes["bytes"] += len(frame)

        page.on("websocket", lambda socket: socket.on("framereceived", count))
        page.goto(f"{address}/?v=1&preset={preset}&response_tokens={FIRST_TOKENS}")
        settle(page)
        for number in range(edits + WARM):
            if number == WARM:
                sizes["bytes"] = 0
            before = cpu_seconds(PROCESSES[address])
            milliseconds = edit(page, FIRST_TOKENS + 640 * (number + 1))
            settle(page)
            if number >= WARM:
                shown.append(milliseconds)
                taken.append(cpu_seconds(PROCESSES[address]) - before)
    answer = {
        "verdict_milliseconds_median": round(statistics.median(shown)),
        "verdict_milliseconds_slowest": round(max(shown)),
        "cpu_seconds_an_edit": round(statistics.mean(taken), 3),
        "kilobytes_an_edit": round(sizes["bytes"] / edits / 1000, 1),
    }
    print(
        f"{edits} edits of {preset}: verdict after {answer['verdict_milliseconds_median']} ms "
        f"(median), {answer['verdict_milliseconds_slowest']} ms (slowest); "
        f"{answer['cpu_seconds_an_edit']} CPU s and {answer['kilobytes_an_edit']} kB each"
    )
    print(json.dumps(answer))


if __name__ == "__main__":
    main(*(kind(text) for kind, text in zip((int, str), sys.argv[1:3], strict=False)))
