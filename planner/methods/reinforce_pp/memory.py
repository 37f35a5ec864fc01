"""Phases of a REINFORCE++ step: GRPO's, with either baseline.

Old log-probs and advantages are kept per token until the update. Returns are not: verl's actor
takes the advantages alone, so here they are whitened in place.
"""

from __future__ import annotations

from planner.methods.grpo.memory import phases as phases
