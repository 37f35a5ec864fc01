"""Python scripts around TRL's trainers: whose they are, and what their arguments rest on."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

from planner.importer.given import Given
from planner.importer.huggingface.calls import owners

OTHER_TRAINERS = re.compile(
    "(A2PO|Async(Distillation|GRPO)|BCO|CPO|(Server)?Distillation|GKD|GMPO|GOLD|IWOPD|KTO|MiniLLM"
    "|NashMD|ORPO|OnlineDPO|PAPO|PPO|PRM|Reward|SDFT|SDPO|SSD|TPO|XPO)Trainer"
)
"""TRL's own that are not planned, of 1.16.0 and of earlier releases."""
BY_TRAINER = {
    "trainer.class": "A trainer of the script's own: what it does otherwise is not read.",
    "trainer.tools": "More turns: longer rows.",
    "trainer.environment_factory": "More turns: longer rows.",
    "trainer.rollout_func": "The script generates by itself: another rollout than the plan's.",
    "trainer.optimizers": "Another optimizer: its state takes more or less.",
    "trainer.compute_loss_func": "Another loss over the vocabulary.",
    "trainer.data_collator": "Rows are made otherwise: longer or shorter.",
}
"""Arguments of a trainer that move memory or seconds, and no field has."""


def trainer_in(givens: Iterable[Given], planned: Collection[str]) -> str:
    """The class of TRL's that trains in a script, planned or not; empty: none of TRL's."""
    named = [one for one in owners(givens) if one.endswith("Trainer")]
    ours = (one for one in named if one in planned or OTHER_TRAINERS.fullmatch(one))
    return next(ours, "")
