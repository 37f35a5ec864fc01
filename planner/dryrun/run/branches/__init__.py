"""Branches of a GPU taken on a CPU-only torch, for steps without data. Imports torch."""

from planner.dryrun.run.branches.card import CardTraits, traits
from planner.dryrun.run.branches.cpu import cpu_branches
from planner.dryrun.run.branches.fallback import fallbacks
from planner.dryrun.run.branches.gpu import Branches, gpu_branches, implementation_name
from planner.dryrun.run.branches.linear_attention import supposed

__all__ = [
    "Branches",
    "CardTraits",
    "cpu_branches",
    "fallbacks",
    "gpu_branches",
    "implementation_name",
    "supposed",
    "traits",
]
