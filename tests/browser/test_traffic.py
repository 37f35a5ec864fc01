"""What a first visit shows before there is a page, and what an edit sends: counted, not timed."""

from __future__ import annotations

import re

from playwright.sync_api import Browser, Page, expect
from running_app import app, settle, window
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg

WATCH = """() => {
    window.seen = new Set();
    new MutationObserver(() => {
        for (const one of document.querySelectorAll("[data-testid='stSidebarNav'] a"))
            window.seen.add(one.innerText);
    }).observe(document, {childList: true, subtree: true});
}"""
MOST_BYTES = 56_000
"""Of an edit of a plan that fits; the chart is 29,500 of them."""


def test_streamlits_own_list_of_pages_never_shows(browser: Browser) -> None:
    with app() as address, window(browser) as visitor:
        page = visitor.new_page()
        page.add_init_script(f"({WATCH})()")
        page.goto(address)
        settle(page)
        assert page.evaluate("() => [...window.seen]") == []
        expect(page.get_by_test_id("stTopNavLink").first).to_be_visible()


def test_an_edit_runs_one_script_and_sends_little(page: Page, server: str) -> None:
    frames: list[ForwardMsg] = []
    sizes: list[int] = []

    def hear(frame: str | bytes) -> None:
        assert isinstance(frame, bytes)
        frames.append(ForwardMsg.FromString(frame))
        sizes.append(len(frame))

    page.on("websocket", lambda socket: socket.on("framereceived", hear))
    page.goto(f"{server}/?v=1&preset=grpo-7b@1&response_tokens=4096")
    settle(page)
    field = page.get_by_label("Response, tokens", exact=True)
    for tokens in (5000, 6000):  # before the first there is no other run whose parts can be named
        frames.clear()
        sizes.clear()
        field.fill(str(tokens))
        field.press("Enter")
        page.wait_for_url(re.compile(rf"&response_tokens={tokens}&"))
        settle(page)
    kinds = [frame.WhichOneof("type") for frame in frames]
    assert (kinds.count("new_session"), kinds.count("script_finished")) == (1, 1)
    assert sum(sizes) < MOST_BYTES
    sent = [frame.delta.new_element for frame in frames if frame.WhichOneof("type") == "delta"]
    assert not [one.selectbox.label for one in sent if one.selectbox.label in ("Model", "GPU")]
    assert not [one for one in sent if "<style>" in one.html.body]
