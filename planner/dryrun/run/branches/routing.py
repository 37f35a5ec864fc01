"""Where a model asks which tokens go to an expert, or which keys a query sees: answered evenly.

Most mixtures multiply all experts at once and ask nothing. Those that loop over experts, and
indexers that loop over queries, read places out of a tensor's values, which tensors without data
do not have. Here tokens are spread over the experts as equally as they can be, and a query sees
every key, which the last one of a row does.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import FrameType
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor

EVEN = (
    "Tokens are assumed to be spread evenly over the experts, which run one after another; an "
    "expert that gets more tokens needs more memory while it runs."
)
EXPERTS, GATING, INDEXER = "Experts.forward", "TopKGating.forward", "Indexer.forward"
"""Ends of the names of methods whose questions are answered (transformers 5.23.0)."""


class Hit(int):
    """An expert that gets tokens: a row of ``nonzero``'s answer, or its number."""

    def __getitem__(self, _: Any) -> int:
        return int(self)

    def item(self) -> int:
        """The number, as a tensor gives it."""
        return int(self)


class Shares(list[int]):
    """Sizes of experts' parts, whose sum is known where something is split by them."""


class Routing:
    """Answers the questions of one run."""

    def __init__(self, note: Callable[[str], None]) -> None:
        self._note = note
        self._hits = self._turn = 0
        self._where, self._nonzero = torch.where, Tensor.nonzero
        self._tolist: Any = Tensor.tolist
        self._split: Any = Tensor.split

    def nonzero(self, tensor: Tensor, **named: Any) -> Any:
        """Experts that get tokens: all; keys that a query sees: all."""
        reader = _reader(tensor)
        if reader is None or tensor.dim() != 1:
            return self._nonzero(tensor, **named)
        if reader.f_code.co_qualname.endswith(INDEXER):
            return torch.empty((tensor.shape[0], 1), dtype=torch.int64, device=tensor.device)
        if not reader.f_code.co_qualname.endswith(EXPERTS):
            return self._nonzero(tensor, **named)
        self._note(EVEN)
        # One class more than experts stands for tokens that nobody takes.
        taken = getattr(_owner(reader), "num_experts", None)
        self._hits, self._turn = min(tensor.shape[0], taken or tensor.shape[0]), 0
        return [Hit(each) for each in range(self._hits)]

    def where(self, condition: Tensor, *given: Any, **named: Any) -> Any:
        """Places of the tokens of one expert after another."""
        reader = None if given or named else _reader(condition)
        if reader is None or not reader.f_code.co_qualname.endswith(EXPERTS):
            return self._where(condition, *given, **named)
        size = _share(condition.numel(), self._hits, self._turn)
        self._turn += 1
        # Both are columns of one answer.
        shape = (size, condition.dim())
        return torch.empty(shape, dtype=torch.int64, device=condition.device).unbind(1)

    def tolist(self, tensor: Tensor) -> Any:
        """How many tokens each expert gets."""
        reader = _reader(tensor)
        if reader is None or not reader.f_code.co_qualname.endswith(GATING):
            return self._tolist(tensor)
        self._note(EVEN)
        return Shares([0] * tensor.shape[0])

    def split(self, tensor: Tensor, sizes: Any, dim: int = 0) -> Any:
        """``Tensor.split`` that knows shares."""
        if isinstance(sizes, Shares):
            whole, parts = tensor.shape[dim], len(sizes)
            sizes = [_share(whole, parts, part) for part in range(parts)]
        return self._split(tensor, sizes, dim)


def _share(whole: int, parts: int, part: int) -> int:
    return whole * (part + 1) // parts - whole * part // parts


def _reader(tensor: Any) -> FrameType | None:
    """Who asks for values of a tensor that has none."""
    if isinstance(tensor, FakeTensor) or (isinstance(tensor, Tensor) and tensor.is_meta):
        return sys._getframe(3)
    return None


def _owner(reader: FrameType) -> Any:
    """The module whose method it is."""
    names = reader.f_locals
    owner = names["self"]
    if isinstance(names, dict):
        names.clear()  # before Python 3.13 it is a copy, which would keep the method's tensors
    return owner


@contextmanager
def routed(note: Callable[[str], None]) -> Iterator[None]:
    """Inside, tensors without data say where tokens go; ``note`` gets what that supposes."""
    routing = Routing(note)
    with ExitStack() as stack:
        for holder, name in (
            (Tensor, "nonzero"),
            (torch, "nonzero"),
            (torch, "where"),
            (Tensor, "tolist"),
            (Tensor, "split"),
        ):
            answer = getattr(routing, name)
            # A function, so that a tensor becomes its first argument.
            stack.enter_context(patch.object(holder, name, _function(answer)))
        yield


def _function(answer: Callable[..., Any]) -> Callable[..., Any]:
    def asked(*given: Any, **named: Any) -> Any:
        return answer(*given, **named)

    return asked
