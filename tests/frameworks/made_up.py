"""The files of a made-up framework, as docs/adding.md has somebody write them, and two others.

``OTHERWISE`` is what else its ``__init__`` may say: another path to the loss, other dtypes.
``OWN_CODE`` are the files by which it brings a step of its own to dry runs and trials.
"""

from __future__ import annotations

from pathlib import Path

from recipes import product, recipes

RECIPE = recipes()["A framework"]
FOLDER = "planner/frameworks/made_up"
OTHERWISE = '''
from dataclasses import replace

FRAMEWORK = replace(
    FRAMEWORK,
    loss={
        "7": replace(
            PLAIN.loss_code("1"),
            paths={"full": "full", "response": "full", "chunked": "chunked", "fused": "chunked"},
        )
    },
    base_in_master_dtype=True,
    autocasts_adapters=True,
    reduces_once_an_update=True,
)
'''
OWN_CODE = {
    "own_step.py": '''"""Made Up's own code: a buffer beside the step."""

NAME, DOCUMENT, PACKAGES = "Made Up 7", "docs/made-up.md", ()


def refusal(plan):
    return "" if plan.sharding == "none" else "Made Up's own code did not run: it is alone."


def no_trial(plan):
    return ""


def left_out(plan):
    return {"rollout": ""}
''',
    "run/__init__.py": "",
    "run/loop.py": '''import torch

from planner.methods.grpo.step import step
from planner.steps import run as runs

KEPT_BYTES = 2**26


def built(plan, stage, configs):
    run = runs.build(plan, stage, configs)
    run.kept["made up"] = torch.empty(KEPT_BYTES, dtype=torch.uint8, device=stage.device)
    return run


def turn(run):
    kept = run.kept["made up"]
    step(run)
    run.kept["made up"] = kept
''',
    "run/step.py": '''from planner.dryrun.logs.log import STEP
from planner.dryrun.run.world import world
from planner.frameworks.made_up.run.loop import built, turn


def execute(plan, configs, on="gpu"):
    with world(plan, on) as (tracker, stage, _), tracker:
        run = built(plan, stage, configs)
        tracker.settle()
        for index in range(2):
            tracker.log.events.append((STEP, index, 0))
            stage.first = index == 0
            turn(run)
        length = len(tracker.log.events)
    del tracker.log.events[length:]
    return tracker.log
''',
    "run/trial.py": '''from planner.frameworks.made_up.run.loop import built, turn


def train(plans, configs, stage, mark, begins, *, several):
    run = built(plans[0], stage, configs)
    for index in range(len(plans)):
        begins(index)
        turn(run)
    return ["Made Up kept its buffer."]
''',
}


def otherwise(folder: Path) -> Path:
    """A copy of the product with a made-up framework of other dtypes and another path."""
    copy = product(folder, RECIPE.title)
    room = copy / FOLDER / "__init__.py"
    room.write_text(room.read_text("utf-8") + OTHERWISE, "utf-8")
    return copy


def with_own_code(folder: Path) -> Path:
    """A copy of the product whose made-up framework brings its own step."""
    copy = product(folder, RECIPE.title)
    for name, text in OWN_CODE.items():
        (copy / FOLDER / name).parent.mkdir(exist_ok=True)
        (copy / FOLDER / name).write_text(text, "utf-8")
    return copy
