"""Branches of a GPU taken on a CPU-only torch, for steps without data. Imports torch."""

from planner.dryrun.run.branches.card import CardTraits as CardTraits
from planner.dryrun.run.branches.card import traits as traits
from planner.dryrun.run.branches.cpu import cpu_branches as cpu_branches
from planner.dryrun.run.branches.fallback import fallbacks as fallbacks
from planner.dryrun.run.branches.gpu import Branches as Branches
from planner.dryrun.run.branches.gpu import gpu_branches as gpu_branches
from planner.dryrun.run.branches.gpu import implementation_name as implementation_name
from planner.dryrun.run.branches.linear_attention import supposed as supposed
