"""One context manager inside which torch and transformers take the branches of a GPU."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, get_args
from unittest.mock import patch

import torch
from torch import Tensor
from transformers import PreTrainedModel

from planner.dryrun.run.branches import flash, linear_attention, sdpa
from planner.dryrun.run.branches.autocast import as_on_cuda
from planner.dryrun.run.branches.backend import Backend, Call, backend
from planner.dryrun.run.branches.card import CardTraits
from planner.dryrun.run.branches.grouped import grouped_products
from planner.dryrun.run.branches.masks import BatchShape, Shaped
from planner.dryrun.run.branches.routing import routed
from planner.dryrun.run.workspaces import doubt, plain_name, rows, workspace_bytes

Kernels = Literal["eager", "sdpa", "flash"]


@dataclass(slots=True)
class Branches(Shaped):
    """What was decided while a step ran, and what the answer has to say about it."""

    card: CardTraits
    batch_shape: BatchShape
    calls: Counter[str] = field(default_factory=Counter)
    """Calls of ``scaled_dot_product_attention`` by the kernel that took them."""
    notes: list[str] = field(default_factory=list)
    """Sentences, each once, in the order of their causes."""
    _plans: dict[Any, Callable[[Any], int | None] | None] = field(default_factory=dict)

    def note(self, sentence: str) -> None:
        """Have the answer say something."""
        if sentence and sentence not in self.notes:
            self.notes.append(sentence)

    def scratch(self, func: Any, args: Any) -> int | None:
        """Bytes hidden inside one call of an operator on this card; the tracker's table."""
        if func not in self._plans:
            self._plans[func] = self._scratch_of(func)
        plan = self._plans[func]
        return None if plan is None else plan(args)

    def _scratch_of(self, func: Any) -> Callable[[Any], int | None] | None:
        name = plain_name(func.name())
        found = rows(name)
        if not found:
            return None
        self.note(doubt(name))
        scalars = {key: at for row in found for key, at in row.scalars.items()}

        def size(args: Any) -> int | None:
            shapes = [(tuple(a.shape), a.element_size()) for a in args if isinstance(a, Tensor)]
            values = {key: args[at] for key, at in scalars.items()}
            values["compute_capability"] = self.card.compute_capability
            return workspace_bytes(name, shapes, values)

        return size

    def kernel(self, call: Call) -> Backend:
        """Which kernel of the card takes a call of ``scaled_dot_product_attention``."""
        chosen = backend(call, self.card)
        self.calls[chosen] += 1
        return chosen


def implementation_name(attention: Kernels) -> str:
    """The ``attn_implementation`` to make a model with."""
    if attention == "flash":
        flash.register()
        return flash.NAME
    return attention


@contextmanager
def gpu_branches(
    *, card: CardTraits, batch_shape: BatchShape, attention: Kernels
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
        attention: the plan's word; ``flash`` where any model has it.

    Yields:
        What was decided, with the sentences the answer should carry.
    """
    for name, value, words in (
        ("batch_shape", batch_shape, get_args(BatchShape)),
        ("attention", attention, get_args(Kernels)),
    ):
        if value not in words:
            raise ValueError(f"{name}: {value!r} is not one of {', '.join(words)}.")
    branches = Branches(card, batch_shape)
    attend = sdpa.attention(branches.kernel)
    functional, dropout = torch.nn.functional, partial(_fused, torch.nn.functional.dropout)
    with ExitStack() as stack:
        put = stack.enter_context
        put(patch.multiple(functional, scaled_dot_product_attention=attend, dropout=dropout))
        put(branches.masks())
        if attention == "flash":
            put(flash.kernels(branches))
        put(as_on_cuda())
        put(grouped_products())
        put(checked())
        put(routed(branches.note))
        # Reads ids only to print a warning.
        put(patch.object(PreTrainedModel, "warn_if_padding_and_no_attention_mask", _silent))
        put(linear_attention.kernels(card, branches.note))
        yield branches


def _silent(*_: Any, **__: Any) -> None:
    return None


def _fused(
    plain: Callable[..., Tensor],
    input: Tensor,
    p: float = 0.5,
    training: bool = True,
    inplace: bool = False,
) -> Tensor:
    """Dropout as one kernel; ``plain`` is torch's own."""
    if training and 0.0 < p < 1.0 and not inplace and input.numel():
        return torch.native_dropout(input, p, True)[0]
    return plain(input, p, training, inplace)


CHECKS = ("modeling_xlm.py", "modeling_reformer.py")
"""Where the number is compared with a length and nothing is sized by it (transformers 5.23.0)."""


def checked() -> AbstractContextManager[Any]:
    """Inside, those files read 0 from tensors without data; any other reader fails as ever."""
    item = torch.Tensor.item

    def read(tensor: torch.Tensor) -> Any:
        reader = sys._getframe(1).f_code.co_filename
        return 0 if tensor.is_meta and reader.endswith(CHECKS) else item(tensor)

    return patch.object(torch.Tensor, "item", read)
