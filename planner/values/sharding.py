"""What each way to train on several GPUs is: a row each, so that nobody asks for its name.

Imports nothing of ours.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple


class Sharding(NamedTuple):
    """A value of a plan's ``sharding``."""

    name: str
    fsdp: int = 0
    """Which of PyTorch's FSDPs gathers weights unit by unit: 1 with flat parameters, 2 without."""
    zero: int = 0
    """DeepSpeed's stage."""
    alone: bool = False
    """One GPU trains: there is nothing to reduce."""

    @property
    def replicated(self) -> bool:
        """Whether every GPU holds all of what is trained."""
        return not (self.fsdp or self.zero)

    @property
    def ddp(self) -> bool:
        """Whether PyTorch's DDP reduces whole gradients in buckets."""
        return self.replicated and not self.alone

    @property
    def gathers(self) -> bool:
        """Whether weights are gathered to compute with."""
        return self.fsdp > 0 or self.zero == 3

    @property
    def streams(self) -> bool:
        """Whether its own offload computes with weights that stay in host RAM throughout."""
        return self.fsdp == 2 or self.zero == 3


SHARDINGS: Mapping[str, Sharding] = MappingProxyType(
    {
        each.name: each
        for each in (
            Sharding("none", alone=True),
            Sharding("ddp"),
            Sharding("zero1", zero=1),
            Sharding("zero2", zero=2),
            Sharding("zero3", zero=3),
            Sharding("fsdp1", fsdp=1),
            Sharding("fsdp2", fsdp=2),
        )
    }
)


def sharding_of(plan: Any) -> Sharding:
    """What a plan's sharding is, or a sweep's, which has one for all of its plans."""
    return SHARDINGS[plan.sharding]
