"""Walks through the page, each as a person would take it; docs/usability.md has the table of all.

Run: ``PYTHONPATH=.:tests:tests/browser .venv/bin/python tests/browser/walks.py [WALK ...]`` starts
the app and prints a row a walk, then one JSON line. ``--of FOLDER`` starts the app of another
checkout, of any version: where it lacks a button, the walk takes the way people had without it.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from new_walks import NEW_WALKS
from playwright.sync_api import Browser, Locator, Page, expect
from running_app import PHONE, PROCESSES, REPOSITORY, app, chromium, window
from visitor import Visitor

from planner.plan.query import to_query_string
from trial.running import tiny

Walk = Callable[[Visitor], str]
WALKS: dict[str, Walk] = {}
"""By name, in the table's order; each gives its result in words."""
PATIENCE_MILLISECONDS = 120_000
"""A walk that waits longer has lost its way."""
CARDS = (
    *("L40S", "RTX 6000 Ada", "RTX PRO 6000 Blackwell", "A100 40GB SXM4"),
    *("A100 80GB SXM4", "H100 80GB SXM5", "H200 141GB SXM5", "B200 180GB SXM"),
)
"""Eight that are sold by the hour."""
GIVEN = ("Response →", "Count →", "Fine-tuning →", "Model →")
"""What of a change takes away something that the person came with."""
ROW = "ancestor::div[@data-testid='stLayoutWrapper'][1]"
"""What a suggestion's button stands in, with its words."""


@dataclass(frozen=True, slots=True)
class Walked:
    """What a walk took, and what came of it."""

    walk: str
    clicks: int
    keys: int
    seconds: float
    """In which the person waited."""
    cpu_seconds: float
    """Of the app's own process, which neighbours on the machine do not lengthen much."""
    result: str


def walk(name: str) -> Callable[[Walk], Walk]:
    def named(found: Walk) -> Walk:
        WALKS[name] = found
        return found

    return named


def taken(page: Page, server: str, name: str) -> Walked:
    """One walk, in a tab where nobody has been."""
    visitor = Visitor(page, server)
    before = _cpu_seconds(PROCESSES[server])
    result = WALKS[name](visitor)
    used = _cpu_seconds(PROCESSES[server]) - before
    took = (round(visitor.seconds, 1), round(used, 1))
    return Walked(name, visitor.clicks, visitor.keys, *took, result)


def _walked(browser: Browser, server: str, name: str) -> Walked:
    """One walk, in a window of its own."""
    context = window(browser, accept_downloads=True)
    context.set_default_timeout(PATIENCE_MILLISECONDS)
    try:
        return taken(context.new_page(), server, name)
    finally:
        context.close()


