"""Milliseconds and CPU seconds from an edit on the Plan page to its new verdict, in Chromium.

Run: python -m benchmarks.edits [edits [preset [COMMIT]]]. Starts the app, and a commit's beside it,
which are edited in turns; prints a line and a JSON line of each. Every edit is of a plan not asked
before; its verdict is there when sentence or figures are others. CPU seconds are the server's, all
threads: a busy machine changes them little, milliseconds much.
"""

from __future__ import annotations

import json
import statistics
import sys
from contextlib import ExitStack
from pathlib import Path

from playwright.sync_api import Page

sys.path[:0] = [str(Path(__file__).parents[1] / place) for place in ("tests/browser", "tests")]

from running_app import (  # noqa: E402
    PROCESSES,
    REPOSITORY,
    app,
    chromium,
    cpu_seconds,
    settle,
    window,
)

from benchmarks.against import files_of  # noqa: E402

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


class Visit:
    """A page of a server's, and what its edits took."""

    def __init__(self, page: Page, address: str, preset: str) -> None:
        self.page, self.process = page, PROCESSES[address]
        self.shown: list[float] = []
        self.taken: list[float] = []
        self.bytes = 0
        page.on("websocket", lambda socket: socket.on("framereceived", self._count))
        page.goto(f"{address}/?v=1&preset={preset}&response_tokens={FIRST_TOKENS}")
        settle(page)

    def _count(self, frame: str | bytes) -> None:
        self.bytes += len(frame)

    def edit(self, number: int) -> None:
        """Lengthen responses, and wait until the page is at rest; the first few do not count."""
        if number == WARM:
            self.bytes = 0
        before = cpu_seconds(self.process)
        milliseconds = edit(self.page, FIRST_TOKENS + 640 * (number + 1))
        settle(self.page)
        if number >= WARM:
            self.shown.append(milliseconds)
            self.taken.append(cpu_seconds(self.process) - before)


def main(edits: int = 20, preset: str = "grpo-7b@1", commit: str = "") -> None:
    """So many edits of each checkout, in turns."""
    with ExitStack() as stack:
        places = {"now": REPOSITORY}
        if commit:
            places = {commit: stack.enter_context(files_of(commit)), **places}
        browser = stack.enter_context(chromium())
        visits = {
            name: Visit(window(browser).new_page(), stack.enter_context(app(of=of)), preset)
            for name, of in places.items()
        }
        for number in range(edits + WARM):
            for visit in visits.values():
                visit.edit(number)
    for name, visit in visits.items():
        answer = {
            "verdict_milliseconds_median": round(statistics.median(visit.shown)),
            "verdict_milliseconds_slowest": round(max(visit.shown)),
            "cpu_seconds_an_edit": round(statistics.mean(visit.taken), 3),
            "kilobytes_an_edit": round(visit.bytes / edits / 1000, 1),
        }
        print(
            f"{name}: {edits} edits of {preset}: verdict after "
            f"{answer['verdict_milliseconds_median']} ms (median), "
            f"{answer['verdict_milliseconds_slowest']} ms (slowest); "
            f"{answer['cpu_seconds_an_edit']} CPU s and {answer['kilobytes_an_edit']} kB each"
        )
        print(json.dumps({"of": name, **answer}))


if __name__ == "__main__":
    main(*(kind(text) for kind, text in zip((int, str, str), sys.argv[1:4], strict=False)))
