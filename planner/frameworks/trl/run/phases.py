"""Where a footprint's phases begin and end in a trainer of TRL's, which runs as it is."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from functools import wraps
from typing import Any

import torch
from peft.tuners.tuners_utils import BaseTunerLayer

from planner.launch.huggingface.run import phases
from planner.launch.huggingface.run.phases import Mark, Region
from planner.values.step_phases import OLD_LOG_PROBS, REFERENCE_LOG_PROBS

OLD, REFERENCE = OLD_LOG_PROBS.name, REFERENCE_LOG_PROBS.name

FROZEN = "ref"
"""TRL's name of the adapter that it copies the policy's to."""


class Phases(phases.Phases):
    """Of transformers' Trainer, and passes without gradient."""

    def __init__(
        self,
        trainer: Any,
        mark: Mark,
        begins: Callable[[], None],
        region: Region = lambda _: nullcontext(),
    ) -> None:
        super().__init__(trainer, mark, begins, region)
        self._trainer = trainer
        if hasattr(trainer, "_get_per_token_logps_and_entropies"):
            self._wrap_scoring(trainer)
        else:
            self._hook_reference(trainer)

    def on_step_begin(self, *_: Any, **__: Any) -> None:
        """Another optimizer step; trainers that sample begin it with a generation."""
        if hasattr(self._trainer, "_step"):
            self._trainer._step = 0
        super().on_step_begin()

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
