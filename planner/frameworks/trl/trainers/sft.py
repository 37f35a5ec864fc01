"""``SFTTrainer``."""

from planner.frameworks.trl.own import Own
from planner.frameworks.trl.script import Script
from planner.rule import Rule
from planner.values.framework import Trainer

TRAINER = Trainer(
    rules=(
        Rule(
            "framework_version",
            lambda p: p.framework_version == "1.14.0" and p.logits in ("chunked", "fused"),
            "framework_version 1.14.0 of trl runs SFT in chunks of 256 tokens that are not "
            "modelled here.",
            "Use 1.15.0 or later.",
        ),
    ),
    export=Script(module="sft", samples=False),
    own=Own(trainer="SFTTrainer", config="SFTConfig", rows="text"),
)
