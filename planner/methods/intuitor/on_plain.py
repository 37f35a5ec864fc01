"""Intuitor beside plain PyTorch: a program that generates with transformers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from planner.launch import rolling
from planner.values.framework import Trainer

if TYPE_CHECKING:
    from planner.launch.obstacles import Obstacles

TEMPLATE = Path(__file__).with_name("program") / "train_intuitor.py"


def _refuse(found: Obstacles) -> None:
    rolling.refuse(found)
    found.only(
        *("self_certainty", "full"),
        why="The program computes self-certainty of all logits at once.",
    )
    found.only(
        *("self_certainty_gradient", False), why="In the program self-certainty is a reward alone."
    )


TRAINER = Trainer(export=rolling.program(TEMPLATE, "prompt", refuse=_refuse))
