"""A trainer's batches without a data set: of each step as many as show its peak."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from planner.plan import Plan

STEPS = 2
"""The first step makes the optimizer's state; the second is the steady one."""
ENOUGH = 2
"""Micro-batches of a step that are run: the second finds gradients."""
OURS: dict[str, Any] = {"save_strategy": "no", "logging_strategy": "no", "disable_tqdm": True}
"""Arguments that are not the export's: nothing is written or said."""


class Batches:
    """What a trainer takes for its data loader.

    Args:
        trainer: whose.
        plans: what each step's batches are of; the last one is also that of every further step.
        made: a step's micro-batches, of its plan and their count.
    """

    def __init__(
        self, trainer: Any, plans: Sequence[Plan], made: Callable[[Plan, int], Iterable[Any]]
    ) -> None:
        self._trainer, self._plans, self._made = trainer, plans, made
        self._count = min(ENOUGH, trainer.args.gradient_accumulation_steps)
        trainer.get_train_dataloader = lambda: self

    @property
    def plan(self) -> Plan:
        """The plan of the step that is made, or begins."""
        return self._plans[min(self._trainer.state.global_step, len(self._plans) - 1)]  # type: ignore[no-any-return]

    def __len__(self) -> int:
        return self._count  # type: ignore[no-any-return]

    def __iter__(self) -> Iterator[Any]:
        """Micro-batches of a step."""
        return iter(self._made(self.plan, self._count))
