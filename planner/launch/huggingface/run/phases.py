"""Where a footprint's phases begin and end in a Trainer of transformers, which runs as it is."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import wraps
from typing import Any

from transformers import TrainerCallback

from planner.values import step_phases

FORWARD, BACKWARD, UPDATE = (phase.name for phase in step_phases.UPDATE)

Mark = Callable[[str, bool], None]
"""Told a phase's name, and whether it begins or ends."""
Region = Callable[[str], AbstractContextManager[None]]
"""Inside, what is made belongs to a role."""


class Phases(TrainerCallback):
    """Marks a trainer's phases; one at a time, so that a pass inside a forward interrupts it."""

    def __init__(
        self,
        trainer: Any,
        mark: Mark,
        begins: Callable[[], None],
        region: Region = lambda _: nullcontext(),
    ) -> None:
        self._mark, self._begins, self._region = mark, begins, region
        self._now: list[str] = []
        self._wrap(trainer, "compute_loss", FORWARD)
        self._wrap(trainer.accelerator, "backward", BACKWARD)
        self._wrap_update(trainer)
        trainer.add_callback(self)

    def on_step_begin(self, *_: Any, **__: Any) -> None:
        """Another optimizer step."""
        self._begins()

    def on_step_end(self, *_: Any, **__: Any) -> None:
        """Gradients are gone."""
        self._leave()

    def _enter(self, name: str) -> None:
        if self._now:
            self._mark(self._now[-1], False)
        self._now.append(name)
        self._mark(name, True)

    def _leave(self) -> None:
        self._mark(self._now.pop(), False)
        if self._now:
            self._mark(self._now[-1], True)

    @contextmanager
    def _phase(self, name: str, role: str = "policy") -> Any:
        self._enter(name)
        try:
            with self._region(role):
                yield
        finally:
            self._leave()

    def _wrap(self, owner: Any, name: str, phase: str) -> None:
        plain = getattr(owner, name)

        @wraps(plain)
        def marked(*args: Any, **kwargs: Any) -> Any:
            with self._phase(phase):
                return plain(*args, **kwargs)

        setattr(owner, name, marked)

    def _wrap_update(self, trainer: Any) -> None:
        """From the clipping of the gradients until they are gone."""
        plain = trainer._clip_grad_norm

        def marked(model: Any) -> Any:
            self._enter(UPDATE)
            return plain(model)

        trainer._clip_grad_norm = marked
