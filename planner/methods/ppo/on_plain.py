"""PPO beside plain PyTorch: a program that generates with transformers and trains a critic."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from planner.launch import rolling
from planner.launch.templates import Decision, of_fields
from planner.plan import Plan
from planner.setup.setup import setup_of
from planner.values.framework import Trainer

if TYPE_CHECKING:
    from planner.launch.obstacles import Obstacles

TEMPLATE = Path(__file__).with_name("program") / "train_ppo.py"


def _decisions(plan: Plan) -> Iterator[Decision]:
    yield from rolling.decisions(plan)
    yield from of_fields(plan, {"critic_model": ""})
    critic = setup_of(plan).model("critic")
    yield Decision(
        name="critic_stored_dtype",
        value=critic.stored if critic else plan.dtype,
        why="The critic trains, too: weights, gradients and optimizer state of a second model.",
    )


def _refuse(found: Obstacles) -> None:
    rolling.refuse(found)
    found.only("critic", "separate", why="The program's critic is a model of its own.")
    found.only("finetuning", "full", why="The program's critic trains all weights.")


TRAINER = Trainer(
    export=rolling.program(TEMPLATE, "prompt", "answer", decisions=_decisions, refuse=_refuse)
)
