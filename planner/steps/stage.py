"""Where a step runs: its devices, its phases, and what only a dry run does otherwise.

A method's ``step.py`` is written against :class:`Stage` alone. The class itself runs the step
for real, on any device; the dry run's stage executes the same code on tensors without data and
writes down every storage's life.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, Literal

import torch
import torch.distributed as dist
from torch.distributed.fsdp import FSDPModule

from planner.values.dtypes import TORCH_NAMES

Place = Literal["device", "host"]

DTYPES: Mapping[str, torch.dtype] = {
    name: getattr(torch, torchs) for name, torchs in TORCH_NAMES.items()
}
"""Every dtype a plan can name."""


class Stage:
    """A real run on ``device``, with ``host`` as the place that offloaded tensors go to.

    ``on_phase`` is called with the name and True at the beginning of a phase, and with the
    name and False at its end; a phase is entered once for every micro-batch.
    """

    makes_shards = True
    """Whether a sharded model's weights are made as shards, with random values."""

    def __init__(
        self,
        device: str | torch.device = "cpu",
        host: str | torch.device = "cpu",
        on_phase: Callable[[str, bool], None] | None = None,
    ) -> None:
        self.device = torch.device(device)
        self.host = torch.device(host)
        self._on_phase = on_phase

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """The stretch of the step that a footprint calls ``name``."""
        if self._on_phase:
            self._on_phase(name, True)
        try:
            yield
        finally:
            if self._on_phase:
                self._on_phase(name, False)

    def region(self, *, role: str = "", category: str = "") -> AbstractContextManager[None]:
        """Says whose tensors are made inside, and of which category. Nothing in a real run."""
        return nullcontext()

    def rounds(self, count: int, enough: int) -> range:
        """The rounds of a loop: all of them, or as many as a dry run needs to see its peak."""
        return range(count)

    def unrolled(self, count: int) -> Iterable[int]:
        """The rounds of a loop whose graph stays alive, in order; a dry run leaves some out.

        Where the next round is not the one that follows, the loop has to make what it holds as
        long as if the rounds between them had been.
        """
        return range(count)

    def turning(self, tensor: torch.Tensor, place: int) -> None:
        """Say that the backward of round ``place`` begins at a tensor. Nothing in a real run."""

    def passes(self, count: int, enough: int) -> range:
        """The batches of a step that are run: all, or ``enough`` where the others are like them.

        Unlike :meth:`rounds` of a loop inside one batch, which a real run never shortens.
        """
        return self.rounds(count, enough)

    def decoded(self, tokens: int, enough: int) -> Sequence[int]:
        """Which of a response's tokens are computed: all, or what shows a rollout's peak.

        In rising order, the first (the prefill) always among them.
        """
        return range(tokens)

    def token(self, index: int) -> AbstractContextManager[None]:
        """The stretch in which one token of every response is computed."""
        return nullcontext()

    def move(self, tensors: Iterable[torch.Tensor], place: Place) -> None:
        """Move tensors (weights, optimizer states) to the host or back to the device, in place."""
        target = self.host if place == "host" else self.device
        for tensor in tensors:
            tensor.data = tensor.data.to(target)

    @property
    def rank(self) -> int:
        """This process among all that train."""
        return dist.get_rank() if dist.is_initialized() else 0

    def gathered(self, tensor: torch.Tensor, ranks: int) -> torch.Tensor:
        """Tensors [n, ...] of all ``ranks``, one after the other: [ranks * n, ...]."""
        found = tensor.new_empty(ranks * tensor.shape[0], *tensor.shape[1:])
        dist.all_gather_single(found, tensor.contiguous())
        return found

    def saved_on_host(self) -> AbstractContextManager[Any]:
        """Inside, what autograd saves waits in host memory for the backward."""
        return torch.autograd.graph.save_on_cpu(pin_memory=False)

    def autocast(self, dtype: torch.dtype, enabled: bool) -> AbstractContextManager[Any]:
        """Mixed precision of the device, when the plan has it."""
        return torch.autocast(self.device.type, dtype, enabled=enabled)

    def attention(self, kind: str) -> str:
        """Transformers' name of the implementation of a plan's attention."""
        return "flash_attention_2" if kind == "flash" else kind

    def numbered(self, tokens: int, longest: int) -> torch.Tensor:
        """Positions [1, tokens] of a packed row of sequences that are ``longest`` tokens long."""
        return (torch.arange(tokens, device=self.device) % longest).unsqueeze(0)

    def padded(self) -> AbstractContextManager[None]:
        """Inside, rows are padded whatever the plan's batches are. Nothing in a real run."""
        return nullcontext()

    def decoding(self, model: Any) -> AbstractContextManager[None]:
        """Token by token: transformers' ``generate`` gives each token its experts' weights then.

        On a GPU only; the grouped product that reads whole experts comes back afterwards.
        """
        return model._optimize_model_for_decode()  # type: ignore[no-any-return]

    def four_bit(
        self,
        model: torch.nn.Module,
        layers: torch.nn.ModuleList,
        adapt: Callable[[torch.nn.Module], torch.nn.Module],
        dtype: torch.dtype,
        compute: torch.dtype,
    ) -> torch.nn.Module:
        """Adapters in ``dtype`` around the linear layers of ``layers``, kept in 4 bits.

        These compute in the ``compute`` dtype.

        Raises:
            ValueError: a run of the step has no weights to quantise.
        """
        raise ValueError(
            "finetuning: the step with 4-bit weights is estimated and run dry only; set finetuning "
            "to lora to run it."
        )

    def liger(self, model: torch.nn.Module) -> None:
        """Put Liger's kernels into a model of transformers, but not its loss.

        Raises:
            ValueError: the package is not installed, or leaves models of this family alone.
        """
        try:
            from liger_kernel.transformers import monkey_patch  # type: ignore[import-not-found]
        except ImportError as error:
            raise ValueError(
                "liger: the package liger-kernel is not installed here; install "
                "liger-kernel==0.8.5, or set liger to false."
            ) from error
        family: Any = model.config.model_type  # type: ignore[union-attr]
        if family not in monkey_patch.MODEL_TYPE_TO_APPLY_LIGER_FN:
            raise ValueError(
                f"liger: liger-kernel has no kernels for {family}; set liger to false."
            )
        monkey_patch._apply_liger_kernel_to_instance(model=model, fused_linear_cross_entropy=False)

    def empty_cache(self) -> None:
        """Return cached memory to the driver."""
        if self.device.type == "cuda":
            torch.cuda.empty_cache()

    def labelled(self, role: str, model: torch.nn.Module) -> None:
        """A role's model has its weights, not sharded yet. Nothing to do in a real run."""

    def built(self, role: str, model: torch.nn.Module) -> None:
        """A role's model stands. What was on a card to shard it goes back to the driver."""
        if isinstance(model, FSDPModule):
            self.empty_cache()

    def optimized(self, role: str, optimizer: torch.optim.Optimizer) -> None:
        """A role's optimizer stands. Nothing to do in a real run."""

    def synchronize(self) -> None:
        """Wait until the device has done all that was asked of it."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
