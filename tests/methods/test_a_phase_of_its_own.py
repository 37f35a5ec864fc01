"""A phase whose seconds its method states: tools between rollout and scoring, in a copy.

Its seconds are by hand here: 64 responses use tools at once, each for as long as the plan says.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from recipes import ROOT, product, recipes, run

RECIPE = recipes()["A phase"]
PLAN = "method=made-up-tools&model=Qwen/Qwen2.5-0.5B&gpus=1&prompts_per_step=16"
ROUNDS = 4
"""16 prompts of 16 responses, 64 at once."""


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return product(tmp_path_factory.mktemp("product"), RECIPE.title)


def answered(copy: Path, query: str) -> dict:  # type: ignore[type-arg]
    return json.loads(run(copy, "-m", "planner", "estimate", query, "--json"))  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def told(copy: Path) -> dict:  # type: ignore[type-arg]
    return answered(copy, f"{PLAN}&made_up_seconds=100")


def test_its_phase_stands_where_its_method_puts_it(told: dict) -> None:  # type: ignore[type-arg]
    """With what stands there: as much as a colocated engine asleep leaves before scoring."""
    names = [phase["name"] for phase in told["phases"]]
    assert names[:4] == ["load", "rollout", "tools", "old log-probs"]
    tools = told["phases"][2]
    assert ("weights", "policy") in {(term["name"], term["role"]) for term in tools["terms"]}
    optimizer = told["phases"][names.index("optimizer step")]
    held = sum(t["bytes"] for t in optimizer["terms"] if t["category"] == "parameters")
    assert sum(t["bytes"] for t in tools["terms"] if t["category"] == "parameters") == held
    assert 0 < tools["device_bytes"] < told["phases"][3]["device_bytes"]


def test_its_seconds_are_a_term_that_opens(told: dict) -> None:  # type: ignore[type-arg]
    tools = told["phases"][2]
    assert tools["seconds"] == ROUNDS * 100
    [cause] = tools["times"]
    assert cause["seconds"] == ROUNDS * 100 and cause["source"] and cause["formula"]
    assert cause["inputs"] == {"responses": 256, "at_once": 64, "seconds": 100}


def test_a_step_its_interval_and_its_price_count_them(copy: Path, told: dict) -> None:  # type: ignore[type-arg]
    without = answered(copy, f"{PLAN}&made_up_seconds=0")
    more = ROUNDS * 100
    assert told["seconds"] == pytest.approx(without["seconds"] + more)
    # Of the rest published runs say how far it is off, of the tools the term itself.
    assert told["low_seconds"] == pytest.approx(without["low_seconds"] + more)
    assert told["high_seconds"] == pytest.approx(without["high_seconds"] + more * 1.5)
    tools = told["phases"][2]
    assert (tools["low_seconds"], tools["high_seconds"]) == (more, more * 1.5)
    assert "as its terms state" in tools["seconds_error"]
    each = told["cost"]["price_per_gpu_hour"] / 3600
    spent = told["cost"]["usd_per_step"] - without["cost"]["usd_per_step"]
    assert spent == pytest.approx(more * each)


def test_what_an_update_computes_stays(copy: Path, told: dict) -> None:  # type: ignore[type-arg]
    like = answered(copy, f"{PLAN.replace('made-up-tools', 'grpo')}&responses_per_prompt=16")
    for figure in ("mfu", "hfu"):
        assert told["throughput"][figure] == like["throughput"][figure]
    rate = "tokens_per_second_per_gpu"
    of = (told["throughput"][rate], like["throughput"][rate])
    assert [one["inputs"]["tokens"] for one in of] == [16 * 16 * (512 + 2048)] * 2
    assert of[0]["value"] < of[1]["value"]


SWEPT = """
from math import isclose

from planner import Plan, estimate, sweep

plan = Plan(method="made-up-tools", model="Qwen/Qwen2.5-0.5B", gpus=1, made_up_seconds=100)
over = {"gradient_checkpointing": ["none", "full"], "prompts_per_step": [8, 24, 64]}
table = sweep(plan, over, phase_seconds=True)
assert table["valid"].all() and table["seconds: tools"].tolist() == [200, 600, 1600] * 2
for row in table.to_dict("records"):
    given = {name: row[name] for name in over}
    alone = estimate(plan.changed(**given, prompts_per_update=row["prompts_per_step"]))
    for column, figure in (
        ("step_seconds", alone.step_seconds),
        ("low_step_seconds", alone.low_seconds),
        ("high_step_seconds", alone.high_seconds),
    ):
        assert isclose(row[column], figure, rel_tol=1e-9), (column, row[column], figure)
print("swept")
"""


def test_a_sweep_says_the_same(copy: Path) -> None:
    assert run(copy, "-c", SWEPT) == "swept\n"


UNKNOWN = """
from dataclasses import replace

from planner.methods.grpo import memory as grpo
from planner.methods.made_up_tools import TOOLS
from planner.phases.phase import waiting


def phases(scene):
    load, rollout, *others = grpo.phases(scene)
    return (load, rollout, waiting(TOOLS, "policy", "tools run"), *others)
"""
OPENED = """
import runpy

pages = runpy.run_path({!r})
for page in pages["PAGES"]:
    pages["opened"](page, {!r})
"""


def test_a_phase_without_seconds_leaves_a_steps_unknown(tmp_path: Path) -> None:
    """And nothing that compares seconds fails of it."""
    copy = product(tmp_path, RECIPE.title)
    (copy / "planner/methods/made_up_tools/memory.py").write_text(UNKNOWN, "utf-8")
    answer = answered(copy, PLAN)
    assert answer["seconds"] is None and answer["cost"]["usd_run"] is None
    assert answer["phases"][2]["seconds"] is None and answer["phases"][3]["seconds"] > 0
    run(copy, "-c", OPENED.format(str(ROOT / "tests" / "every_page.py"), PLAN))
    for words in (("advise", PLAN, "--gpus"), ("compare", PLAN, "preset=grpo-7b@1", "--exit-zero")):
        assert run(copy, "-m", "planner", *words)


def test_it_walks_every_rung(copy: Path) -> None:
    said = run(copy, str(ROOT / "tests" / "every_rung.py"), f"{PLAN}&made_up_seconds=9", "Made Up")
    assert said.splitlines()[-1] == "walked"


def test_it_opens_on_every_page(copy: Path) -> None:
    words = (str(ROOT / "tests" / "every_page.py"), f"{PLAN}&made_up_seconds=9", "Made Up Tools")
    said = run(copy, *words).splitlines()
    assert said == [*sorted(page.stem for page in (ROOT / "pages").glob("*.py")), "opened"]
