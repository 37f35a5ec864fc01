"""GRPO beside plain PyTorch: a program that generates with transformers."""

from __future__ import annotations

from pathlib import Path

from planner.launch import rolling
from planner.launch.templates import Program
from planner.values.framework import Trainer

TEMPLATE = Path(__file__).with_name("program") / "train_grpo.py"

TRAINER = Trainer(
    export=Program(
        within=rolling.within,
        templates=lambda plan: (TEMPLATE,),
        decisions=rolling.decisions,
        refuse=rolling.refuse,
        rewarded=True,
        notes=lambda plan: (rolling.note("prompt", "answer"),),
    )
)
