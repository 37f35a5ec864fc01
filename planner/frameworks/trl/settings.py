"""TRL's settings beside transformers' TrainingArguments: the table that exporter and importer read.

Rows stand in the order in which an export has them. Names, lines and defaults of TRL 1.16.0.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from planner.frameworks.trl import FRAMEWORK
from planner.frameworks.trl.adapters import ADAPTERS
from planner.frameworks.trl.given import GIVEN, PAIRS
from planner.frameworks.trl.own import Own
from planner.frameworks.trl.sampled import SAMPLES, sampled, varied
from planner.frameworks.trl.served import SERVED
from planner.launch.huggingface import accelerate, deepspeed, table, training
from planner.plan.trainers import trainer_of
from planner.values.setting import Setting, with_defaults
from planner.values.setting_files import names

DEFAULTS = {
    # trainer/base_config.py and trainer/model_config.py
    "bf16": None,
    "gradient_checkpointing": True,
    "dtype": "float32",
}
"""Where TRL's classes have another default than transformers'."""

ROWS: dict[str, tuple[Setting, ...]] = {"pairs": PAIRS, "text": GIVEN}
"""By what a trainer's data set has: its own rows, where that is no prompts."""
AROUND = Own(trainer="GRPOTrainer", config="GRPOConfig", rows="prompts")
"""The trainer that programs of our own are written around."""


@cache
def training_settings(method: str) -> tuple[Setting, ...]:
    """What TRL's script of a method takes, or a program around its trainer."""
    trainer = trainer_of(FRAMEWORK.name, method)
    own: Own = trainer.own or AROUND
    if own.rows == "prompts":
        kl = trainer.export.kl[-1]
        mine = (*sampled(kl), *varied(trainer.variations), *training.VALIDATION, *SAMPLES)
    else:
        mine = (*ROWS[own.rows], *table.unwritten(training.VALIDATION))
    rows = (*training.WRITTEN, *ADAPTERS, *mine, *training.READ)
    kept = tuple(row for row in rows if row.name not in own.lacks)
    return with_defaults(kept, {**DEFAULTS, **own.defaults})


def all_settings(method: str) -> tuple[Setting, ...]:
    """The same, and what starts the processes: accelerate, DeepSpeed, an engine's server."""
    return (*training_settings(method), *accelerate.ROWS, *deepspeed.ROWS, *SERVED)


@cache
def no_effect() -> tuple[str, ...]:
    """Names that move neither memory nor seconds."""
    return (*names(Path(__file__).with_name("no_effect.txt")), *table.no_effect())
