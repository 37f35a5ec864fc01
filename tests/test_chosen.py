"""What nobody chose follows the method and the framework; what was chosen stays."""

from __future__ import annotations

import pytest

from planner.__main__ import main
from planner.launch.export import CannotExpress, following, obstacles
from planner.plan import FIELDS, Plan
from planner.plan.chosen import chosen_fields, differences, followed
from planner.plan.frameworks import OWN
from planner.plan.link import from_query_string
from planner.plan.presets import presets
from planner.plan.query import to_query
from planner.plan.trainers import able, exporting

ENGINES = [one for one in exporting("grpo") if one != OWN]
"""Our own program samples with the model itself, which nobody's plan follows into."""
ASKED = {"model": "Qwen/Qwen2.5-1.5B", "method": "grpo"}


@pytest.mark.parametrize("framework", ENGINES)
@pytest.mark.parametrize("chosen", [{}, ASKED], ids=["default", "short"])
def test_a_plan_that_nobody_set_further_exports_to_every_framework(
    framework: str, chosen: dict[str, str]
) -> None:
    plan = following(Plan(**chosen), framework, chosen)
    assert plan.framework == framework and obstacles(plan, framework) == ()
    assert all(getattr(plan, field) == value for field, value in chosen.items())


def test_a_chosen_field_stays_and_is_named_where_it_is_in_the_way() -> None:
    plan = Plan(**ASKED, logits="chunked")
    with pytest.raises(CannotExpress) as error:
        following(plan, "trl", {*ASKED, "logits"})
    assert error.value.fields == ("logits",)
    assert following(plan, "trl", ASKED).logits == "fused"


def test_only_what_the_change_moves_is_followed() -> None:
    """A plan made under other defaults keeps what the change of framework does not touch."""
    values = {**Plan().model_dump(), "max_num_seqs": 77, "steps": 9, "logits": "full"}
    after = followed(values, {"model"}, {"framework": "trl"})
    assert (after["max_num_seqs"], after["steps"]) == (77, 9)
    assert (after["logits"], after["framework_version"]) == ("fused", "1.16.0")
    changed = {change.field for change in differences(values, after)}
    assert changed >= {"framework", "framework_version", "logits"} and "steps" not in changed


def test_a_version_chosen_for_one_framework_is_not_kept_for_another() -> None:
    plan = Plan(framework="trl", framework_version="1.14.0")
    after = followed(plan.model_dump(), {"framework_version"}, {"framework": "verl"})
    assert after["framework_version"] == "0.9.1"


@pytest.mark.parametrize("key", presets())
def test_chosen_fields_give_all_values_again(key: str) -> None:
    values = presets()[key].plan.model_dump()
    assert followed(values, chosen_fields(values), {}) == values


@pytest.mark.parametrize("framework", able("grpo"))
def test_a_link_that_changes_only_the_framework_opens(framework: str) -> None:
    for text in (f"framework={framework}", f"preset=grpo-7b@1&framework={framework}"):
        reading = from_query_string(text)
        assert reading.problems == () and reading.plan is not None
        assert reading.plan.framework == framework
        assert reading.chosen == {"framework"}


def test_a_link_carries_what_was_chosen() -> None:
    query = to_query(Plan(gpus=4), chosen={"gpus", "model"})
    assert query["set"] == "model,gpus"
    reading = from_query_string("&".join(f"{key}={value}" for key, value in query.items()))
    assert reading.problems == () and reading.chosen == {"gpus", "model"}


def test_in_an_old_complete_link_everything_was_chosen() -> None:
    query = to_query(Plan())
    reading = from_query_string("&".join(f"{key}={value}" for key, value in query.items()))
    assert reading.chosen == set(FIELDS)


@pytest.mark.parametrize("text", ["set=nonsense&gpus=8", "set=gpus,__class__&gpus=8"])
def test_a_set_of_fields_that_the_link_does_not_give_is_a_problem(text: str) -> None:
    reading = from_query_string(text)
    assert [problem.field for problem in reading.problems] == ["set"]
    assert reading.plan is not None and reading.plan.gpus == 8


@pytest.mark.parametrize("framework", ENGINES)
def test_the_command_launches_a_short_plan_and_says_what_followed(
    framework: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "&".join(f"{key}={value}" for key, value in ASKED.items())
    assert main(["launch", text, "--framework", framework]) == 0
    shown = capsys.readouterr()
    assert f"framework plain -> {framework}" in shown.err
    assert "launch.sh" in shown.out
