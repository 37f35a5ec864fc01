"""What an optimizer costs on the host's processors, a weight: ``python -m benchmarks.host_update``.

One thread, as launchers give each process (torchrun and accelerate set OMP_NUM_THREADS to 1, Ray to
an actor's one CPU), in CPU seconds, the best of some steps: a busy machine takes turns away, not
CPU seconds. Ratios between optimizers are what ``efficiencies.json`` takes of it; a server's
thread has another memory. AdamW in 8 bits is torchao's, measured where that is installed.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch
from torch.optim import SGD, AdamW

WEIGHTS = (4_000_000, 40_000_000, 120_000_000)
TENSORS = 4
STEPS = 4

MADE: dict[str, Callable[[list[torch.Tensor]], Any]] = {
    "AdamW fused": lambda some: AdamW(some, fused=True),
    "AdamW foreach": lambda some: AdamW(some, foreach=True),
    "AdamW for-loop": lambda some: AdamW(some, foreach=False),
    "SGD": lambda some: SGD(some, lr=1e-3),
    "AdamW 8-bit": lambda some: eight_bit(some),
    "gradients added": lambda some: Added(some),
    "gradients clipped": lambda some: Clipped(some),
}


class Added:
    """What accumulating a further micro-batch's gradients does."""

    def __init__(self, some: list[torch.Tensor]) -> None:
        kept = [one.grad for one in some if one.grad is not None]
        self._pairs = [(grad, torch.ones_like(grad)) for grad in kept]

    def step(self) -> None:
        """Adds them once."""
        for kept, new in self._pairs:
            kept += new


class Clipped:
    """What clipping gradients does."""

    def __init__(self, some: list[torch.Tensor]) -> None:
        self._some = some

    def step(self) -> None:
        """Norm and scale."""
        torch.nn.utils.clip_grad_norm_(self._some, 1e-9)


def eight_bit(some: list[torch.Tensor]) -> Any:
    """torchao's, which transformers and verl run on offloaded shards; raises ImportError."""
    from torchao.optim import AdamW8bit  # type: ignore[import-not-found]

    return AdamW8bit(some)


def seconds_per_weight(how: str, weights: int, dtype: torch.dtype) -> float:
    """CPU seconds of one step by one weight, the best of some."""
    some = [
        torch.randn(weights // TENSORS, dtype=dtype).requires_grad_() for _ in range(TENSORS)
    ]
    for one in some:
        one.grad = torch.randn_like(one)
    optimizer = MADE[how](some)
    optimizer.step()
    best = float("inf")
    for _ in range(STEPS):
        begun = time.thread_time()
        optimizer.step()
        best = min(best, time.thread_time() - begun)
    return best / weights


def main() -> None:
    """Prints nanoseconds a weight, by optimizer, dtype and weights."""
    torch.set_num_threads(1)
    print(f"torch {torch.__version__}, one thread; ns a weight of {WEIGHTS} weights")
    for dtype in (torch.float32, torch.bfloat16):
        for how in MADE:
            try:
                took = [seconds_per_weight(how, weights, dtype) for weights in WEIGHTS]
            except ImportError:
                print(f"{how:18} {dtype}: torchao is not installed")
                continue
            said = "  ".join(f"{1e9 * one:6.3f}" for one in took)
            print(f"{how:18} {dtype}: {said}", flush=True)


if __name__ == "__main__":
    main()
