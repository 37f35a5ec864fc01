"""GRPO beside plain PyTorch: a program that generates with transformers."""

from __future__ import annotations

from pathlib import Path

from planner.launch import online_programs
from planner.values.framework import Trainer

TEMPLATE = Path(__file__).with_name("program") / "train_grpo.py"

TRAINER = Trainer(export=online_programs.program(TEMPLATE, "prompt", "answer"))
