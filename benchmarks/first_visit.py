"""Seconds from the first address of a fresh server to its verdict and its chart, in Chromium.

Run: python -m benchmarks.first_visit [COMMIT [visits [pause]]]. Starts the app anew for each visit,
in turns with a commit's; ``pause`` seconds pass between the server's first answer and the visit.
Prints a line a visit, then one JSON line with medians: seconds to the verdict, to the chart, and
the server's CPU seconds meanwhile.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from contextlib import ExitStack
from pathlib import Path

from playwright.sync_api import Browser

sys.path[:0] = [str(Path(__file__).parents[1] / place) for place in ("tests/browser", "tests")]

from running_app import PROCESSES, REPOSITORY, app, chromium, cpu_seconds, window  # noqa: E402

from benchmarks.against import files_of  # noqa: E402

SHOWN = "[data-testid='stAlert']", ".vega-embed canvas, .vega-embed svg"
"""The verdict, and the chart."""


def visit(browser: Browser, of: Path, pause: float) -> list[float]:
    """Seconds to the verdict, seconds to the chart, CPU seconds."""
    with app(of=of) as address, window(browser) as visitor:
        time.sleep(pause)
        page = visitor.new_page()
        start, before = time.perf_counter(), cpu_seconds(PROCESSES[address])
        page.goto(address, wait_until="commit")
        found = []
        for selector in SHOWN:
            page.wait_for_selector(selector)
            found.append(time.perf_counter() - start)
        return [*found, cpu_seconds(PROCESSES[address]) - before]


def main(commit: str = "", visits: int = 3, pause: float = 0.0) -> None:
    """Visit so often, in turns."""
    with ExitStack() as stack:
        places = {"now": REPOSITORY}
        if commit:
            places = {commit: stack.enter_context(files_of(commit)), **places}
        browser = stack.enter_context(chromium())
        turns: dict[str, list[list[float]]] = {name: [] for name in places}
        for _ in range(visits):
            for name, of in places.items():
                turns[name].append(visit(browser, of, pause))
                verdict, chart, cpu = turns[name][-1]
                print(f"{name}: verdict {verdict:.2f} s, chart {chart:.2f} s, {cpu:.2f} CPU s")
    columns = {name: zip(*rows, strict=True) for name, rows in turns.items()}
    print(
        json.dumps({n: [round(statistics.median(c), 2) for c in cs] for n, cs in columns.items()})
    )


if __name__ == "__main__":
    kinds = (str, int, float)
    main(*(kind(text) for kind, text in zip(kinds, sys.argv[1:4], strict=False)))
