"""``SFTTrainer``."""

from planner.frameworks.trainer import Trainer
from planner.frameworks.trl.own import Own
from planner.frameworks.trl.script import Script

TRAINER = Trainer(
    export=Script(module="sft", samples=False),
    own=Own(trainer="SFTTrainer", config="SFTConfig", rows="text"),
)
