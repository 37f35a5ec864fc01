"""Phases of an RLOO step: GRPO's.

Old log-probs and advantages are kept per token until the update, as verl keeps them. TRL keeps
one of each per sequence (``trl/trainer/rloo_trainer.py`` 1.16.0, lines 1610 and 1709).
"""

from __future__ import annotations

from planner.methods.grpo.memory import phases as phases
