"""Files are taken while a page asks for one, and refused otherwise."""

from __future__ import annotations

import json

from playwright.sync_api import Page, Request, expect
from running_app import settle

from own_tokenizer import lines, words_file

CONFIG = {
    "model_type": "llama",
    "hidden_size": 512,
    "intermediate_size": 1024,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "vocab_size": 32000,
    "max_position_embeddings": 8192,
}


def choose_model(page: Page, typed: str) -> None:
    box = page.get_by_role("combobox", name="Model", exact=False).first
    box.fill(typed)
    box.press("Enter")
    settle(page)


def test_a_file_is_taken_only_while_the_page_asks_for_one(page: Page, server: str) -> None:
    sent: list[Request] = []

    def hear(request: Request) -> None:
        if request.method == "PUT":
            sent.append(request)

    page.on("request", hear)
    page.goto(server)
    settle(page)
    choose_model(page, "Other model")
    page.get_by_text("Upload", exact=True).first.click()
    settle(page)
    content = json.dumps(CONFIG).encode()
    file = {"name": "config.json", "mimeType": "application/json", "buffer": content}
    page.locator("input[type=file]").first.set_input_files(file)
    expect(page.get_by_text("4 layers, width 512")).to_be_visible()
    settle(page)
    choose_model(page, "Qwen/Qwen2.5-1.5B")
    expect(page.locator("input[type=file]")).to_have_count(0)

    page.remove_listener("request", hear)
    [request] = sent
    headers = {name: value for name, value in request.headers.items() if "xsrf" in name.lower()}
    answer = page.request.put(request.url, headers=headers, multipart={"file": file})
    assert answer.status == 403
    large = {**file, "buffer": b"0" * 17 * 2**20}
    assert page.request.put(request.url, headers=headers, multipart={"file": large}).status == 413


def send(page: Page, place: int, name: str, content: bytes) -> None:
    file = {"name": name, "mimeType": "application/json", "buffer": content}
    uploader = page.get_by_test_id("stFileUploader").nth(place)
    uploader.locator("input[type=file]").set_input_files(file)


def test_texts_are_counted_given_up_and_counted_again(page: Page, server: str) -> None:
    """The tokenizer's file takes the texts' place in the server, and they are still here."""
    # All of the sidebar in sight: where it scrolls to a list, the list closes.
    page.set_viewport_size({"width": 1400, "height": 1500})
    page.goto(server)
    settle(page)
    box = page.get_by_role("combobox", name="Response lengths", exact=False).first
    box.fill("My own")
    box.press("Enter")
    settle(page)
    page.get_by_text("File", exact=True).first.click()
    settle(page)
    send(page, 0, "answers.jsonl", lines(*("a " * 300 for _ in range(24_000))))
    expect(page.get_by_text("answers.jsonl holds texts")).to_be_visible()
    begin = page.get_by_role("button", name="Count tokens")
    expect(begin).to_be_disabled()
    send(page, 1, "tokenizer.json", words_file())
    expect(page.get_by_text("Tokens are counted by the uploaded tokenizer.json.")).to_be_visible()
    settle(page)
    begin.click()
    expect(page.get_by_text("of 24,000 lines")).to_be_visible()
    page.get_by_role("button", name="Cancel").click()
    expect(page.get_by_text("Given up; the texts are still here.")).to_be_visible()
    settle(page)
    begin.click()
    expect(page.get_by_text("Counted 24,000 texts of answers.jsonl, from 301 to")).to_be_visible()
    expect(page.get_by_text("Responses of 301 tokens on average").first).to_be_visible()
    expect(page.get_by_text("AttributeError")).to_have_count(0)