def _cpu_seconds(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@walk("open")
def opens(visitor: Visitor) -> str:
    visitor.open()
    chart = visitor.page.locator(".vega-embed").first
    seen = "in the first window" if visitor.sees(chart) else "below the first window"
    return f"{visitor.verdict()} The chart is {seen}."


def forty_gigabyte_cards(visitor: Visitor) -> None:
    """Eight A100 of 40 GB, Qwen2.5-14B, GRPO, responses of 8,192 tokens, typed in."""
    visitor.open()
    visitor.choose("GPU", "A100", re.compile("A100 40GB"))
    visitor.choose("Model", "Qwen2.5-14B", re.compile(r"Qwen2\.5-14B($| ·)"))
    visitor.write("Response, tokens", 8192)


@walk("8 × A100 40GB, 14B, 8 k")
def eight_small_cards(visitor: Visitor) -> str:
    """Until it fits, or the page has nothing more to say; what the person came with stays."""
    forty_gigabyte_cards(visitor)
    if visitor.offers("Make it fit"):
        visitor.click("Make it fit")
    while not visitor.verdict().startswith("Fits") and (found := _keeping(visitor)):
        visitor.click(found)
    said = parse_qs(urlsplit(visitor.page.url).query)
    kept = [said[name][-1] for name in ASKED] == [*ASKED.values()]
    what = "all that was asked for" if kept else "less than was asked for"
    return f"{visitor.verdict()} {visitor.cost()}, {what}."


ASKED = {"finetuning": "full", "gpus": "8", "response_tokens": "8192", "gpu": "a100-40gb"}


def _keeping(visitor: Visitor) -> Locator | None:
    """The first Apply whose change leaves alone what was asked for."""
    for button in visitor.page.get_by_test_id("stMain").get_by_role("button", name="Apply").all():
        text = button.locator(f"xpath={ROW}").inner_text()
        if not any(word in text for word in GIVEN):
            return button
    return None


@walk("RTX 4090, 4B LoRA → TRL")
def one_home_card(visitor: Visitor) -> str:
    visitor.open()
    visitor.choose("GPU", "4090", re.compile("RTX 4090"))
    visitor.write("Count", 1)
    visitor.choose("Model", "Qwen3-4B", re.compile(r"Qwen3-4B($| ·)"))
    visitor.choose("Fine-tuning", "LoRA", "LoRA")
    planned = f"{visitor.verdict()} {visitor.cost()}"
    visitor.turn_to("Launch")
    visitor.click(visitor.page.get_by_role("radio", name="TRL", exact=True))
    if visitor.offers("Change the plan so that TRL can run it"):
        visitor.click("Change the plan so that TRL can run it")
    script = visitor.script()
    visitor.turn_to("Plan")
    ran = f"{planned} {script} Then: {visitor.verdict()} {visitor.cost()}"
    if visitor.verdict().startswith("Fits") or not visitor.offers("Make it fit"):
        return ran
    visitor.click("Make it fit")
    ran += f" Made to fit: {visitor.verdict()} {visitor.cost()}"
    visitor.turn_to("Launch")
    return f"{ran} {visitor.script()}"


@walk("share a link")
def shares(visitor: Visitor) -> str:
    visitor.open()
    visitor.write("Count", 16)
    mine = visitor.figures()
    code = visitor.page.get_by_test_id("stCode").last
    code.scroll_into_view_if_needed()
    code.hover()
    visitor.click(code.get_by_role("button").first)
    link = code.inner_text().strip()
    other = visitor.page.context.new_page()
    friend = Visitor(other, visitor.server)
    friend.open(link.removeprefix(visitor.server).lstrip("/"))
    same = "the same figures" if friend.figures() == mine else "other figures"
    return f"{len(link):,} characters, {same}."


@walk("scaling: 8 to 64 GPUs")
def scales(visitor: Visitor) -> str:
    """Memory, time and cost of more GPUs."""
    visitor.open()
    visitor.turn_to("Scaling")
    visitor.click(visitor.page.get_by_role("radio", name="GPUs", exact=True))
    views = 1
    for name in ("Step time", "Cost of run"):
        one = visitor.page.get_by_role("radio", name=name, exact=True)
        if one.count():
            visitor.click(one)
            views += 1
    return f"Memory, time and cost in {views} view{'s' if views > 1 else ''}."


@walk("dry run")
def runs_dry(visitor: Visitor) -> str:
    visitor.open()
    visitor.click("Check with a dry run")
    with visitor:
        found = visitor.page.get_by_text("Alive at the peak")
        expect(found).to_be_visible(timeout=PATIENCE_MILLISECONDS)
    return visitor.page.get_by_text("The step that ran peaks in").first.inner_text()


@walk("trial")
def tries(visitor: Visitor) -> str:
    """Of a plan that is too large for the machine, and of one that is not."""
    visitor.open()
    visitor.turn_to("Trial")
    most = visitor.page.get_by_text("Limits.").first.locator("xpath=..").inner_text()
    visitor.open(f"trial?{to_query_string(tiny('sft'))}")
    visitor.click("Run the trial")
    with visitor:
        found = visitor.page.get_by_text("memory is as predicted")
        expect(found).to_be_visible(timeout=PATIENCE_MILLISECONDS)
    return f"The preset: {most.strip()} A small one: {found.inner_text()}"


@walk("launch Intuitor, GRADE")
def launches(visitor: Visitor) -> str:
    visitor.open()
    said = []
    for name in ("Intuitor", "GRADE"):
        visitor.choose("Method", name, re.compile(f"^{name}"))
        visitor.turn_to("Launch")
        script = visitor.script()
        way = visitor.button(re.compile("so that .* can run it"))  # type: ignore[arg-type]
        if script == "No script." and way.count() and way.is_enabled():
            visitor.click(way)
            script = f"After one button: {visitor.script().lower()}"
        said.append(f"{name}: {script}")
    return " ".join(said)


@walk("a bad config, an unknown id")
def brings_a_wrong_model(visitor: Visitor) -> str:
    visitor.open()
    visitor.choose("Model", "Other", "Other model…")
    box = visitor.page.get_by_role("textbox", name="config.json")
    visitor.paste(box, '{"model_type": "llama"}', "Control+Enter")
    error = visitor.page.get_by_test_id("stSidebar").get_by_test_id("stAlert")
    pasted = f"{_words(error)} Verdict: {visitor.verdict()}"
    visitor.paste(visitor.page.get_by_label("Model", exact=True), "Qwen2.5-7C", "Enter")
    return f"{pasted} Then: {_words(error)} Verdict: {visitor.verdict()}"


def _words(alert: Locator) -> str:
    if not alert.count():
        return "No error."
    return alert.first.inner_text().rpartition("\n")[2].strip()


@walk("keyboard only")
def types_only(visitor: Visitor) -> str:
    """Open a preset, lengthen its responses, read the verdict, take the first advice."""
    visitor.open()
    visitor.tab_to("at.tagName === 'INPUT' && /Start from$/.test(at.getAttribute('aria-label'))")
    with visitor:
        visitor.type("PPO, 7B")
        visitor.press("Enter")
    opened = visitor.verdict()
    to_field = visitor.tab_to("at.getAttribute('aria-label') === 'Response, tokens'")
    with visitor:
        visitor.press("Control+A")
        visitor.type("24576")
        visitor.press("Enter")
    edited = visitor.verdict()
    to_advice = visitor.tab_to(f"at.tagName === 'BUTTON' && !at.role && {TAKES}.test(at.innerText)")
    with visitor:
        visitor.press("Enter")
    return (
        f"{to_field} tabs to the field, {to_advice} from it to the advice. "
        f"Opened: {opened} Edited: {edited} Applied: {visitor.verdict()}"
    )


TAKES = r"/^(check\s*)?(Apply|Make it fit|Use the (room|free memory))/"
"""Words of a button that takes a piece of advice, after its icon's name."""


@walk("the cheapest of eight cards")
def finds_the_cheapest(visitor: Visitor) -> str:
    visitor.open()
    which = visitor.page.get_by_role("radio", name=re.compile("^(Which GPUs|GPU options)$"))
    if which.count():
        visitor.click(which)
        said = visitor.page.get_by_test_id("stMarkdown").filter(has_text=re.compile("^Cheapest"))
        return said.first.inner_text().partition("\n")[0]
    prices = {}
    for card in CARDS:
        visitor.choose("GPU", card, re.compile(f"^{card}"))
        prices[card] = visitor.cost()
    return "; ".join(f"{card} {usd}" for card, usd in prices.items())


@walk("examples")
def reads_an_example(visitor: Visitor) -> str:
    visitor.open("examples")
    slider = visitor.page.locator(".st-key-slider-000 input")
    before = visitor.figures()
    visitor.clicks += 1
    with visitor:
        slider.focus()
        visitor.press("ArrowRight")
    moved = sum(a != b for a, b in zip(before, visitor.figures(), strict=True))
    visitor.click(visitor.page.locator(".st-key-plan-000 button"))
    return f"{moved} figures move with the slider. As a plan: {visitor.verdict()}"


@walk("420 px")
def holds_a_phone(visitor: Visitor) -> str:
    visitor.page.set_viewport_size(PHONE)
    visitor.open()
    words = visitor.page.locator(SAID)
    first = "in sight" if _uncovered(words) else "out of sight"
    visitor.click(visitor.page.get_by_test_id("stExpandSidebarButton").locator("button, *").first)
    visitor.write("Response, tokens", 8192)
    seen = "in sight" if _uncovered(words) else "out of sight"
    return f"The verdict is {first} at first, {seen} while editing."


SAID = ".st-key-verdict-beside p, .st-key-verdict-short p, [data-testid=stAlert] p"
"""What says whether the plan fits; a page without the first two has the last."""


def _uncovered(words: Locator) -> bool:
    """Whether what stands at its middle is itself."""
    return any(
        one.evaluate(
            "at => { const box = at.getBoundingClientRect();"
            "const x = box.left + box.width / 2, y = box.top + box.height / 2;"
            "const top = document.elementFromPoint(x, y);"
            "return top !== null && (at.contains(top) || top.contains(at)); }"
        )
        for one in words.all()
    )


WALKS.update(NEW_WALKS)


def main(*arguments: str) -> None:
    """Walks by name, all by default; a row each, then JSON."""
    names, of = [*arguments], REPOSITORY
    if names[:1] == ["--of"]:
        of, names = Path(names[1]), names[2:]
    rows = []
    with app(of=of) as server, chromium() as browser:
        _walked(browser, server, "open")  # the first visit loads what all later ones share
        for name in names or WALKS:
            row = _walked(browser, server, name)
            rows.append(asdict(row))
            print(
                f"{row.walk}: {row.clicks} clicks, {row.keys} keys, {row.seconds} s, "
                f"CPU {row.cpu_seconds} s. {row.result}",
                flush=True,
            )
    print(json.dumps(rows, ensure_ascii=False))


if __name__ == "__main__":
    main(*sys.argv[1:])
