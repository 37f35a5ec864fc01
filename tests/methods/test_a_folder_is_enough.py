"""A method that is nothing but a folder walks every rung, link and page.

The product is copied, the folder is added to the copy, and the copy runs in processes of its own.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from methods.made_up import RECIPE
from planner.plan import try_plan
from recipes import ROOT, product, run
from trial.running import tiny

PLAN = "method=made-up&model=Qwen/Qwen2.5-0.5B&gpus=1&prompts_per_step=8&master_dtype=none"
WEIGHTS = 494_032_768
LARGEST = 151_936 * 896
CUBLAS_BYTES = 67_108_864
"""Workspaces of cuBLAS on an H100 (planner/catalog/device_constants.py)."""


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return product(tmp_path_factory.mktemp("product"), RECIPE.title)


def test_the_product_itself_does_not_know_it() -> None:
    plan, problems = try_plan({"method": "made-up"})
    assert plan is None
    assert "method" in {problem.field for problem in problems}


def test_its_total_is_the_one_computed_by_hand(copy: Path) -> None:
    """A policy with two moments and a teacher, in bf16, beside a tensor on its way to the disk."""
    answer = json.loads(run(copy, "-m", "planner", "estimate", PLAN, "--json"))
    saved = next(phase for phase in answer["phases"] if phase["name"] == "checkpoint")
    by_hand = WEIGHTS * (2 + 2 * 2) + WEIGHTS * 2 + LARGEST * 2 + CUBLAS_BYTES
    assert saved["requested_bytes"] == by_hand
    names = [phase["name"] for phase in answer["phases"]]
    assert names[:3] == ["load", "teacher log-probs", "policy forward"]
    assert all(phase["seconds"] for phase in answer["phases"][1:-1])


CHECKS = """
from planner import Plan, estimate, sweep
from planner.plan import try_plan
from planner.plan import choices
from planner.plan.link import from_query
from planner.plan.query import to_query
from planner.advice import recommend
from planner.wording.choices import name
from planner.ui.inputs.groups import GROUPS

plan = Plan(method="made-up", model="Qwen/Qwen2.5-0.5B", made_up_weight=9)
assert plan.rollout == "none" and plan.kl == "none"
assert from_query(to_query(plan)).plan == plan
assert choices("method")[-1] == "made-up"
assert name("method", "made-up") == "Made Up · a teacher's scores"
assert [group.fields for group in GROUPS if group.title == "Made Up"] == [("made_up_weight",)]
_, problems = try_plan({"method": "made-up", "made_up_weight": 13})
assert [problem.message for problem in problems] == ["A weight of 13 brings bad luck."], problems
_, problems = try_plan({"method": "grpo", "made_up_weight": 9})
assert problems[0].message == "Only Made Up has this setting.", problems
_, problems = try_plan({"method": "made-up", "made_up_weight": 101})
assert problems[0].field == "made_up_weight", problems
_, problems = try_plan({"method": "made-up", "framework": "verl"})
assert problems[0].message == "verl has no trainer for Made Up.", problems
table = sweep(plan, {"response_tokens": [128, 256], "gpus": [1, 8]})
assert table["device_bytes"].is_monotonic_increasing is not None and len(table) == 4
recommend(estimate(plan))
print("walked")
"""


def test_plan_link_choices_sweep_and_advice_know_it(copy: Path) -> None:
    assert run(copy, "-c", CHECKS) == "walked\n"
    assert "made_up_weight" in run(copy, "-m", "planner", "fields")


WALKED = f"{PLAN}&made_up_weight=9"


def test_it_walks_every_rung(copy: Path) -> None:
    said = run(copy, str(ROOT / "tests" / "every_rung.py"), WALKED, "Made Up")
    assert said.splitlines()[-1] == "walked"


def test_it_opens_on_every_page(copy: Path) -> None:
    said = run(copy, str(ROOT / "tests" / "every_page.py"), WALKED, "Made Up").splitlines()
    assert said == [*sorted(page.stem for page in (ROOT / "pages").glob("*.py")), "opened"]
    assert len(said) == 11


def test_its_dry_run_meets_its_closed_form(copy: Path) -> None:
    answer = json.loads(run(copy, "-m", "planner", "dry-run", PLAN, "--json"))
    closed = json.loads(run(copy, "-m", "planner", "estimate", PLAN, "--json"))
    before = {phase["name"]: phase["requested_bytes"] for phase in closed["phases"]}
    ran = [phase for phase in answer["phases"] if phase["source"] == "dry run"]
    assert {phase["name"] for phase in ran} == {
        *("teacher log-probs", "policy forward", "policy backward", "optimizer step")
    }
    for phase in ran:
        assert before[phase["name"]] == pytest.approx(phase["requested_bytes"], rel=1e-3)
    compared = answer["dry_run"]["comparisons"]
    assert {one["phase"] for one in compared} == before.keys()
    assert not [one["error"] for one in compared if one["error"]]
    assert answer["dry_run"]["ran"] == "Headroom's step"
    assert not [note for note in answer["dry_run"]["notes"] if "own code" in note]


def test_it_is_tried_on_a_processor(copy: Path) -> None:
    small = f"method=made-up&config={tiny('sft').config}&gpus=1&prompts_per_step=4"
    small += "&prompt_tokens=24&response_tokens=24&master_dtype=none&dtype=fp32&logits=response"
    words = ("trial", small, "--device", "cpu", "--steps", "1", "--warm-up", "1", "--json")
    result = json.loads(run(copy, "-m", "planner", *words).splitlines()[-1])
    measured = {phase["name"]: phase["requested_bytes"] for phase in result["measured"]["phases"]}
    predicted = {phase["name"]: phase["requested_bytes"] for phase in result["predicted"]["phases"]}
    assert "teacher log-probs" in measured
    for name, found in measured.items():
        assert predicted[name] == pytest.approx(found, rel=5e-4), name


PAGE = """
from streamlit.testing.v1 import AppTest

page = AppTest.from_file("app.py", default_timeout=120)
page.query_params.update({"method": "made-up", "model": "Qwen/Qwen2.5-0.5B"})
page.session_state["open:group:made-up"] = True
page.run()
assert not page.exception, page.exception
method = next(box for box in page.selectbox if box.label == "Method")
assert "Made Up · a teacher's scores" in method.options, method.options
assert method.value == "made-up", method.value
labels = {field.key: field.label for field in page.number_input}
assert labels.get("field:made_up_weight") == "Teacher's weight", labels
print("shown")
"""


def test_the_plan_page_shows_it(copy: Path) -> None:
    assert run(copy, "-c", PAGE).splitlines()[-1] == "shown"
