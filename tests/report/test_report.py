"""The one-page report: all of it escaped, nothing asked of anybody, each rung where it is known."""

from __future__ import annotations

import datetime as dt
import re
from dataclasses import replace
from html.parser import HTMLParser
from types import SimpleNamespace
from typing import Any, cast

import pytest

from dry_run_answers import found
from dry_run_answers import plan as dry_run_plan
from planner.dryrun.ask.answer import answer
from planner.estimate import estimate
from planner.plan.presets import presets
from planner.report import Advice, content_of, html_of
from planner.report.content import MOST_ADVICE, MOST_DOUBTS, MOST_SETTINGS, cut, recommendation
from planner.search import Found, Wish, search
from planner.trial.ask.result import OutOfMemory
from planner.units import read_gib
from planner.wording.fields import short_label
from ui.trial_page import PLAN, figures, result

TODAY = dt.date(2026, 1, 31)
GRPO = presets()["grpo-7b@1"].plan
HOSTILE = '<script>alert(1)</script>"\'><img src=http://evil.example/x onerror=1>\u202e\x00'


class Tags(HTMLParser):
    """Every element and attribute of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def hostile_page() -> str:
    footprint = replace(estimate(GRPO), warnings=(HOSTILE,) * 9, blockers=(HOSTILE,))
    content = content_of(
        footprint, made=TODAY, advice=[Advice(HOSTILE, HOSTILE)] * 9, link=f"https://x/?{HOSTILE}"
    )
    return html_of(
        replace(
            content,
            title=HOSTILE,
            where=HOSTILE,
            settings=((HOSTILE, HOSTILE),),
            bars=tuple(one._replace(phase=HOSTILE) for one in content.bars),
            evidence=tuple(one._replace(rests_on=HOSTILE) for one in content.evidence),
        )
    )


def test_nothing_that_somebody_wrote_becomes_markup() -> None:
    page = hostile_page()
    tags = Tags(page).found
    kinds = {tag for tag, _ in tags}
    assert not kinds & {"script", "img", "iframe", "link", "object", "base", "form"}
    names = {name for _, attributes in tags for name in attributes}
    assert not [name for name in names if name.startswith("on")]
    assert "\x00" not in page and "\u202e" not in page
    assert page.count("&lt;script&gt;") > 8


def test_the_page_asks_no_host_and_allows_nothing_but_its_style() -> None:
    tags = Tags(hostile_page()).found
    assert not [attributes for _, attributes in tags if "src" in attributes]
    assert [a["href"] for tag, a in tags if "href" in a and tag == "a"] != []
    assert {tag for tag, a in tags if "href" in a} == {"a"}
    policies = [a["content"] for _, a in tags if a.get("http-equiv") == "Content-Security-Policy"]
    assert policies == ["default-src 'none'; style-src 'unsafe-inline'"]
    style = re.search(r"<style>(.*?)</style>", hostile_page(), re.S)
    assert style is not None and not re.search(r"url\(|@import|https?:", style[1])
    for link in ("javascript:alert(1)", "?v=5&gpus=8", "data:text/html,x"):
        page = html_of(content_of(estimate(GRPO), made=TODAY, link=link))
        assert not [a for tag, a in Tags(page).found if tag == "a"]


def test_what_was_not_done_is_said_and_nothing_is_invented() -> None:
    content = content_of(estimate(GRPO), made=TODAY)
    assert [one.verdict for one in content.evidence] == ["fits", "not done", "not done"]
    assert [one.peak for one in content.evidence][1:] == ["", ""]
    assert "by an estimate" in content.recommendation


def test_a_dry_run_and_a_trial_stand_beside_the_estimate() -> None:
    ran = answer(dry_run_plan(), found())
    content = content_of(estimate(PLAN), made=TODAY, dry_run=ran, trial=_trial("completed"))
    estimated, executed, measured = content.evidence
    assert executed.verdict == ran.footprint.verdict.word and "torch" in executed.rests_on
    near = tuple(replace(one, dry_bytes=one.closed_bytes) for one in ran.comparisons)
    agreed = content_of(estimate(PLAN), made=TODAY, dry_run=replace(ran, comparisons=near))
    assert "agrees within 0.1%" in agreed.evidence[1].rests_on
    assert "agrees" not in executed.rests_on
    most = max(one.requested_bytes or 0 for one in figures("trial", 1.01).phases)
    assert measured.verdict == "completed" and measured.rests_on.endswith("2026-01-31")
    assert measured.peak == f"{most / 2**30:,.1f} GiB requested"


def test_the_recommendation_follows_the_best_evidence() -> None:
    fits = estimate(GRPO)
    ran = answer(dry_run_plan(), found())
    against = replace(ran.footprint.verdict, word="out of memory")
    disagrees = replace(ran, footprint=replace(ran.footprint, verdict=against))
    assert "A dry run checks the estimate" in recommendation(fits)
    said = recommendation(fits, disagrees)
    assert said.startswith("Do not launch") and "though the estimate says otherwise" in said
    tight = replace(fits, verdict=replace(fits.verdict, word="tight"))
    assert "memory to spare: do a dry run and a trial" in recommendation(tight)
    assert "memory to spare: run a trial" in recommendation(fits, _judged(ran, "tight"))
    assert "a dry run agrees" in recommendation(fits, _judged(ran, "fits"))


def test_only_a_trial_on_the_plans_own_card_says_anything_of_it() -> None:
    fits = estimate(PLAN)
    own, other = (_trial("out of memory", gpu) for gpu in (PLAN.gpu, "rtx-3090"))
    assert "ran out of memory" in recommendation(fits, trial=own)
    assert recommendation(fits, trial=other) == recommendation(fits)


def test_lists_are_cut_to_a_page_and_say_so() -> None:
    footprint = replace(estimate(GRPO), warnings=tuple(f"warning {n}" for n in range(9)))
    advice = [Advice(f"change {n}", "does something") for n in range(9)]
    content = content_of(footprint, made=TODAY, advice=advice)
    assert len(content.advice) == MOST_ADVICE
    assert len(content.doubts) == MOST_DOUBTS + 1
    assert content.doubts[-1] == f"The Plan page lists {9 - MOST_DOUBTS} more."
    assert len(content.settings) <= MOST_SETTINGS + 1
    assert cut("a " * 400).endswith("…") and len(cut("a " * 400, 50)) <= 50


def test_the_cost_has_its_price_and_its_date_and_none_where_it_does_not_run() -> None:
    priced = content_of(estimate(GRPO.changed(price_per_gpu_hour=2.0)), made=TODAY)
    assert any("$2.00 per GPU-hour, typed in" in line for line in priced.money)
    cap = f"{GRPO.response_tokens:,}"
    assert any(f"Times assume every response at the {cap}" in line for line in priced.money)
    too_large = content_of(
        estimate(GRPO.changed(response_tokens=32_768, micro_batch_size=8)), made=TODAY
    )
    assert too_large.word == "out of memory"
    assert too_large.money[0] == "A plan that does not run has no cost."
    assert not any("$" in value for _, value, _ in too_large.figures)
    assert not any("Times assume" in line for line in too_large.money)


@pytest.mark.parametrize("preset", [*presets()])
def test_every_preset_has_a_report_with_its_settings(preset: str) -> None:
    plan = presets()[preset].plan
    content = content_of(estimate(plan), made=TODAY)
    settings = dict(content.settings)
    assert settings["Model"] == cut(plan.model, 30)
    assert all(0 <= bar.own + bar.pool <= 1.0001 for bar in content.bars)
    assert max(bar.own + bar.pool for bar in content.bars) <= 1 and content.card <= 1
    assert html_of(content).startswith("<!doctype html>")


def _judged(ran: Any, word: Any) -> Any:
    verdict = replace(ran.footprint.verdict, word=word)
    return replace(ran, footprint=replace(ran.footprint, verdict=verdict))


def _trial(status: str, gpu: str = PLAN.gpu) -> Any:
    more: dict[str, Any] = {}
    if status == "out of memory":
        more = {"measured": None, "out_of_memory": OutOfMemory(phase="building")}
    ended = result("20260131-120000-000000", status=status, **more)
    device = ended.device.model_copy(update={"gpu": gpu})
    return cast(SimpleNamespace, ended.model_copy(update={"device": device}))


def _searched(goal: str = "fastest", **free: Any) -> Found:
    return search(GRPO, Wish(goal=goal, **{"free": ("micro_batch_size", "optimizer"), **free}))


def test_the_plans_of_a_search_stand_on_it_once_each_with_what_was_checked() -> None:
    found = _searched()
    one, *others = found.recommendations
    agreed = replace(found, recommendations=(replace(one, checked="agrees"), *others))
    content = content_of(estimate(GRPO), made=TODAY, search=agreed)
    assert content.goal == "Fastest"
    assert len(content.recommended) == len({each.plan for each in found.recommendations})
    named = " and ".join(row.name.lower() for row in content.recommended)
    assert named == " and ".join(one.called for one in found.recommendations)
    assert {"conservative", "balanced", "aggressive"} <= {*re.findall(r"\w+", named)}
    first = content.recommended[0]
    assert "its dry run agrees" in first.figures
    assert read_gib(one.footprint.device_bytes) in first.figures
    if one.differences:
        assert short_label(one.differences[0].field) in first.changes
    page = html_of(content)
    assert "Recommended: Fastest" in page
    assert all(row.figures in page for row in content.recommended)
    assert "Recommended" not in html_of(content_of(estimate(GRPO), made=TODAY))


def test_the_report_of_a_recommended_plan_says_which_it_is() -> None:
    found = _searched()
    taken = found.recommendations[-1]
    content = content_of(estimate(taken.plan), made=TODAY, search=found)
    own = [row.name for row in content.recommended if row.changes == "this plan"]
    assert len(own) == 1 and taken.name in own[0].lower()


def test_a_search_without_an_answer_is_said() -> None:
    narrow = GRPO.changed(gpu="rtx-4090", gpus=1, sharding="none")
    found = search(narrow, Wish(free=("enforce_eager",)))
    page = html_of(content_of(estimate(narrow), made=TODAY, search=found))
    assert "Searched: Fits with a margin" in page and "No plan within its limits fits." in page


def test_settings_have_their_labels_on_it_and_no_fields_names() -> None:
    blocked = GRPO.changed(gpu="a100-40gb", model="Qwen/Qwen2.5-14B", response_tokens=8192)
    footprint = estimate(blocked)
    assert any("gpu_memory_utilization" in line for line in footprint.verdict.lines)
    page = html_of(content_of(footprint, made=TODAY))
    assert "gpu_memory_utilization" not in page and short_label("gpu_memory_utilization") in page
