"""The search over settings, and a model that is typed where the list is."""

from __future__ import annotations

import re

from playwright.sync_api import Page, expect
from running_app import settle


def test_a_result_leads_to_its_input(page: Page, server: str) -> None:
    page.goto(server)
    settle(page)
    box = page.get_by_label("Find a setting", exact=True)
    box.fill("fp8 kv")
    box.press("Enter")
    page.get_by_test_id("stSidebar").get_by_role("button", name="KV cache").click()
    field = page.get_by_role("combobox", name="KV cache")
    expect(field).to_be_focused()
    expect(field).to_be_in_viewport()


def test_an_id_that_no_list_has_is_taken_as_it_is_typed(page: Page, server: str) -> None:
    page.goto(server)
    settle(page)
    box = page.get_by_label("Model", exact=True)
    box.fill("Qwen2.5-7C")
    box.press("Enter")
    error = page.get_by_test_id("stSidebar").get_by_test_id("stAlert")
    expect(error).to_contain_text(re.compile("Did you mean|closest|Qwen/Qwen2.5-7B"))
    expect(page.get_by_label("config.json", exact=True)).to_be_visible()
