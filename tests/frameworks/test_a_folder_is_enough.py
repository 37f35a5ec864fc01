"""A framework that is nothing but a folder walks every rung, link and page.

The product is copied, the folder is added to the copy, and the copy runs in a process of its own.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from frameworks.made_up import RECIPE, otherwise, with_own_code
from planner.plan import try_plan
from recipes import ROOT, product, run
from trial.running import TOLERANCE, tiny

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
from planner.plan.link import from_query
from planner.plan.query import to_query
from planner.wording.choices import name, versions

plan = Plan(framework="made_up", model="Qwen/Qwen2.5-0.5B")
assert plan.framework_version == "7" and plan.micro_batch_size == 2, plan
assert from_query(to_query(plan)).plan == plan
assert choices("framework") == ("plain", "trl", "verl", "hf_trainer", "made_up")
assert name("framework", "made_up") == "Made Up"
assert versions("framework_version", "made_up") == ("7",)
said = stand_in(plan)
assert said.code == "plain" and said.plan == plan and "Made Up" in said.notes[0], said
_, problems = try_plan({"framework": "made_up", "optimizer": "sgd"})
assert [problem.message for problem in problems] == ["Made Up has no SGD."], problems
_, problems = try_plan({"framework": "made_up", "method": "ppo"})
assert problems[0].message == "Made Up has no trainer for PPO.", problems
_, problems = try_plan({"framework": "made_up", "framework_version": "6"})
assert problems[0].fix == "Choose one of 7.", problems
_, problems = try_plan({"framework": "else"})
assert "choose one of plain, trl, verl, hf_trainer, made_up" in problems[0].message, problems
assert "planner.frameworks.made_up.exporter" not in sys.modules
print("walked")
"""


def test_plan_link_choices_and_dry_run_know_it(copy: Path) -> None:
    assert run(copy, "-c", CHECKS) == "walked\n"
    assert "`hf_trainer` `made_up`" in run(copy, "-m", "planner", "fields")


SCALARS = 2e-5
"""Of a phase's bytes: sums and means of a loss, which no formula has; the most seen is 6e-6."""


def test_its_dry_run_runs_our_step_with_its_facts_and_says_so(copy: Path) -> None:
    answer = json.loads(run(copy, "-m", "planner", "dry-run", PLAN, "--json"))
    found = answer["dry_run"]
    assert found["ran"] == "Headroom's step"
    assert found["notes"][:2] == [
        "Made Up's own code did not run.",
        "Headroom's step ran with the plan's options and Made Up's dtypes; it is no check of Made "
        "Up's code.",
    ]
    assert not [one["error"] for one in found["comparisons"] if one["error"]]
    apart = {one["phase"]: one["difference"] for one in found["comparisons"]}
    executed = [name for name, one in apart.items() if one is not None]
    names = ("old log-probs", "reference log-probs", "policy forward", "policy backward")
    assert executed == [*names, "optimizer step"]
    assert max(abs(apart[name]) for name in executed) < SCALARS, apart
    # The reference is of four bytes a weight there, too: by plain's facts it would be of two.
    kept = next(phase for phase in found["phases"] if phase["phase"] == "optimizer step")
    (share,) = [one for one in kept["shares"] if one["role"] == "reference"]
    frequencies = 2 * 32 * 4  # of the rotary embedding: those in use and those it was made with
    assert (share["category"], share["bytes"]) == ("parameters", 4 * WEIGHTS + frequencies)


APART = """
from planner.dryrun.ask.answer import answer
from planner.dryrun.run.worker import execute
from planner.plan import Plan

BASE = dict(framework="made_up", model="Qwen/Qwen2.5-0.5B", prompts_per_step=8, kl="loss")
CASES = (
    dict(gpus=1, logits="response"),
    dict(gpus=1, logits="chunked", finetuning="lora"),
    dict(gpus=2, sharding="fsdp2", micro_batch_size=1),
)
for case in CASES:
    plan = Plan(**BASE, **case)
    found = answer(plan, execute({"plan": plan.model_dump()}))
    assert not found.errors, found.errors
    for one in found.comparisons:
        if one.executed:
            print(one.difference)
"""


def test_our_step_takes_its_path_and_its_dtypes(tmp_path: Path) -> None:
    """All logits where the plan asks for the response's; a base as wide as its adapters."""
    apart = [float(line) for line in run(otherwise(tmp_path), "-c", APART).split()]
    assert len(apart) == 3 * 5 and max(map(abs, apart)) < SCALARS, apart


SMALL = (
    f"framework=made_up&config={tiny('grpo').config}&gpus=1&prompts_per_step=2&dtype=bf16"
    "&responses_per_prompt=2&prompt_tokens=24&response_tokens=24&kl=loss"
)
TRIAL = ("--device", "cpu", "--steps", "1", "--warm-up", "1", "--json")


def test_it_is_tried_on_a_processor_by_our_step_with_its_facts(copy: Path) -> None:
    said = run(copy, "-m", "planner", "trial", SMALL, *TRIAL)
    result = json.loads(said.splitlines()[-1])
    assert result["status"] == "completed", result["reason"]
    (ran,) = result["ran"]
    assert "framework=made_up" in ran["plan"]
    assert "is no check of Made Up's code" in " ".join(result["notes"])
    predicted = {phase["name"]: phase["requested_bytes"] for phase in result["predicted"]["phases"]}
    measured = {phase["name"]: phase["requested_bytes"] for phase in result["measured"]["phases"]}
    assert {"reference log-probs", "policy backward"} <= measured.keys()
    for name, found in measured.items():
        assert predicted[name] == pytest.approx(found, rel=TOLERANCE), name


BUFFER_BYTES = 2**26
"""What its own code keeps beside a step, which is less than 8 MB of tensors."""


def test_its_own_code_runs_where_its_folder_has_some(tmp_path: Path) -> None:
    """In the trial, and in the dry run before it: both have the buffer that it keeps."""
    said = run(with_own_code(tmp_path), "-m", "planner", "trial", SMALL, *TRIAL)
    result = json.loads(said.splitlines()[-1])
    assert result["status"] == "completed", result["reason"]
    told = " ".join(result["notes"])
    assert "Made Up 7's own code ran" in told and "Made Up kept its buffer." in told
    assert "no check" not in told
    (ran,) = result["ran"]
    assert "framework=made_up" in ran["plan"]
    predicted = {phase["name"]: phase["requested_bytes"] for phase in result["predicted"]["phases"]}
    assert predicted.keys() >= {"old log-probs", "policy backward", "optimizer step"}
    for phase in result["measured"]["phases"]:
        found = phase["requested_bytes"]
        assert predicted[phase["name"]] == pytest.approx(found, rel=TOLERANCE), phase["name"]
        assert 0 < found - BUFFER_BYTES < 8e6, phase["name"]


def test_it_walks_every_rung(copy: Path) -> None:
    said = run(copy, str(ROOT / "tests" / "every_rung.py"), PLAN, "Made Up")
    assert said.splitlines()[-1] == "walked"


def test_it_opens_on_every_page(copy: Path) -> None:
    said = run(copy, str(ROOT / "tests" / "every_page.py"), PLAN, "Made Up").splitlines()
    assert said == [*sorted(page.stem for page in (ROOT / "pages").glob("*.py")), "opened"]
    assert len(said) == 11


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
