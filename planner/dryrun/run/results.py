"""What operators return on tensors without data, remembered.

On the meta device many operators are Python that works out shapes, strides and types, a tenth of
a millisecond each, and a step asks the same of every layer. For operators that return one tensor
of their own the answer depends on their arguments' shapes, strides and types alone.
"""

from __future__ import annotations

from typing import Any

import torch

REMEMBERED = frozenset(
    getattr(getattr(torch.ops.aten, name), kind)
    for kind, names in {
        "Tensor": ("add", "div", "mul", "sub"),
        "Scalar": ("div", "mul"),
        "Tensor_Scalar": ("pow",),
        "default": (
            *("addmm", "bmm", "cat", "gelu", "mm", "neg", "rsqrt", "sigmoid", "silu"),
            *("silu_backward", "slice_backward", "tanh"),
        ),
        "dim": ("mean",),
        "dim_IntList": ("sum",),
        "self": ("where",),
    }.items()
    for name in names
)
"""Each returns one new tensor, never a view, and writes into none of its arguments."""
PLAIN = (torch.Tensor, torch.nn.Parameter)


TO_COPY = torch.ops.aten._to_copy.default


def _leaves_the_device(given: torch.Tensor, kwargs: dict[str, Any]) -> bool:
    """Whether one number goes to the CPU: the gradient of a scalar that a layer made there."""
    target = kwargs.get("device")
    return given.is_meta and not given.dim() and target is not None and target.type == "cpu"


class Results:
    """Runs operators; tensors on the meta device only are remembered."""

    def __init__(self) -> None:
        self._known: dict[Any, tuple[torch.Size, tuple[int, ...], torch.dtype]] = {}

    def of(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        """What the operator returns; a remembered result is a new tensor like the first one."""
        if func is TO_COPY and _leaves_the_device(args[0], kwargs):
            return torch.zeros((), dtype=kwargs.get("dtype") or args[0].dtype)
        if func not in REMEMBERED or kwargs:
            return func(*args, **kwargs)
        asked: list[Any] = [func]
        for given in args:
            told = _told(given)
            if told is None:
                return func(*args)
            asked.append(told)
        key = tuple(asked)
        known = self._known.get(key)
        if known is not None:
            return torch.empty_strided(known[0], known[1], dtype=known[2], device="meta")
        result = func(*args)
        if _own(result):
            self._known[key] = (result.shape, result.stride(), result.dtype)
        return result


def _told(given: Any) -> Any:
    """What a result depends on of an argument; None for what is not looked through."""
    kind = type(given)
    if kind in PLAIN:
        # A single number from a Python one gives way to other types, which nothing here shows.
        if given.device.type != "meta" or not given.dim():
            return None
        return given.shape, given.stride(), given.dtype
    if kind is list or kind is tuple:
        parts = tuple(_told(part) for part in given)
        return None if None in parts else (kind, parts)
    if given is None or kind in (int, float, bool, torch.dtype):
        # True, 1 and 1.0 are one key of a dictionary, and not one argument.
        return kind, given
    return None


def _own(result: Any) -> bool:
    """Whether a tensor begins where its storage does and fills it."""
    if type(result) is not torch.Tensor or result.storage_offset():
        return False
    last = sum((size - 1) * step for size, step in zip(result.shape, result.stride(), strict=True))
    elements = last + 1 if result.numel() else 0
    return result.untyped_storage().nbytes() == elements * result.element_size()
