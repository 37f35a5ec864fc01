"""What people bring, pasted and dropped in a real browser, with the keyboard as well."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import Page, expect
from running_app import settle

from importer.test_imported import OOM, VERL

BIG = VERL.replace("7B-Instruct", "32B-Instruct").replace("micro=32", "micro=64")


def test_a_pasted_script_comes_back_changed(page: Page, server: str, tmp_path: Path) -> None:
    page.goto(f"{server}/import")
    settle(page)
    page.get_by_role("textbox", name="Paste a script").fill(BIG)
    page.keyboard.press("Control+Enter")
    settle(page)
    page.get_by_role("button", name="Read", exact=True).click()
    expect(page.get_by_text("GRPO of Qwen2.5-32B-Instruct with verl").first).to_be_visible()
    settle(page)
    page.get_by_role("button", name="Make it fit").click()
    expect(page.get_by_text("Your file, with this change")).to_be_visible(timeout=60_000)
    with page.expect_download() as found:
        page.get_by_role("button", name="Save pasted-text.sh").click()
    found.value.save_as(tmp_path / "run.sh")
    changed = (tmp_path / "run.sh").read_text().splitlines()
    assert changed[:4] == BIG.splitlines()[:4]
    assert "micro=64" not in changed
    page.get_by_role("textbox", name="Paste a script").fill(OOM)
    page.keyboard.press("Control+Enter")
    settle(page)
    page.get_by_role("button", name="Read", exact=True).click()
    expect(page.get_by_text("Out of memory: torch")).to_be_visible(timeout=60_000)
    settle(page)
    expect(page.get_by_text("policy backward").first).to_be_visible()


def test_several_files_are_dropped_together(page: Page, server: str) -> None:
    page.goto(f"{server}/import")
    settle(page)
    kinds = {"run.sh": VERL, "printed.log": OOM}
    page.locator("input[type=file]").last.set_input_files(
        [
            {"name": name, "mimeType": "text/plain", "buffer": text.encode()}
            for name, text in kinds.items()
        ]
    )
    for name in kinds:
        expect(page.get_by_text(name).first).to_be_visible()
    settle(page)
    expect(page.get_by_text("GRPO of Qwen2.5-7B-Instruct with verl").first).to_be_visible()
    expect(page.get_by_text("Out of memory: torch")).to_be_visible()


def test_the_plan_page_leads_there(page: Page, server: str) -> None:
    page.goto(server)
    settle(page)
    page.get_by_role("link", name="Import").first.click()
    expect(page.get_by_text("Nothing of it is run")).to_be_visible()


def test_by_the_keyboard_alone(page: Page, server: str) -> None:
    page.goto(f"{server}/import")
    settle(page)
    page.get_by_role("textbox", name="Paste a script").focus()
    page.keyboard.insert_text(VERL)
    page.keyboard.press("Control+Enter")
    settle(page)
    button = page.get_by_role("button", name="Read", exact=True)
    for _ in range(12):
        if button.evaluate("it => it === document.activeElement"):
            break
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.get_by_text("GRPO of Qwen2.5-7B-Instruct with verl").first).to_be_visible()
