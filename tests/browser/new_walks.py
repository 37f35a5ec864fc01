"""Twelve walks with what people bring from elsewhere; ``walks.py`` takes them after its thirteen.

A walk of something that Headroom does not have ends in the sentence that says so and what to do
meanwhile. Where a plan is shown beside it, the result says whether its verdict is green.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from playwright.sync_api import expect
from running_app import PHONE, app
from visitor import VERDICT, Visitor

PATIENCE_MILLISECONDS = 120_000
"""A search that takes longer has lost its way."""
MEGATRON = "?preset=grpo-7b%401&tensor_parallel=8&pipeline_parallel=2&sharding=megatron"
"""What a verl command of Megatron with TP 8 and PP 2 is as a link."""
TURNS = "?preset=grpo-7b%401&turns=8"
VISION = (
    '{"model_type": "qwen2_5_vl", "architectures": ["Qwen2_5_VLForConditionalGeneration"], '
    '"hidden_size": 3584, "intermediate_size": 18944, "num_hidden_layers": 28, '
    '"num_attention_heads": 28, "num_key_value_heads": 4, "vocab_size": 152064, '
    '"max_position_embeddings": 128000, "hidden_act": "silu", "rms_norm_eps": 1e-06, '
    '"rope_theta": 1000000.0, "tie_word_embeddings": false, "torch_dtype": "bfloat16", '
    '"vision_config": {"depth": 32, "hidden_size": 1280, "num_heads": 16}}'
)
"""The config.json of Qwen2.5-VL-7B, shortened."""


def answer(visitor: Visitor, text: str) -> str:
    """What the search over settings says first of a word, with its title."""
    visitor.write("Find a setting", text)
    found = visitor.page.locator(".st-key-found").get_by_test_id("stMarkdown")
    words = [_line(one) for one in found.all_inner_texts()]
    return ": ".join(words[:2]).replace("construction ", "").replace("info ", "")


def shown(visitor: Visitor) -> str:
    """What the page says of the link, and whether the verdict below it is green."""
    main = visitor.page.get_by_test_id("stMain")
    green = main.get_by_test_id("stAlertContentSuccess").filter(has_text=VERDICT)
    colour = "in green" if green.count() else "not in green"
    notes = main.get_by_test_id("stAlert").filter(has_not_text=VERDICT).all_inner_texts()
    return _line(*(note.rpartition("\n")[2] for note in notes), visitor.verdict(), f"({colour})")


def _line(*texts: str) -> str:
    return " ".join(" ".join(texts).split())


def brings_megatron(visitor: Visitor) -> str:
    """The link that such a command would be, and the word in the search."""
    visitor.open(MEGATRON)
    found = shown(visitor)
    visitor.open()
    return f"{found} Search: {answer(visitor, 'megatron')}"


def brings_a_message(visitor: Visitor) -> str:
    visitor.open()
    return answer(visitor, "CUDA out of memory")


def shares_with_a_phone(visitor: Visitor) -> str:
    """A link that somebody opens elsewhere: in another browser, on a phone, at night."""
    visitor.open()
    visitor.write("Count", 16)
    mine = visitor.figures()
    code = visitor.page.get_by_test_id("stCode").filter(has_text="http").first
    code.scroll_into_view_if_needed()
    code.hover()
    visitor.click(code.get_by_role("button").first)
    link = code.inner_text().strip()
    browser = visitor.page.context.browser
    assert browser is not None
    phone = browser.new_context(viewport=PHONE, color_scheme="dark")
    try:
        friend = Visitor(phone.new_page(), visitor.server)
        friend.open(link.removeprefix(visitor.server).lstrip("/"))
        same = "the same figures" if friend.figures() == mine else "other figures"
        wide = friend.page.evaluate("() => document.documentElement.scrollWidth")
        held = "no sideways scroll" if wide <= PHONE["width"] else f"{wide} pixels wide"
    finally:
        phone.close()
    return f"{len(link):,} characters, {same}, {held}."


def decides_how_many(visitor: Visitor) -> str:
    """Which GPUs and how many: a search, its knee as the plan, and on to its launch."""
    visitor.open()
    visitor.choose("Model", "Qwen2.5-32B", re.compile(r"Qwen2\.5-32B($| ·)"))
    visitor.write("Response, tokens", 16384)
    visitor.turn_to("Recommend")
    visitor.write("Max GPUs", 64)  # Enter begins the search
    coverage = visitor.page.get_by_text("Search coverage")
    with visitor:
        expect(coverage).to_be_visible(timeout=PATIENCE_MILLISECONDS)
    knee = visitor.page.get_by_text(re.compile("^Knee of the Pareto front: .* faster"))
    said = knee.first.inner_text()
    visitor.click(visitor.page.locator(".st-key-plan-knee").get_by_role("button", name="Apply"))
    opened = f"{visitor.verdict()} {visitor.cost()}"
    visitor.turn_to("Launch")
    return f"{said} As a plan: {opened} {visitor.script()}"


def brings_slurm(visitor: Visitor) -> str:
    """Four nodes; what the search says of Slurm, and the script that Launch writes."""
    visitor.open()
    visitor.write("Count", 32)
    found = answer(visitor, "slurm")
    visitor.turn_to("Launch")
    return f"{found} {visitor.script()}"


def brings_other_frameworks(visitor: Visitor) -> str:
    visitor.open()
    return f"{answer(visitor, 'OpenRLHF')} {answer(visitor, 'NeMo-RL')}"


def brings_a_vision_model(visitor: Visitor) -> str:
    """Its config, pasted where the model is chosen, and the word in the search."""
    visitor.open()
    visitor.paste(visitor.page.get_by_label("Model", exact=True), VISION, "Enter")
    return f"{shown(visitor)} Search: {answer(visitor, 'vision')}"


def brings_turns(visitor: Visitor) -> str:
    visitor.open(TURNS)
    found = shown(visitor)
    visitor.open()
    return f"{found} Search: {answer(visitor, 'turns')}"


def tunes_at_home(visitor: Visitor) -> str:
    """QLoRA with a script of TRL, and what is known of Unsloth."""
    visitor.open()
    visitor.choose("GPU", "4090", re.compile("RTX 4090"))
    visitor.write("Count", 1)
    visitor.choose("Model", "Qwen3-4B", re.compile(r"Qwen3-4B($| ·)"))
    visitor.choose("Fine-tuning", "QLoRA", "QLoRA")
    planned = f"{visitor.verdict()} {visitor.cost()}"
    return f"{planned} Search: {answer(visitor, 'unsloth')}"


def names_a_variation(visitor: Visitor) -> str:
    """DAPO in the list of methods: what it changes, its own settings in the search, its script."""
    visitor.open()
    visitor.choose("Method", "DAPO", re.compile("DAPO"))
    captions = visitor.page.get_by_test_id("stSidebar").get_by_test_id("stCaptionContainer")
    said = captions.filter(has_text="overlong").first.inner_text()
    kept = "kept" if "variation=dapo" in visitor.page.url else "lost"
    clip = answer(visitor, "clip-higher")
    return f"{said} In the link: {kept}. {visitor.verdict()} {visitor.cost()} Search: {clip}"


def searches_by_keyboard(visitor: Visitor) -> str:
    """From the top of the page to the search, from its result into the field, and an edit."""
    visitor.open()
    to_search = visitor.tab_to("at.getAttribute('aria-label') === 'Find a setting'")
    with visitor:
        visitor.type("kv cache")
        visitor.press("Enter")
    to_result = visitor.tab_to("at.tagName === 'BUTTON' && /KV cache$/.test(at.innerText)")
    with visitor:
        visitor.press("Enter")
    field = visitor.page.get_by_role("combobox", name="KV cache")
    expect(field).to_be_focused()
    before = visitor.figures()
    with visitor:
        visitor.type("fp8")
        visitor.press("Enter")
    changed = "changed" if visitor.figures() != before else "the same"
    return f"{to_search} tabs to the search, {to_result} to its result; the figures are {changed}."


def comes_first(visitor: Visitor) -> str:
    """A server of its own, as only its first visitor waits for the imports."""
    page = visitor.page
    with app() as server:
        first = Visitor(page, server)
        page.add_init_script(SEES_THE_PAGE_LIST)
        first.open()
        listed = page.evaluate("() => window.sawPageList === true")
        before = first.figures()
        first.write("Response, tokens", 8192)
        edited = first.figures()
        with first:
            page.go_back()
        undone = first.figures() == before
        with first:
            page.go_forward()
        with first:
            page.reload()
        kept = first.figures() == edited
        page.goto("about:blank")  # before its server is gone
    visitor.clicks, visitor.keys = first.clicks + 3, first.keys
    visitor.seconds = first.seconds
    said = (
        "the raw page list shows" if listed else "no raw page list",
        "back undoes an edit" if undone and edited != before else "back does not undo an edit",
        "reload keeps it" if kept else "reload loses it",
    )
    return f"{', '.join(said)}."


SEES_THE_PAGE_LIST = """
new MutationObserver(() => {
  if (document.querySelector("[data-testid='stSidebarNav']")) window.sawPageList = true;
}).observe(document, {childList: true, subtree: true});
"""
"""Remembers whether Streamlit's own list of pages was ever in the page."""
NEW_WALKS: Mapping[str, Callable[[Visitor], str]] = {
    "verl command, Megatron TP 8, PP 2": brings_megatron,
    "an out-of-memory message": brings_a_message,
    "share with a phone, dark": shares_with_a_phone,
    "cheapest 32B, 16 k, up to 64 GPUs": decides_how_many,
    "four nodes under Slurm": brings_slurm,
    "OpenRLHF, NeMo-RL": brings_other_frameworks,
    "Qwen2.5-VL-7B": brings_a_vision_model,
    "tools and several turns": brings_turns,
    "QLoRA on an RTX 4090, Unsloth": tunes_at_home,
    "DAPO": names_a_variation,
    "keyboard only, from the search": searches_by_keyboard,
    "cold start, back, reload": comes_first,
}
"""By name, in the table's order."""
