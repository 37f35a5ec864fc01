"""A framework that is nothing but a folder walks every rung, link and page.

The product is copied, the folder is added to the copy, and the copy runs in a process of its own.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from frameworks.made_up import RECIPE
from planner.plan import try_plan
from recipes import product, run

PLAN = "model=Qwen/Qwen2.5-0.5B&framework=made_up&gpus=1&prompts_per_step=8"
WEIGHTS = 494_032_768
CUBLAS_BYTES = 67_108_864
"""Workspaces of cuBLAS on an H100 (planner/catalog/device_constants.py)."""


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return product(tmp_path_factory.mktemp("product"), RECIPE.title)


def test_the_product_itself_does_not_know_it() -> None:
    plan, problems = try_plan({"framework": "made_up"})
    assert plan is None
    assert problems[0].field == "framework"


def test_it_is_estimated_with_its_facts(copy: Path) -> None:
    """Weights, moments and reference of four bytes, and the bucket, at the weight sync."""
    answer = json.loads(run(copy, "-m", "planner", "estimate", PLAN, "--json"))
    sync = next(phase for phase in answer["phases"] if phase["name"] == "weight sync")
    assert sync["requested_bytes"] == WEIGHTS * (4 + 8 + 4) + CUBLAS_BYTES + 3 * 2**30
    other = PLAN.replace("made_up", "plain")
    plain = json.loads(run(copy, "-m", "planner", "estimate", other, "--json"))
    sync = next(phase for phase in plain["phases"] if phase["name"] == "weight sync")
    largest = 151_936 * 896 * 4
    assert sync["requested_bytes"] == WEIGHTS * (4 + 8 + 2) + CUBLAS_BYTES + largest


CHECKS = """
import sys
from planner.dryrun.ask.stand_in import stand_in
from planner.plan import Plan, try_plan
from planner.plan import choices
from planner.plan.link import from_query, to_query
from planner.wording.choices import name, versions

plan = Plan(framework="made_up", model="Qwen/Qwen2.5-0.5B")
assert plan.framework_version == "7" and plan.micro_batch_size == 2, plan
assert from_query(to_query(plan)).plan == plan
assert choices("framework") == ("plain", "trl", "verl", "made_up")
assert name("framework", "made_up") == "Made Up"
assert versions("framework_version", "made_up") == ("7",)
said = stand_in(plan)
assert said.plan.framework == "plain" and "Made Up" in said.notes[0], said
_, problems = try_plan({"framework": "made_up", "optimizer": "sgd"})
assert [problem.message for problem in problems] == ["Made Up has no SGD."], problems
_, problems = try_plan({"framework": "made_up", "method": "ppo"})
assert problems[0].message == "Made Up has no trainer for PPO.", problems
_, problems = try_plan({"framework": "made_up", "framework_version": "6"})
assert problems[0].fix == "Choose one of 7.", problems
_, problems = try_plan({"framework": "else"})
assert "choose one of plain, trl, verl, made_up" in problems[0].message, problems
assert "planner.frameworks.made_up.exporter" not in sys.modules
print("walked")
"""


def test_plan_link_choices_and_dry_run_know_it(copy: Path) -> None:
    assert run(copy, "-c", CHECKS) == "walked\n"
    assert "`verl` `made_up`" in run(copy, "-m", "planner", "fields")


def test_it_is_exported(copy: Path) -> None:
    printed = run(copy, "-m", "planner", "launch", PLAN, "--framework", "made_up")
    assert "made-up train --model Qwen/Qwen2.5-0.5B --micro-batch 2" in printed
    assert "# install: pip install made-up==7" in printed
    refused = subprocess.run(
        [sys.executable, "-m", "planner", "launch", f"{PLAN}&liger=true", "--framework", "made_up"],
        cwd=copy,
        capture_output=True,
        text=True,
    )
    assert refused.returncode != 0
    assert "Made Up has kernels of its own. Set liger to false." in refused.stderr


PAGE = """
from streamlit.testing.v1 import AppTest

app = AppTest.from_file("app.py", default_timeout=120)
app.query_params["framework"] = "made_up"
app.query_params["model"] = "Qwen/Qwen2.5-0.5B"
app.query_params["gpus"] = "1"
app.run()
assert not app.exception, [error.value for error in app.exception]
app.session_state["open:group:hardware"] = True
app.run()
(chosen,) = [box for box in app.selectbox if box.key == "field:framework"]
assert chosen.value == "made_up", chosen.value
assert "Made Up" in chosen.options, chosen.options
app.switch_page("pages/launch.py").run()
assert not app.exception, [error.value for error in app.exception]
assert any("made-up train" in code.value for code in app.code), [code.value for code in app.code]
print("shown")
"""


def test_pages_list_and_export_it(copy: Path) -> None:
    assert run(copy, "-c", PAGE).endswith("shown\n")
