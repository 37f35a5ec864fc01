"""What a plan's trainer of TRL's asks of data, beside packages that compute on cards only.

Stands beside :mod:`planner.frameworks.trl.run.seams`, for plans that need it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any
from unittest.mock import patch

import torch
from torch.utils._python_dispatch import _disable_current_modes
from trl.trainer import dpo_trainer
from trl.trainer.dpo_trainer import DataCollatorForPreference
from trl.trainer.sft_trainer import DataCollatorForLanguageModeling

from planner.dryrun.run.stage import DryStage
from planner.launch.huggingface.run import packages as below
from planner.plan import Plan


@contextmanager
def packages(plan: Plan, stage: DryStage, *, on_card: bool) -> Iterator[None]:
    """Inside, a trainer of the plan's finds what it asks for; as :func:`below.packages`."""
    with _collated(stage.device), _cached(plan), below.packages(plan, stage, on_card=on_card):
        yield


@contextmanager
def real(plan: Plan, *, on_cpu: bool) -> Iterator[None]:
    """Of these what tensors with data need as well."""
    with _cached(plan), below.real(plan, on_cpu=on_cpu):
        yield


def _cached(plan: Plan) -> AbstractContextManager[None]:
    return cached() if plan.reference == "cached-logprobs" else nullcontext()


@contextmanager
def _collated(device: torch.device) -> Iterator[None]:
    """SFT's collator finds in a packed row's positions where sequences begin: on real tensors.

    The batch is then given without data, as large.
    """
    collate = DataCollatorForLanguageModeling.torch_call

    def collated(collator: Any, examples: list[dict[str, Any]]) -> dict[str, Any]:
        with _disable_current_modes():
            found = collate(collator, examples)
        given: dict[int, Any] = {}  # boundaries of queries are those of keys
        for value in found.values():
            tensor = isinstance(value, torch.Tensor)
            given[id(value)] = torch.empty_like(value, device=device) if tensor else value
        return {name: given[id(value)] for name, value in found.items()}

    with patch.object(DataCollatorForLanguageModeling, "torch_call", collated):
        yield


@contextmanager
def cached() -> Iterator[None]:
    """A reference's cached log-probs come with the batch: the pass before the training is not made.

    Its files are named by what the weights are.
    """
    collate = DataCollatorForPreference.torch_call

    def collated(collator: Any, examples: list[dict[str, Any]]) -> dict[str, Any]:
        log_probs = {"ref_chosen_logps": 0.0, "ref_rejected_logps": 0.0}
        found: dict[str, Any] = collate(collator, [{**each, **log_probs} for each in examples])
        return found

    with (
        patch.object(dpo_trainer, "hash_module", lambda _: ""),
        patch.object(dpo_trainer.DPOTrainer, "_precompute_ref_logps", lambda _, data, *__: data),
        patch.object(DataCollatorForPreference, "torch_call", collated),
    ):
        yield
