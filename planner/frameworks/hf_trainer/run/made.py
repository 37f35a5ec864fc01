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
from planner.launch.huggingface.run.batches import OURS, STEPS, Batches
from planner.plan import Plan


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


def fed(trainer: Any, plans: Sequence[Plan], placed: Placed) -> None:
    """Batches come of the plans of the steps, at their caps; ``placed`` puts them on the device."""

    def made(plan: Plan, count: int) -> Iterator[dict[str, torch.Tensor]]:
        for _ in range(count):
            with _disable_current_modes():
                rows = rows_of(plan)
            yield {name: placed(value) for name, value in rows.items()}

    Batches(trainer, plans, made)


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
