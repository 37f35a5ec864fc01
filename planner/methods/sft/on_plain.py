"""SFT beside plain PyTorch: a program over a file of texts."""

from __future__ import annotations

from pathlib import Path

from planner.launch.templates import Program, of_fields
from planner.values.framework import Trainer
from planner.values.sharding import sharding_of

TEMPLATE = Path(__file__).with_name("program") / "train_sft.py"
NOTES = (
    "The data file has JSONL rows with a text, or with a prompt and a response, of which the "
    "response alone is learned; rows longer than planned are left out.",
)


OWN_LOSS = "The program's loss is transformers' own, of all logits of a micro-batch in fp32."

TRAINER = Trainer(
    export=Program(
        within=lambda plan: sharding_of(plan).replicated,
        templates=lambda plan: (TEMPLATE,),
        constants=of_fields({"prompts_per_step": ""}),
        fixed={"logits": ("full", OWN_LOSS), "logits_dtype": ("fp32", OWN_LOSS)},
        notes=lambda plan: NOTES,
    )
)
