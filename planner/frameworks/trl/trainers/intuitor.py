"""Intuitor beside TRL's passes: GRPO's, with self-certainty in place of a reward.

TRL has no trainer for it; the export brings a subclass of ``GRPOTrainer`` (``intuitor.py``), whose
self-certainty comes of the fused head that TRL has had since 1.15.0.
"""

from collections.abc import Mapping
from typing import Any

from planner.frameworks.trl import FRAMEWORK, FUSED
from planner.frameworks.trl.script import Script
from planner.frameworks.trl.trainers.grpo import TRAINER as GRPO
from planner.values.framework import Trainer


def _defaults(values: Mapping[str, Any]) -> Mapping[str, Any]:
    code = FRAMEWORK.loss.get(values.get("framework_version", FRAMEWORK.versions[0]))
    own = code is FUSED and values.get("logits", "fused") in FUSED.paths
    return {"self_certainty": "fused"} if own else {}


TRAINER = Trainer(
    rules=GRPO.rules,
    defaults=_defaults,
    export=Script(
        samples=True, kl=("none", "loss"), entropy=True, program="intuitor.py", rewarded=False
    ),
)
