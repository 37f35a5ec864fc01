"""Where a footprint's phases begin and end in a trainer of TRL's, which runs as it is."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import wraps
from typing import Any

import torch
from peft.tuners.tuners_utils import BaseTunerLayer
from transformers import TrainerCallback

from planner.values import step_phases
from planner.values.step_phases import OLD_LOG_PROBS, REFERENCE_LOG_PROBS

FORWARD, BACKWARD, UPDATE = (phase.name for phase in step_phases.UPDATE)
OLD, REFERENCE = OLD_LOG_PROBS.name, REFERENCE_LOG_PROBS.name

FROZEN = "ref"
"""TRL's name of the adapter that it copies the policy's to."""

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
        self._trainer = trainer
        self._wrap(trainer, "compute_loss", FORWARD)
        self._wrap(trainer.accelerator, "backward", BACKWARD)
        self._wrap_update(trainer)
        if hasattr(trainer, "_get_per_token_logps_and_entropies"):
            self._wrap_scoring(trainer)
        else:
            self._hook_reference(trainer)
        trainer.add_callback(self)

    def on_step_begin(self, *_: Any, **__: Any) -> None:
        """Another optimizer step; trainers that sample begin it with a generation."""
        if hasattr(self._trainer, "_step"):
            self._trainer._step = 0
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

    def _wrap_scoring(self, trainer: Any) -> None:
        plain = trainer._get_per_token_logps_and_entropies

        @wraps(plain)
        def marked(model: Any, *args: Any, **kwargs: Any) -> Any:
            if torch.is_grad_enabled():
                return plain(model, *args, **kwargs)
            reference = model is not trainer.model or _bare(model)
            role = "reference" if model is not trainer.model else "policy"
            with self._phase(REFERENCE if reference else OLD, role):
                return plain(model, *args, **kwargs)

        trainer._get_per_token_logps_and_entropies = marked

    def _hook_reference(self, trainer: Any) -> None:
        """DPO's reference is a call of a model inside the loss."""
        model = getattr(trainer, "ref_model", None) or trainer.model

        def before(*_: Any) -> None:
            if not torch.is_grad_enabled():
                self._enter(REFERENCE)

        def after(*_: Any) -> None:
            if not torch.is_grad_enabled():
                self._leave()

        model.register_forward_pre_hook(before, prepend=True)  # of what gathers its weights
        model.register_forward_hook(after)


def _bare(model: Any) -> bool:
    """Whether a model's adapters are switched off, or the copy that never trains is on."""
    layers = (each for each in model.modules() if isinstance(each, BaseTunerLayer))
    return any(each.disable_adapters or FROZEN in each.active_adapters for each in layers)
