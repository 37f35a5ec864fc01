"""Processes of one node, a GPU each, as torchrun starts them; one alone needs nothing."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from planner.launch.pieces.options import chosen_device


def count() -> int:
    """Processes in all."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def rank() -> int:
    """Which of them this is."""
    return int(os.environ.get("RANK", "0"))


def joined(plan: Mapping[str, Any], name: str) -> torch.device:
    """This process's device, once all processes have met; from here the first alone prints."""
    if count() != plan["gpus"]:
        raise SystemExit(
            f"gpus: the plan has {plan['gpus']}, a process each, and {count()} began; launch.sh "
            "begins as many."
        )
    device = chosen_device(name)
    if count() == 1:
        return device
    if device.type == "cuda":
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    if rank():
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    return device


def met() -> None:
    """Wait until every process is here."""
    if count() > 1:
        dist.barrier()


def parted() -> None:
    """Leave the others, when all of them are done."""
    if count() > 1:
        dist.barrier()
        dist.destroy_process_group()


def share(items: list[Any]) -> list[Any]:
    """This process's part of a batch; all have as many."""
    each = len(items) // count()
    return items[rank() * each : (rank() + 1) * each]


def mean(seen: dict[str, float], device: torch.device) -> dict[str, float]:
    """Means over all processes."""
    if count() == 1:
        return seen
    values = torch.tensor(list(seen.values()), device=device)
    dist.all_reduce(values)
    return dict(zip(seen, (values / count()).tolist(), strict=True))


class Watched(nn.Module):
    """A loss as the forward of a module that has the policy's weights: what DDP can watch."""

    def __init__(self, policy: nn.Module, loss: Callable[..., Any]) -> None:
        super().__init__()
        self.policy, self.loss = policy, loss

    def forward(self, *given: Any) -> Any:
        """The loss."""
        return self.loss(*given)


def in_common(policy: nn.Module, loss: Callable[..., Any]) -> Any:
    """``loss``, after whose backward gradients are the mean of all processes'.

    Every process holds all weights, and beside its gradients DDP's flat copy of them.
    """
    if count() == 1:
        return loss
    return DistributedDataParallel(Watched(policy, loss), broadcast_buffers=False)


def apart(loss: Any, last: bool) -> AbstractContextManager[Any]:
    """Gradients stay a process's own inside, up to the last micro-batch of an update."""
    return nullcontext() if last or count() == 1 else loss.no_sync()
