"""Intuitor beside plain PyTorch: a program that generates with transformers."""

from __future__ import annotations

from pathlib import Path

from planner.launch import online_programs
from planner.values.framework import Trainer

TEMPLATE = Path(__file__).with_name("program") / "train_intuitor.py"


FIXED = {
    "self_certainty": ("full", "The program computes self-certainty of all logits at once."),
    "self_certainty_gradient": (False, "In the program self-certainty is a reward alone."),
}

TRAINER = Trainer(export=online_programs.program(TEMPLATE, "prompt", fixed=FIXED))
