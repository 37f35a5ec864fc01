"""``SFTTrainer``."""

from planner.frameworks.trl.own import Own
from planner.frameworks.trl.script import Script
from planner.values.framework import Trainer

TRAINER = Trainer(
    export=Script(module="sft", samples=False),
    own=Own(trainer="SFTTrainer", config="SFTConfig", rows="text"),
)
