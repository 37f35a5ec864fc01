"""The optimizer of a trained role, as torch has it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import torch

from planner.plan import Plan


def optimizer_of(plan: Plan, weights: Iterable[torch.nn.Parameter]) -> torch.optim.Optimizer:
    """AdamW (fused or foreach) or plain SGD over the trained weights.

    Raises:
        ValueError: for an optimizer whose code is not torch's.
    """
    trained = [weight for weight in weights if weight.requires_grad]
    if plan.optimizer == "sgd":
        return torch.optim.SGD(trained, lr=1e-6, foreach=False)
    if plan.optimizer == "adamw-foreach":
        return torch.optim.AdamW(trained, lr=1e-6, foreach=True)
    if plan.optimizer == "adamw-fused":
        return torch.optim.AdamW(trained, lr=1e-6, fused=True)
    raise ValueError(f"optimizer: {plan.optimizer} needs a library that is not part of the step.")


def step_in_backward(optimizer: torch.optim.Optimizer) -> None:
    """Update each weight as soon as its gradient is there, and free that at once.

    No other weight has one then, so the optimizer's step is that weight's.
    """

    def update(weight: torch.Tensor) -> None:
        optimizer.step()
        weight.grad = None

    for group in optimizer.param_groups:
        for weight in group["params"]:
            weight.register_post_accumulate_grad_hook(update)


def state_tensors(optimizer: torch.optim.Optimizer) -> Iterator[torch.Tensor]:
    """Every tensor of the optimizer's state that is as large as a weight."""
    for state in optimizer.state.values():
        for value in state.values():
            if isinstance(value, torch.Tensor) and value.dim():
                yield value
