"""The stages of trials: real tensors, and as few rounds as tell what a whole step does.

Imports torch.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from planner.steps.stage import Place, Stage
from planner.trial.run.cadence import sampled_tokens
from planner.trial.run.weights import load_weights


class CopyingStage(Stage):
    """A real run on the CPU whose transfers are copies.

    Host and device are the same memory here, and a transfer between them would do nothing. A copy
    takes its bytes at one place before it frees them at the other, as between two memories.
    """

    def move(self, tensors: Iterable[torch.Tensor], place: Place) -> None:
        """Copy each tensor, and free the one that it was."""
        if self.device.type != "cpu":
            super().move(tensors, place)
            return
        for tensor in tensors:
            tensor.data = tensor.data.clone()

    def saved_on_host(self) -> Any:
        """Keep a copy of what autograd saves, and hand out a copy of that."""
        if self.device.type != "cpu":
            return super().saved_on_host()
        return torch.autograd.graph.saved_tensors_hooks(torch.clone, torch.clone)


class TrialStage(CopyingStage):
    """Runs at most two micro-batches of a kind and samples the tokens of a rollout.

    ``decode_seconds`` has the seconds of each token that was computed in the current step.
    """

    def __init__(
        self,
        device: str,
        on_phase: Callable[[str, bool], None],
        model_folder: Path | None = None,
    ) -> None:
        super().__init__(device, on_phase=on_phase)
        self.decode_seconds: dict[int, float] = {}
        self._model_folder = model_folder
        self.makes_shards = model_folder is None

    def passes(self, count: int, enough: int) -> range:
        """As many batches as are enough: the others are like the last of them."""
        return range(min(count, enough))

    def decoded(self, tokens: int, enough: int) -> Sequence[int]:
        """The prefill, and tokens at a few lengths of the cache, the last ones among them."""
        return sampled_tokens(tokens)

    @contextmanager
    def token(self, index: int) -> Iterator[None]:
        """Times one token."""
        self.synchronize()
        start = time.perf_counter()
        yield
        self.synchronize()
        self.decode_seconds[index] = time.perf_counter() - start

    def gathered(self, tensor: torch.Tensor, ranks: int) -> torch.Tensor:
        """Of all ranks; where this process is the only one, as if all had the same."""
        if dist.is_initialized():
            return super().gathered(tensor, ranks)
        return tensor.repeat(ranks, *[1] * (tensor.dim() - 1))

    def labelled(self, role: str, model: torch.nn.Module) -> None:
        """Put the local folder's weights into a model, before it is sharded."""
        if self._model_folder is not None:
            load_weights(model, self._model_folder, role)
