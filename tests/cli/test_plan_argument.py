"""PLAN of the command line: links, query strings, presets, files."""

import json
from pathlib import Path

import pytest

from planner.answer import ANSWER_VERSION, to_json
from planner.cli.plan_argument import read_plan, require_plan
from planner.estimate import estimate
from planner.plan import Plan
from planner.plan.methods import methods
from planner.plan.migrations import VERSION
from planner.plan.presets import presets
from planner.plan.query import to_query, to_query_string
from planner.problem import PlanError

PLAN = Plan(model="Qwen/Qwen2.5-1.5B", gpus=4, response_tokens=777, gpu_memory_utilization=0.35)


@pytest.mark.parametrize(
    "text",
    [
        "https://headroom.example/scaling?" + to_query_string(PLAN) + "#top",
        "?" + to_query_string(PLAN),
        to_query_string(PLAN),
        to_query_string(PLAN, short=True),
    ],
)
def test_links_and_query_strings(text: str) -> None:
    assert read_plan(text).plan == PLAN


def test_a_preset_by_its_name() -> None:
    assert read_plan("grpo-7b@1").plan == presets()["grpo-7b@1"].plan


@pytest.mark.parametrize(
    "content",
    [
        PLAN.model_dump(),
        {"v": 1, "source": "estimate", "plan": PLAN.model_dump(), "phases": []},
        to_query(PLAN),
    ],
)
def test_files(tmp_path: Path, content: dict[str, object]) -> None:
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(content))
    reading = read_plan(str(path))
    assert (reading.plan, reading.problems) == (PLAN, ())


@pytest.mark.parametrize("method", methods())
def test_an_answer_is_read_as_the_plan_that_it_answers(tmp_path: Path, method: str) -> None:
    plan = Plan(method=method, gpus=1)
    path = tmp_path / "answer.json"
    path.write_text(json.dumps(to_json(estimate(plan))))
    reading = read_plan(str(path))
    assert (reading.plan, reading.problems, reading.notes) == (plan, (), ())
    assert ANSWER_VERSION == VERSION


@pytest.mark.parametrize("content", ["", "[1]", "{", "[" * 100_000, "\ud800", "7"])
def test_files_that_hold_no_plan_are_one_problem(tmp_path: Path, content: str) -> None:
    path = tmp_path / "plan.json"
    path.write_bytes(content.encode("utf-8", "surrogatepass"))
    reading = read_plan(str(path))
    assert reading.plan is None
    assert len(reading.problems) == 1


def test_an_older_answer_is_read_under_its_own_version(tmp_path: Path) -> None:
    path = tmp_path / "answer.json"
    path.write_text(json.dumps({"v": 99, "plan": {}}))
    [problem] = read_plan(str(path)).problems
    assert "version 99" in problem.message


@pytest.mark.parametrize("text", ["", "nonsense", "no/such/file.json", "a" * 10_000, "\x00"])
def test_what_is_nothing_of_the_kind(text: str) -> None:
    [problem] = read_plan(text).problems
    assert "no file" in problem.message


def test_a_script_does_not_go_on_with_another_plan(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(PlanError) as caught:
        require_plan("preset=grpo-7b@1&gpus=eight")
    assert [problem.field for problem in caught.value.problems] == ["gpus"]
    assert require_plan("gpus=16").gpus == 16
    assert "take today's defaults" in capsys.readouterr().err
