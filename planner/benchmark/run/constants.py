"""Memory of one process on a card: context, library workspaces, loaded code. Imports torch.

Read from the driver and the allocator around the first use of each library, so this runs before
anything else does in the process; :meth:`Reading.finish` comes last, when every kernel of the
benchmark is loaded.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from planner.catalog.card_benchmark import Constants


class CudaMemory:
    """The driver's and the allocator's counters of a card."""

    def __init__(self, device: str) -> None:
        self.device = torch.device(device)

    def used_bytes(self) -> int:
        """In use on the card, by the driver."""
        torch.cuda.synchronize(self.device)
        free, total = torch.cuda.mem_get_info(self.device)
        return int(total - free)

    def total_bytes(self) -> int:
        """Of the card, by the driver."""
        return int(torch.cuda.mem_get_info(self.device)[1])

    def reserved_bytes(self) -> int:
        """Held by PyTorch's allocator."""
        return torch.cuda.memory_reserved(self.device)

    def allocated_bytes(self) -> int:
        """In use of the allocator's."""
        return torch.cuda.memory_allocated(self.device)


class Reading:
    """The constants of a process that has not used the card yet.

    After :meth:`start`, ``context_with_others_bytes`` is in use on the card with the first tensor,
    less what the allocator holds; ``product_bytes`` are what the allocator held more after the
    first product, and after its backward.
    """

    def __init__(self, memory: CudaMemory, device: str, others_bytes: int | None) -> None:
        self._memory, self._device, self._others = memory, device, others_bytes

    def start(self) -> None:
        """The first tensor, the first product with its backward, and the first convolution."""
        kind: Any = {"device": self._device, "dtype": torch.bfloat16}
        memory = self._memory
        one = torch.ones(8, 8, requires_grad=True, **kind)
        self._total = memory.total_bytes()
        self.context_with_others_bytes = self._outside()
        before = memory.allocated_bytes()
        product = one @ one
        forward = memory.allocated_bytes() - before
        product.sum().backward()  # type: ignore[no-untyped-call]
        self.product_bytes = forward, memory.allocated_bytes() - before
        outside = self._outside()
        image = torch.ones(1, 8, 8, 8, device=self._device)  # in fp32, which every card has
        nn.functional.conv2d(image, torch.ones(8, 8, 3, 3, device=self._device))
        self._convolution = self._outside() - outside

    def _outside(self) -> int:
        return self._memory.used_bytes() - self._memory.reserved_bytes()

    def finish(self) -> Constants:
        """Everything, with what is outside the allocator now."""
        forward, backward = self.product_bytes
        return Constants(
            total_bytes=self._total,
            others_bytes=self._others,
            context_bytes=self._own(self.context_with_others_bytes),
            loaded_bytes=self._own(self._outside()),
            cublas_forward_bytes=max(forward - RESULT_BYTES, 0),
            # Of the backward stays one gradient; the product was there before.
            cublas_backward_bytes=max(backward - forward - RESULT_BYTES, 0),
            cudnn_bytes=max(self._convolution, 0),
            nccl_bytes=None,  # one process cannot tell
        )

    def _own(self, size_bytes: int) -> int | None:
        return None if self._others is None else max(size_bytes - self._others, 0)


RESULT_BYTES = 512
"""The allocator's block around a tensor of 8 x 8 values."""
