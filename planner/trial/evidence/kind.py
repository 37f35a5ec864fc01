"""Which plans a measured error holds for: those of the kind that was measured. No torch."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

from planner import catalog
from planner.phases.scene import scene_of
from planner.phases.vocabulary import path
from planner.plan import Plan
from planner.plan.facts import facts_of
from planner.values.sharding import sharding_of


class ErrorKind(NamedTuple):
    """What a comparison has to share with a plan, each in the words that name it where it is not.

    Sizes, dtypes and adapters are no part of it: an error is of what they are planned to take.
    """

    model: str
    framework: str
    loss: str
    sharding: str
    offload: str
    cards: str
    """By architecture: an H100 and an H200 are one family."""

    def lacking(self, known: Iterable[ErrorKind]) -> tuple[str, ...]:
        """What the nearest of the known kinds does not cover; empty where one is the same."""
        return min(
            (
                tuple(mine for mine, its in zip(self, one, strict=True) if mine != its)
                for one in known
            ),
            key=len,
            default=(),
        )

    def on(self, gpu: str) -> ErrorKind:
        """This kind on another card, given by its catalog key (empty: a card the catalog lacks)."""
        return self._replace(cards=f"{catalog.gpu(gpu).architecture if gpu else 'other'} cards")


@lru_cache(maxsize=1024)
def error_kind(plan: Plan) -> ErrorKind:
    """The kind of a plan.

    Raises:
        ValueError: for what a formula refuses of the plan, naming the field.
    """
    facts = facts_of(plan)
    scene = scene_of(plan, facts)
    away = [plan.offload] * (plan.offload != "none") + ["activations"] * plan.activation_offload
    return ErrorKind(
        model="mixtures of experts" if scene.policy.arch.sparse_layers else "dense models",
        framework=scene.framework.label,
        loss=f"{path(scene)} logits",
        sharding="no sharding" if sharding_of(plan).alone else plan.sharding.upper(),
        offload=f"offload of {' and '.join(away)}" if away else "no offload",
        cards=f"{facts.gpu.architecture or 'other'} cards",
    )
