"""A run: the models that it loads, its updates, its steps, and what it saves."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from planner.launch.pieces.policy import (
    casting,
    frozen_reference,
    language_model,
    optimizer_of,
    trained_policy,
)
from planner.launch.pieces.preflight import peak_sentence
from planner.launch.pieces.prompts import asked
from planner.launch.pieces.ranks import apart, count, in_common, parted, rank


@dataclass(frozen=True, slots=True)
class Run:
    """A run's options, and what it has loaded; ``reference`` is None without a model of its own."""

    given: argparse.Namespace
    device: torch.device
    tokenizer: Any
    policy: Any
    reference: Any
    optimizer: torch.optim.Optimizer


def run_of(
    plan: Mapping[str, Any],
    given: argparse.Namespace,
    device: torch.device,
    tokenizer: Any,
    compares: bool,
) -> Run:
    """Policy and optimizer, and a reference beside the policy where the loss ``compares`` them."""
    torch.manual_seed(given.seed)
    model = language_model(plan, given, plan["stored_dtype"]).to(device)
    policy = trained_policy(plan, model)
    reference = frozen_reference(plan, given, device) if compares else None
    optimizer = optimizer_of(plan, policy, given.learning_rate)
    return Run(given, device, tokenizer, policy, reference, optimizer)


def updated(
    plan: Mapping[str, Any],
    lossy: Any,
    optimizer: torch.optim.Optimizer,
    items: int,
    numbers: Callable[[slice], tuple[Any, ...]],
) -> float:
    """Micro-batches and optimizer of each update of a step; the last one's mean loss.

    ``lossy`` is a loss of the ``numbers`` of some of the step's ``items``.
    """
    size = plan["micro_batch_size"]
    together = plan["prompts_per_update"] * plan["responses_per_prompt"] // count()
    seen = 0.0
    for start in range(0, items, together):
        seen = 0.0
        for first in range(start, start + together, size):
            given = numbers(slice(first, first + size))
            with apart(lossy, first + size >= start + together):
                loss = lossy(*given)
                (loss * (size / together)).backward()
            seen += float(loss.detach()) * size / together
            del loss, given
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    return seen


def trained(
    plan: Mapping[str, Any],
    run: Run,
    items: list[Any],
    step: Callable[..., dict[str, float]],
    *losses: tuple[Any, Callable[..., Any]],
) -> None:
    """Steps over the data, each told in a line; then the policy is saved.

    ``losses`` are models with a loss of each. ``step`` is given these losses, as all processes
    have them in common, and this process's items of the step; it returns the numbers to tell.
    """
    given, device = run.given, run.device

    def cast(loss: Callable[..., Any]) -> Callable[..., Any]:
        def inside(*numbers: Any) -> Any:
            with casting(plan, device):
                return loss(*numbers)

        return inside

    common = [in_common(model, cast(loss)) for model, loss in losses]
    torch.manual_seed(given.seed + rank())
    own = asked(plan, items, given.seed)
    for number in range(1, given.steps + 1):
        seen = step(*common, next(own))
        if plan["empty_cache"] != "never" and device.type == "cuda":
            torch.cuda.empty_cache()
        shown = ", ".join(f"{name} {value:.6g}" for name, value in seen.items())
        print(f"Step {number}: {shown}{peak_sentence(plan, device)}", flush=True)
    if rank() == 0:
        run.policy.save_pretrained(given.output)
        run.tokenizer.save_pretrained(given.output)
    del common  # DDP goes before what it speaks through
    parted()
