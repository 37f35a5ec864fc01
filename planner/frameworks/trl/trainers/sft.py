"""``SFTTrainer``."""

from planner.frameworks.trainer import Trainer
from planner.frameworks.trl.script import Script

TRAINER = Trainer(export=Script(samples=False))
