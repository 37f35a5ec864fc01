"""A Trainer of transformers', made as an exported program makes it, and its batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig, get_peft_model
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils.data import Dataset
from transformers import Trainer, TrainingArguments
from transformers.trainer_callback import PrinterCallback

from planner.frameworks.hf_trainer.settings import ADAPTERS, settings, training
from planner.plan import Plan

STEPS = 2
"""The first step makes the optimizer's state; the second is the steady one."""
ENOUGH = 2
"""Micro-batches of a step that are run: the second finds gradients."""
OURS: dict[str, Any] = {"save_strategy": "no", "logging_strategy": "no", "disable_tqdm": True}
"""Arguments that are not the export's: nothing is written or said."""


class Unread(Dataset[Any]):
    """What the constructor asks the length of; batches are not made of it."""

    def __len__(self) -> int:
        return 2

    def __getitem__(self, place: int) -> Any:
        raise NotImplementedError


def trainer_of(
    plan: Plan,
    folder: Path,
    load: Callable[[], Any],
    *,
    steps: int = STEPS,
    on_cpu: bool = True,
) -> Any:
    """The plan's trainer, made as an exported program makes it.

    Args:
        plan: what to make it of.
        folder: an empty folder for what it wants to write.
        load: the model, as from_pretrained leaves it.
        steps: optimizer steps that it will make.
        on_cpu: without a GPU its own parser refuses bf16, unless it is told so.
    """
    ours = {**OURS, "max_steps": steps, "use_cpu": on_cpu, "output_dir": str(folder)}
    arguments = TrainingArguments(**{**training(plan), **ours})
    model, told = load(), settings(plan)
    if ADAPTERS in told:
        model = get_peft_model(model, LoraConfig(**told[ADAPTERS]))
    made = Trainer(model=model, args=arguments, train_dataset=Unread())
    made.remove_callback(PrinterCallback)
    return made


Placed = Callable[[torch.Tensor], torch.Tensor]
"""A tensor of a batch as it is on the device."""


class Batches:
    """A trainer's batches: of each step as many as show its peak, at its plan's caps.

    Args:
        trainer: whose.
        plans: what each step's batches are of; the last one is also that of every further step.
        placed: where they are put.
    """

    def __init__(self, trainer: Any, plans: Sequence[Plan], placed: Placed) -> None:
        self._trainer, self._plans, self._placed = trainer, plans, placed
        self._count = min(ENOUGH, trainer.args.gradient_accumulation_steps)
        trainer.get_train_dataloader = lambda: self

    def __len__(self) -> int:
        return self._count  # type: ignore[no-any-return]

    def __iter__(self) -> Iterator[dict[str, torch.Tensor]]:
        """Micro-batches of a step."""
        plan = self._plans[min(self._trainer.state.global_step, len(self._plans) - 1)]
        for _ in range(self._count):
            with _disable_current_modes():
                rows = rows_of(plan)
            yield {name: self._placed(value) for name, value in rows.items()}


def rows_of(plan: Plan) -> dict[str, torch.Tensor]:
    """A micro-batch as collators make it: ids, mask and labels ``[rows, tokens]``.

    Of padded rows the last has one token less.
    """
    size, length = plan.micro_batch_size, plan.prompt_tokens + plan.response_tokens
    ids = torch.full((size, length), 2)
    mask, labels = torch.ones_like(ids), ids.clone()
    if plan.batch_shape == "padded" and size > 1:
        mask[-1, -1], labels[-1, -1] = 0, -100
    return {"input_ids": ids, "attention_mask": mask, "labels": labels}
