"""Edits of the inputs, without a page: what follows, what is kept, what cannot be."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from planner.plan import FIELDS, Plan
from planner.plan.link import from_query
from planner.plan.presets import presets
from planner.ui.state import draft as drafts
from random_plans import plans

START = drafts.of_plan(presets()["grpo-7b@1"].plan, "grpo-7b@1")


def test_fields_nobody_chose_follow_the_method() -> None:
    after = drafts.edited(START, {"method": "ppo"})
    assert after.plan is not None
    assert after.values["critic"] == "separate"
    assert {"critic", "responses_per_prompt"} <= {change.field for change in after.followed}


def test_fields_somebody_chose_stay_when_the_framework_changes() -> None:
    chosen = drafts.edited(START, {"gpu_memory_utilization": 0.65})
    assert drafts.edited(chosen, {"framework": "trl"}).values["gpu_memory_utilization"] == 0.65
    followed = drafts.edited(START, {"framework": "trl"})
    assert followed.values["gpu_memory_utilization"] == 0.3
    assert followed.values["framework_version"] == "1.16.0"


def test_switching_there_and_back_is_where_it_began() -> None:
    there = drafts.edited(START, {"method": "intuitor", "framework": "trl"})
    back = drafts.edited(there, {"method": "grpo", "framework": "plain"})
    assert back.values == START.values
    assert back.changed() == ()


def test_an_impossible_edit_is_kept_with_its_problem() -> None:
    after = drafts.edited(START, {"gpus": 12})
    assert after.plan is None
    assert after.values["gpus"] == 12
    assert after.problems


def test_a_taken_suggestion_changes_nothing_else() -> None:
    after = drafts.replaced(START, {"response_tokens": 1024})
    assert after.changed() == ("response_tokens",)
    assert after.values["validation_response_tokens"] == 2048


def test_an_impossible_draft_still_has_a_complete_query() -> None:
    query = drafts.query(drafts.edited(START, {"gpus": 12}))
    assert query["gpus"] == "12"
    assert set(query) == {"v", "preset", "set", *Plan.model_fields}


@pytest.mark.parametrize("key", [*presets()])
def test_the_query_of_a_preset_reads_back_as_it(key: str) -> None:
    preset = presets()[key]
    reading = from_query(drafts.query(drafts.of_plan(preset.plan, key)))
    assert (reading.plan, reading.preset, reading.problems) == (preset.plan, key, ())


@settings(max_examples=60, deadline=None)
@given(plans())
def test_the_chosen_fields_give_the_whole_plan_again(plan: Plan) -> None:
    values = plan.model_dump()
    chosen = drafts.chosen_fields(values)
    assert drafts.completed(chosen) == values
    assert len(chosen) < len(values)


@settings(max_examples=60, deadline=None)
@given(plans())
def test_setting_a_field_to_what_it_is_changes_nothing(plan: Plan) -> None:
    draft = drafts.of_plan(plan)
    after = drafts.edited(draft, {"gpus": plan.gpus})
    assert after.values == draft.values
    assert after.followed == ()


def test_a_taken_suggestion_stays_when_something_else_is_edited() -> None:
    taken = drafts.replaced(START, {"response_tokens": 1024})
    after = drafts.edited(taken, {"gpus": 16})
    assert after.values["response_tokens"] == 1024
    assert after.values["validation_response_tokens"] == 2048


def test_in_an_old_complete_link_a_frameworks_settings_are_offered_and_not_applied() -> None:
    complete = drafts.of_plan(START.plan, START.preset, chosen=FIELDS)
    after = drafts.edited(complete, {"framework": "trl"})
    kept = {change.field for change in after.followed}
    assert kept == {"framework_version"}
    other = drafts.offered(after)
    assert other is not None and other.plan is not None
    assert other.values["gpu_memory_utilization"] == 0.3
    assert after.values["gpu_memory_utilization"] == 0.5


def test_nothing_is_offered_where_everything_followed() -> None:
    after = drafts.edited(START, {"framework": "trl"})
    assert after.values["gpu_memory_utilization"] == 0.3
    assert drafts.offered(after) is None
    assert drafts.offered(drafts.edited(START, {"steps": 9})) is None


def test_an_edit_knows_what_it_was_made_on() -> None:
    after = drafts.edited(START, {"framework": "verl"})
    assert after.before is not None and after.before.values == START.values
    assert [change.field for change in after.edited] == ["framework"]
    assert {change.field for change in after.followed} >= {"framework_version", "batch_shape"}
    assert drafts.edited(after, {"steps": 3}).before.before is None
