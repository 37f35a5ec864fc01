"""The Recommend page with searches that are over at once: asked, shown, taken, pinned, checked."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from planner.catalog.offers import offers
from planner.dryrun.ask.answer import DryRun
from planner.dryrun.ask.stand_in import stand_in
from planner.footprint import Footprint, Verdict
from planner.plan import Plan
from planner.plan.pin import Pinned, from_pin
from planner.plan.presets import presets
from planner.plan.query import to_short_query
from planner.search import Found, Wish, search
from planner.search.check import lead
from planner.search.wish import PLACEMENT, from_text, to_text
from planner.ui.recommend import asked
from ui.conftest import FakePort
from ui.opened_pages import APP, field, words

PLAN = presets()["grpo-7b@1"].plan
CHEAP = Wish(
    goal="cheapest",
    max_gpus=16,
    free=("gradient_checkpointing", "enforce_eager", "micro_batch_size"),
)
NARROW = PLAN.changed(gpu="rtx-4090", gpus=1, sharding="none")
ONE = Wish(free=("enforce_eager",))


@cache
def answer(plan: Plan = PLAN, wish: Wish = CHEAP) -> Found:
    return search(plan, wish)


class FakeSearch:
    """In place of :class:`planner.search.ask.Searching`: over at once, unless it is ``held``."""

    held = False
    outcome: Callable[[Plan, Wish], Found | str] = staticmethod(lambda plan, wish: answer())
    made: list[FakeSearch] = []
    warmed = 0

    @classmethod
    def warm(cls) -> None:
        cls.warmed += 1

    def __init__(self, plan: Plan, wish: Wish, speeds: Any, attended: Callable[[], bool]) -> None:
        self.plan, self.wish, self.attended = plan, wish, attended
        self.doing, self.share, self.elapsed_seconds = "Judging layouts", 0.4, 3.0
        self.running, self.given_up, self.error = True, False, ""
        self.abandoned = False
        self.found: Found | None = None
        self.made.append(self)
        if not self.held:
            self.end()

    def end(self) -> None:
        found = type(self).outcome(self.plan, self.wish)
        self.found, self.error = (None, found) if isinstance(found, str) else (found, "")
        self.running = False

    def cancel(self) -> None:
        if self.running:
            self.running, self.given_up = False, True


@pytest.fixture(autouse=True)
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[FakeSearch]]:
    class Own(FakeSearch):
        made: list[FakeSearch] = []

    monkeypatch.setattr(asked, "Searching", Own)
    monkeypatch.setattr(asked, "WORKERS", Own)
    yield Own


def opened(wish: str = "", plan: Plan = PLAN) -> AppTest:
    app = AppTest.from_file(APP, default_timeout=600)
    for key, value in {**to_short_query(plan), **({"wish": wish} if wish else {})}.items():
        app.query_params[key] = value
    app.run()
    app.switch_page("pages/recommend.py")
    return run(app)


def run(app: AppTest) -> AppTest:
    app.run()
    assert not app.exception, [error.value for error in app.exception]
    return app


def press(app: AppTest, key: str) -> AppTest:
    app.button(key=key).click()
    return run(app)


def in_link(app: AppTest, key: str) -> str:
    found = app.query_params[key]
    (text,) = [found] if isinstance(found, str) else found
    return str(text)


def wish_in(app: AppTest) -> Wish:
    return from_text(in_link(app, "wish"))


def said(app: AppTest) -> str:
    return words(app).replace("\\", "")


def keys(app: AppTest) -> set[str]:
    return {str(button.key) for button in app.button}


def dry(footprint: Footprint, word: str = "") -> DryRun:
    """A dry run of the plan; with a word its verdict is that."""
    after = footprint
    if word:
        after = replace(footprint, verdict=Verdict(word=word, sentence=""))  # type: ignore[arg-type]
    return DryRun(
        footprint=after, estimate=footprint, comparisons=(), phases=(), timeline=(), notes=(),
        versions={}, seconds=1.0, standing=stand_in(footprint.plan, ""),
    )  # fmt: skip


def at_rest(app: AppTest) -> AppTest:
    for job in app.session_state["recommend asked"].jobs.values():
        job._over.wait(60)
    return run(app)


def test_who_opens_the_page_finds_its_processes_begun(fake) -> None:
    opened()
    assert fake.warmed == 1 and fake.made == []


def test_nothing_is_searched_before_somebody_asks_and_the_wish_is_in_the_link(fake) -> None:
    app = opened()
    assert fake.made == [] and "wish" not in app.query_params
    most, budget = (app.number_input(key=f"wish:{name}") for name in ("max_gpus", "budget_usd"))
    assert (most.value, most.placeholder) == (None, "8, as now")
    assert (budget.value, budget.placeholder) == (None, "no limit")
    app.selectbox(key="wish:goal").set_value("cheapest")
    app.number_input(key="wish:max_gpus").set_value(16)
    app.number_input(key="wish:budget_usd").set_value(250.0)
    app.multiselect(key="wish:keep").set_value(["sharding", "optimizer"])
    app.multiselect(key="wish:cards").set_value(["a100-40gb"])
    app.pills(key="wish:allowed").set_value(["lora", "separate"])
    press(app, "wish-ask")
    (made,) = fake.made
    wish = made.wish
    assert (made.plan, wish.goal, wish.max_gpus, wish.budget_usd) == (PLAN, "cheapest", 16, 250.0)
    assert set(wish.keep) == {"sharding", "optimizer"} and wish.cards == ("a100-40gb",)
    assert wish.lora_allowed and set(PLACEMENT) <= wish.freed
    assert wish.vendor == "nvidia", "the plan's own vendor, unless somebody says otherwise"
    assert wish_in(app) == wish


def test_cards_one_can_rent_are_searched_by_default_and_filtered(fake) -> None:
    app = opened()
    assert app.selectbox(key="wish:goal").value == "cheapest"
    press(app, "wish-ask")
    assert "gpu" in fake.made[0].wish.freed and fake.made[0].wish.cards == ()
    app.selectbox(key="wish:provider").set_value("verda")
    app.selectbox(key="wish:offer").set_value("spot")
    app.selectbox(key="wish:vendor").set_value("")
    press(app, "wish-ask")
    wish = fake.made[1].wish
    assert (wish.provider, wish.offer, wish.vendor) == ("verda", "spot", "")
    assert wish_in(app) == wish
    app.selectbox(key="wish:goal").set_value("fit")
    press(app, "wish-ask")
    assert "gpu" not in fake.made[2].wish.freed, "to fit, the plan keeps its card"


def test_plans_are_for_a_framework_with_a_script_and_it_is_in_the_link(fake) -> None:
    app = opened()
    assert PLAN.framework == "plain" and app.selectbox(key="wish:framework").value == "trl"
    press(app, "wish-ask")
    assert fake.made[0].wish.framework == "trl" == wish_in(app).framework
    app.selectbox(key="wish:framework").set_value("verl")
    press(app, "wish-ask")
    assert fake.made[1].wish.framework == "verl"
    app.selectbox(key="wish:framework").set_value("plain")
    press(app, "wish-ask")
    assert fake.made[2].wish.framework == ""


def test_whose_framework_has_a_script_keeps_it(fake) -> None:
    app = opened(plan=presets()["ppo-7b@1"].plan)
    assert app.selectbox(key="wish:framework").value == "verl"
    press(app, "wish-ask")
    assert fake.made[0].wish.framework == ""


def test_what_somebody_changed_stays_unless_they_let_it_go(fake) -> None:
    app = opened(plan=PLAN.changed(micro_batch_size=2, response_tokens=4096))
    assert app.multiselect(key="wish:keep").value == ["micro_batch_size"]
    labels = app.multiselect(key="wish:keep").options
    assert "Micro-batch" in labels and "micro_batch_size" not in labels
    press(app, "wish-ask")
    assert fake.made[0].wish.keep == ("micro_batch_size",)


def test_a_limit_that_the_goal_needs_is_asked_for_by_its_label(fake) -> None:
    app = opened()
    app.selectbox(key="wish:goal").set_value("deadline")
    press(app, "wish-ask")
    assert "Deadline, hours: this goal needs one" in said(app) and fake.made == []


def test_one_verdict_then_different_plans_with_their_differences_by_label() -> None:
    app = opened(to_text(CHEAP))
    found = answer()
    first = lead(found.recommendations)
    told = next(one.value for one in app.success if "balanced" in one.value).replace("\\", "")
    gpus = f"{first.plan.gpus} × H100 80GB SXM5"
    assert f"Cheapest: the {first.called} plan, {gpus}. Fits" in told
    assert "estimate only" in told and "$" in told and "(" in told
    shown = said(app)
    for one in found.recommendations:
        assert f"**{one.called.capitalize()}** :" in shown
    assert found.same and found.same in shown and found.knee in shown
    assert shown.count("Number of GPUs 8 → **4**") >= 2
    assert "micro_batch_size" not in shown and "gradient_checkpointing" not in shown
    assert "Host RAM per node" in shown and "plans estimated" not in told
    (prices,) = [one.value for one in app.dataframe if "$ per GPU-hour" in one.value.columns]
    listed = offers(first.plan.gpu)
    assert list(prices["$ per GPU-hour"]) == [f"{one.usd_per_hour:.2f}" for one in listed] != []
    assert list(prices["Source"]) == [one.source for one in listed]
    assert len(app.get("vega_lite_chart")) == 2
    (front,) = [one.value for one in app.dataframe if "Run, $" in one.value.columns]
    assert list(front["Run, $"]) == [point.usd for point in answer().front]
    (ties,) = [one.value for one in app.dataframe if "Tied with" in one.value.columns]
    assert len(ties) == len(found.ties)
    assert "Not searched:" in shown


def test_a_link_repeats_the_search_and_starts_no_dry_run(fake, fake_port: FakePort) -> None:
    app = opened(to_text(CHEAP))
    assert [(one.plan, one.wish) for one in fake.made] == [(PLAN, CHEAP)]
    assert app.selectbox(key="wish:goal").value == "cheapest"
    assert app.number_input(key="wish:max_gpus").value == 16
    run(app)
    assert len(fake.made) == 1 and fake_port.asked == []
    assert wish_in(app) == CHEAP


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("1~cheapest~999999999~0~0~0", "wish max_gpus: give 0 to 65,536"),
        ("1~<b>~0~0~0~0", "wish goal: '<b>' is none of"),
        ("1~fit~0~0~0~0_cards~gaudi-99", "has 'gaudi-99', which is no card"),
        ("1~fit~0~0~0~0_free~model", "no search changes model"),
        ("x" * 3000, "wish has more than 2000 characters"),
    ],
)
def test_a_broken_wish_is_named_and_the_plan_is_kept(fake, text: str, told: str) -> None:
    app = opened(text, PLAN.changed(gpus=16))
    assert "1 part of this link could not be used" in said(app) and told in said(app)
    assert fake.made == [] and "wish" not in app.query_params
    assert field(app, "gpus").value == 16


def test_a_plan_is_taken_and_given_back(fake, monkeypatch: pytest.MonkeyPatch) -> None:
    turned_to: list[str] = []
    monkeypatch.setattr(st, "switch_page", lambda page, **_: turned_to.append(page))
    app = opened(to_text(CHEAP))
    found = {name: one for one in answer().recommendations for name in one.names}
    press(app, "take:aggressive")
    for change in found["aggressive"].differences:
        assert getattr(app.session_state["draft"].plan, change.field) == change.after
    assert turned_to == ["pages/plan.py"]
    assert "Applied." in said(app) and app.button(key="take:aggressive").disabled
    assert len(fake.made) == 1  # the answer stays
    press(app, "take:conservative")
    assert app.session_state["draft"].plan == found["conservative"].plan
    assert turned_to[1:] == ["pages/plan.py"]
    assert [link.proto.page for link in app.get("page_link")] == ["launch"]
    press(app, "undo-applied-recommend")
    press(app, "undo-applied-recommend")
    assert app.session_state["draft"].plan == PLAN


def test_plans_are_pinned_and_points_are_opened() -> None:
    app = opened(to_text(CHEAP))
    first = lead(answer().recommendations)
    press(app, f"pin:{first.name}")
    pinned = from_pin(in_link(app, "pin"))
    assert pinned == Pinned(first.plan, first.called.capitalize())
    app.selectbox(key="front place").set_value(1)
    press(run(app), "take-front")
    assert app.session_state["draft"].plan == PLAN.changed(**answer().front[1].changes)


def test_after_a_press_the_plan_to_take_is_checked_and_demoted_with_the_reason(
    fake_port: FakePort,
) -> None:
    three = {one.plan: one for one in answer().recommendations}
    first = lead(answer().recommendations)
    fake_port.outcome = lambda plan: dry(
        three[plan].footprint, "tight" if plan == first.plan else ""
    )
    app = opened()
    press(app, "wish-ask")
    at_rest(at_rest(app))
    assert fake_port.asked[0] == first.plan
    shown = said(app)
    assert "dry run disagrees" in shown
    assert "The dry run peaks at" in shown and ": tight." in shown
    # Conservative is the same plan here, so the next to take is the aggressive one, and is checked.
    assert first.names == ("conservative", "balanced") and len(fake_port.asked) == 2
    assert "the aggressive plan" in shown and "its dry run agrees" in shown


def test_a_dry_run_that_fails_says_so_and_the_plan_stays_unchecked(fake_port: FakePort) -> None:
    fake_port.outcome = RuntimeError("no such step")
    app = opened(to_text(CHEAP))
    press(app, "check:conservative")
    at_rest(app)
    assert "The dry run failed: The dry run could not be read" in said(app)
    assert "estimate only" in said(app) and "check:conservative" in keys(app)


def test_a_search_on_its_way_shows_how_far_it_is_and_can_be_given_up(fake) -> None:
    fake.held = True
    app = opened(to_text(CHEAP))
    assert app.button(key="wish-ask").disabled
    assert "take:conservative" not in keys(app)
    press(app, "wish-cancel")
    assert fake.made[0].given_up and "Canceled." in said(app)
    assert not app.button(key="wish-ask").disabled


def test_what_a_search_cannot_do_is_a_sentence_with_labels(fake) -> None:
    fake.outcome = staticmethod(lambda plan, wish: "micro_batch_size: decided by the token budget.")
    app = opened(to_text(Wish(goal="largest-batch")))
    assert "Micro-batch" in said(app) and "micro_batch_size" not in said(app)


def test_nothing_fits_tells_what_would_do_and_what_each_lacks(fake) -> None:
    found = answer(NARROW, ONE)
    assert found.recommendations == () and found.misses
    fake.outcome = staticmethod(lambda plan, wish: found)
    app = opened(to_text(ONE), NARROW)
    assert "No plan within these limits fits." in app.error[-1].value
    shown = said(app)
    would_do, closest, *others = (miss.lacks.partition(";")[0][1:] for miss in found.misses)
    assert would_do in shown and closest in shown
    assert [other for other in others if other in shown] == []  # the same, lacking more
    assert "B200 180GB SXM" in shown and "b200-180gb" not in shown
    assert "gpu_memory_utilization" not in shown and "raise “GPU memory utilization”" in shown
    press(app, "take-miss:0")
    assert app.session_state["draft"].plan == NARROW.changed(**found.misses[0].changes)


def test_an_edit_leaves_the_answer_and_says_whose_it_is(fake) -> None:
    app = opened(to_text(CHEAP))
    field(app, "gpus").set_value(16)
    run(app)
    assert "is for the plan before your last change" in said(app)
    assert "take:conservative" in keys(app)
    press(app, "wish-again")
    assert [one.plan.gpus for one in fake.made] == [8, 16]


def test_the_plans_report_has_the_visitors_search_from_it(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[str] = []
    monkeypatch.setattr(
        "planner.ui.plan.share.download",
        lambda label, made, name, *_, **__: name.endswith("html") and written.append(made()),
    )
    app = opened(to_text(CHEAP))
    app.switch_page("pages/plan.py").run()
    assert "Recommended: Cheapest" in written[-1] and "estimate only" in written[-1]
    field(app, "response_tokens").set_value(1024).run()
    assert "Recommended" not in written[-1], "the search was not from this plan"
