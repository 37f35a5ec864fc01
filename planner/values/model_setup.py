"""One model of a run, as a setup decides it: whose, in which form and dtype, trained or not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

from planner.values.step_phases import Moment

Dtype = Literal["bf16", "fp16", "fp32"]
Kind = Literal["language model", "score model", "head"]
"""A model with its vocabulary head, with one number per token in its place, or a head alone."""

Place = Literal["gpu", "host", "host, streamed", "engine"]
Config = Literal["policy", "critic", "reward"]
"""Whose model: the plan's ``model``, ``critic_model`` or ``reward_model``."""


class Use(NamedTuple):
    """What a moment is to a model: all that its state depends on, which is alike in many."""

    computes: bool
    """It needs the model's weights on the GPU."""
    updates: bool
    """It trains the model."""
    loaded: bool
    """All models are there."""
    between: bool
    """It lies between the policy's first forward of a step and its update."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSetup:
    """One model of a run."""

    role: str
    config: Config
    stored: Dtype
    """Dtype of its weights between phases; adapters and sharding engines' copies apart."""
    kind: Kind = "language model"
    trained: bool = False
    adapted: bool = False
    """Adapters train in place of its weights."""
    frozen_adapter: bool = False
    """A second adapter beside those that train is the reference's."""
    scores_too: bool = False
    """A second head gives one number per token: a critic that shares the body."""
    autocast: bool = False
    """Its forward computes in half precision on fp32 weights."""
    loaded: Dtype | Literal[""] = ""
    """Dtype that it is read into, where a later one is not that; empty: as it is stored."""
    attention: str = ""
    """Its attention, by a plan's name of it."""
    liger: bool = False
    """Liger's kernels run in it."""
    requires_gradients: bool = False
    """What answers as the reference requires gradients though nothing trains it, so that autocast
    caches copies of its weights, too."""
    spread: Literal["layers", "whole", "not"] = "layers"
    """FSDP has a unit for each layer; or one of all, which a forward gathers whole; or none."""
    waits: Place = "gpu"
    """Where its weights are while nothing uses them: streamed ones are never whole on the GPU.

    A model of an engine's is none of the trainer's.
    """
    used_in: frozenset[Moment] = frozenset()
    """Moments that need its weights on the GPU."""

    def use(self, moment: Moment) -> Use:
        """What the moment is to it."""
        computes, updates = moment in self.used_in, moment.updates == self.role
        return Use(computes, updates, moment.loaded, moment.between)
