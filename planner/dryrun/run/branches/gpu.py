"""One context manager inside which torch and transformers take the branches of a GPU."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import torch
from torch import Tensor
from transformers import masking_utils, modeling_flash_attention_utils

from planner.dryrun.run.branches import flash, linear_attention, masks, sdpa
from planner.dryrun.run.branches.autocast import as_on_cuda
from planner.dryrun.run.branches.card import CardTraits
from planner.dryrun.run.branches.grouped import grouped_products
from planner.dryrun.run.branches.masks import BatchShape, Shaped
from planner.dryrun.run.workspaces import doubt, plain_name, rows, workspace_bytes

Kernels = Literal["eager", "sdpa", "flash"]

FORWARD_OPS = {
    "cudnn": "aten._scaled_dot_product_cudnn_attention",
    "flash": "aten._scaled_dot_product_flash_attention",
    "efficient": "aten._scaled_dot_product_efficient_attention",
    "math": "aten._safe_softmax",
}


@dataclass(slots=True)
class Branches(Shaped):
    """What was decided while a step ran, and what the answer has to say about it."""

    card: CardTraits
    attention: Kernels
    dtype: torch.dtype
    batch_shape: BatchShape
    torch_version: str = "2.13.0"
    packed_sequences: int = 1
    """How many sequences one packed row holds."""
    calls: Counter[str] = field(default_factory=Counter)
    """Calls of ``scaled_dot_product_attention`` by the kernel that took them."""
    _notes: dict[str, None] = field(default_factory=dict)
    _plans: dict[Any, Callable[[Any], int | None] | None] = field(default_factory=dict)

    @property
    def notes(self) -> list[str]:
        """Sentences, each once, in the order of their causes."""
        return list(self._notes)

    def note(self, sentence: str) -> None:
        """Have the answer say something."""
        self._notes[sentence] = None

    def scratch(self, func: Any, args: Any) -> int | None:
        """Bytes hidden inside one call of an operator on this card; the tracker's table."""
        plan = self._plans.get(func, _UNSEEN)
        if plan is _UNSEEN:
            plan = self._plans[func] = self._scratch_of(func)
        return None if plan is None else plan(args)

    def _scratch_of(self, func: Any) -> Callable[[Any], int | None] | None:
        name = plain_name(func.name())
        found = rows(name, self.torch_version)
        if not found:
            return None
        if doubt(name, self.torch_version):
            self.note(doubt(name, self.torch_version))
        fixed = {
            "compute_capability": self.card.compute_capability,
            "torch_version": self.torch_version,
        }
        scalars = {key: at for row in found for key, at in row.scalars}

        def size(args: Any) -> int | None:
            shapes = [(tuple(a.shape), a.element_size()) for a in args if isinstance(a, Tensor)]
            values = {**fixed, **{key: args[at] for key, at in scalars.items()}}
            return workspace_bytes(name, shapes, values)

        return size

    def _chose(self, backend: str) -> None:
        self.calls[backend] += 1


def _unseen(_: Any) -> int | None:
    return None


_UNSEEN: Callable[[Any], int | None] = _unseen


def implementation_name(attention: Kernels) -> str:
    """The ``attn_implementation`` to make a model with."""
    if attention == "flash":
        flash.register()
        return flash.NAME
    return attention


@contextmanager
def gpu_branches(
    *,
    card: CardTraits,
    batch_shape: BatchShape,
    attention: Kernels,
    dtype: torch.dtype,
    packed_sequences: int = 1,
) -> Iterator[Branches]:
    """Have meta and fake CPU tensors go where a CUDA card's tensors go.

    Inside, ``scaled_dot_product_attention`` calls the CUDA kernel that the card would choose,
    dropout is the fused kernel with a mask of booleans, autocast of the CPU casts what autocast
    of CUDA casts, linear attention runs as with its packages, and transformers' masks are those of
    batches of the plan's shape: no mask is passed when full, a ``[sequence, token]`` mask when
    padded, ``position_ids`` when packed.

    Args:
        card: what decides the kernels.
        batch_shape: shape of the batches; :meth:`Branches.shaped` changes it for a while.
        attention: the plan's word.
        dtype: number format of the matrix products.
        packed_sequences: sequences in one packed row.

    Yields:
        What was decided, with the sentences the answer should carry.
    """
    for name, value, words in (
        ("batch_shape", batch_shape, get_args(BatchShape)),
        ("attention", attention, get_args(Kernels)),
    ):
        if value not in words:
            raise ValueError(f"{name}: {value!r} is not one of {', '.join(words)}.")
    branches = Branches(card, attention, dtype, batch_shape, packed_sequences=packed_sequences)

    def shape() -> BatchShape:
        return branches.batch_shape

    with ExitStack() as stack:
        put = stack.enter_context
        put(_replaced(torch.nn.functional, _functional(branches)))
        put(
            _replaced(
                masking_utils,
                {
                    "fast_all": masks.fast_all(shape),
                    "find_packed_sequence_indices": masks.find_packed_sequence_indices(shape),
                    "is_tracing": masks.is_tracing(shape),
                },
            )
        )
        if attention == "flash":
            put(flash.masks(shape))
            replaced = flash.replacements(shape, lambda: branches.packed_sequences)
            put(_replaced(modeling_flash_attention_utils, replaced))
        put(as_on_cuda())
        put(grouped_products())
        put(linear_attention.kernels(card, branches.note))
        yield branches


def _functional(branches: Branches) -> dict[str, Any]:
    dropout = torch.nn.functional.dropout

    def fused_dropout(
        input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
    ) -> Tensor:
        if training and 0.0 < p < 1.0 and not inplace and input.numel():
            return torch.native_dropout(input, p, True)[0]
        return dropout(input, p, training, inplace)

    return {
        "scaled_dot_product_attention": sdpa.attention(branches.card, branches._chose),
        "dropout": fused_dropout,
    }


@contextmanager
def _replaced(module: Any, attributes: dict[str, Any]) -> Iterator[None]:
    before = {name: getattr(module, name) for name in attributes}
    for name, value in attributes.items():
        setattr(module, name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(module, name, value)
