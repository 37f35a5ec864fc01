"""SFT beside plain PyTorch: a program over a file of texts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from planner.launch.templates import Program, of_fields
from planner.values.framework import Trainer
from planner.values.sharding import sharding_of

if TYPE_CHECKING:
    from planner.launch.obstacles import Obstacles

TEMPLATE = Path(__file__).with_name("program") / "train_sft.py"
NOTES = (
    "The data file has JSONL rows with a text, or with a prompt and a response, of which the "
    "response alone is learned; rows longer than planned are left out.",
)


def _refuse(found: Obstacles) -> None:
    found.only(
        "logits",
        *("full", "response"),
        why="The program's loss is transformers' own, which has all logits of a micro-batch.",
    )


TRAINER = Trainer(
    export=Program(
        within=lambda plan: sharding_of(plan).replicated,
        templates=lambda plan: (TEMPLATE,),
        constants=of_fields({"prompts_per_step": ""}),
        fixed={"logits_dtype": ("fp32", "The program's loss is transformers' own, in fp32.")},
        refuse=_refuse,
        notes=lambda plan: NOTES,
    )
)
