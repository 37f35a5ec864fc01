"""Pictures of every page, light and dark, wide and narrow: to be looked at by a person.

``scripts/screenshots [FOLDER [PAGE ...]]``, or ``--readme`` for the README's picture alone.
"""

from __future__ import annotations

import sys
from pathlib import Path

from playwright.sync_api import Browser, Page
from running_app import REPOSITORY, app, chromium, settle

PAGES = (
    *("", "import", "scaling", "recommend", "compare", "trial", "sampling", "launch", "examples"),
    "formulas",
)
WIDTHS = (1400, 420)
SCHEMES = ("light", "dark")


def take(browser: Browser, address: str, folder: Path, only: tuple[str, ...]) -> None:
    for scheme in SCHEMES:
        for width in WIDTHS:
            height = 1000 if width > 800 else 860
            context = browser.new_context(
                color_scheme=scheme, viewport={"width": width, "height": height}
            )
            for name in PAGES:
                if only and (name or "plan") not in only:
                    continue
                page = context.new_page()
                page.goto(f"{address}/{name}")
                settle(page)
                if not name:
                    check(page)
                page.wait_for_timeout(1500)
                # Streamlit scrolls inside the window: grow it until everything is in sight.
                tall = page.locator("[data-testid=stMainBlockContainer]").evaluate(
                    "block => block.scrollHeight"
                )
                page.set_viewport_size({"width": width, "height": max(height, tall + 80)})
                page.wait_for_timeout(700)
                page.screenshot(path=folder / f"{name or 'plan'}-{scheme}-{width}.png")
                page.close()
            context.close()


def check(page: Page) -> None:
    """The Plan page with a dry run's answer on it: executed for the first picture, then stored."""
    button = page.get_by_role("button", name="Check with a dry run")
    if button.count():
        button.click()
        page.get_by_text("Alive at the peak").wait_for(timeout=180_000)
        settle(page)


def for_the_readme(browser: Browser, address: str) -> None:
    page = browser.new_page(viewport={"width": 1400, "height": 1210})
    page.goto(f"{address}/?v=1&preset=ppo-7b@1&response_tokens=8192")
    settle(page)
    page.wait_for_timeout(1500)
    page.screenshot(path=REPOSITORY / "docs" / "screenshot-plan.png")


if __name__ == "__main__":
    if sys.argv[1:] == ["--readme"]:
        with app() as running, chromium() as chrome:
            for_the_readme(chrome, running)
        sys.exit()
    target = Path(sys.argv[1] if len(sys.argv) > 1 else "tests/browser/screenshots")
    target.mkdir(parents=True, exist_ok=True)
    with app() as running, chromium() as chrome:
        take(chrome, running, target, tuple(sys.argv[2:]))
    print(f"Look at {target}")
