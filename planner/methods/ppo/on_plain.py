"""PPO beside plain PyTorch: a program that generates with transformers and trains a critic."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from planner.launch import online_programs
from planner.launch.templates import Constant, of_fields
from planner.setup.setup import setup_of
from planner.values.framework import Trainer

if TYPE_CHECKING:
    from planner.launch.obstacles import Obstacles

TEMPLATE = Path(__file__).with_name("program") / "train_ppo.py"


def _stored(value: object, said: Mapping[str, Any]) -> Mapping[str, Any]:
    """A plan has one dtype for the weights of all that trains."""
    if said["stored_dtype"] not in (None, value):
        raise ValueError(f"A plan's critic has the policy's stored_dtype, {said['stored_dtype']}.")
    return {}


CONSTANTS = (
    *of_fields({"critic_model": ""}),
    Constant(
        name="critic_stored_dtype",
        fields=("master_dtype",),
        write=lambda plan: setup_of(plan)["critic"].stored,
        read=_stored,
        why="The critic trains, too: weights, gradients and optimizer state of a second model.",
    ),
)
FIXED = {"critic": ("separate", "The program's critic is a model of its own.")}


def _refuse(found: Obstacles) -> None:
    online_programs.refuse(found)
    found.only("finetuning", "full", why="The program's critic trains all weights.")


TRAINER = Trainer(
    export=online_programs.program(
        *(TEMPLATE, "prompt", "answer"),
        constants=CONSTANTS,
        fixed=FIXED,
        flags=("critic_model",),
        refuse=_refuse,
    )
)
