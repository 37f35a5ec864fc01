"""What operators return on tensors without data, remembered.

On the meta device many operators are Python that works out shapes, strides and types, a tenth of
a millisecond to two each, and a step asks the same of every layer. For operators that return
tensors of their own the answer depends on their arguments' shapes, strides and types alone, in
this run as in every other, and so does a view's place in the storage that it shares. torch
remembers the same of fake tensors, and takes half of a dry run to look it up.
"""

from __future__ import annotations

from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

REMEMBERED = frozenset(
    getattr(getattr(torch.ops.aten, name), kind)
    for kind, names in {
        "Tensor": ("add", "div", "le", "mul", "sub"),
        "Scalar": ("div", "mul"),
        "Tensor_Scalar": ("pow",),
        "default": (
            *("_log_softmax", "_softmax", "_softmax_backward_data", "_to_copy", "addmm", "all"),
            *("bmm", "cat", "clone", "cumsum", "floor_divide", "gelu", "gelu_backward", "mm"),
            *("native_layer_norm", "native_layer_norm_backward", "neg", "rsqrt", "sigmoid"),
            *("sigmoid_backward", "silu", "silu_backward", "slice_backward", "softplus"),
            *("softplus_backward", "tanh", "zeros_like"),
        ),
        "dim": ("mean",),
        "dim_IntList": ("sum",),
        "self": ("where",),
    }.items()
    for name in names
)
"""Each returns new tensors, never a view, and writes into none of its arguments."""
VIEWS = frozenset(
    getattr(getattr(torch.ops.aten, name), kind)
    for kind, names in {
        "default": (
            *("_unsafe_view", "alias", "as_strided", "detach", "expand", "permute", "t"),
            *("unsqueeze", "view"),
        ),
        "int": ("select", "transpose"),
        "dim": ("squeeze",),
        "Tensor": ("slice",),
    }.items()
    for name in names
)
"""Each returns one view of its first argument."""
PLAIN = (torch.Tensor, torch.nn.Parameter)
KEPT = 50_000
"""Most results that are remembered; a process that lives long meets ever new shapes."""

Made = tuple[torch.Size, tuple[int, ...], torch.dtype, torch.device | None]
"""A tensor without data: its device is the one that a fake tensor stands for."""
_known: dict[Any, Made | tuple[Made, ...]] = {}
_places: dict[Any, tuple[torch.Size, tuple[int, ...], int]] = {}

TO_COPY = torch.ops.aten._to_copy.default


def _leaves_the_device(given: torch.Tensor, kwargs: dict[str, Any]) -> bool:
    """Whether one number goes to the CPU: the gradient of a scalar that a layer made there."""
    target = kwargs.get("device")
    return given.is_meta and not given.dim() and target is not None and target.type == "cpu"


def result_of(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """What the operator returns; on the meta device a remembered result is new, like the first."""
    if func is TO_COPY and _leaves_the_device(args[0], kwargs):
        return torch.zeros((), dtype=kwargs.get("dtype") or args[0].dtype)
    if func not in REMEMBERED:
        if func in VIEWS and type(args[0]) is FakeTensor:
            return _view_of(func, args, kwargs)
        return func(*args, **kwargs)
    asked: list[Any] = [func, *kwargs]
    modes: list[FakeTensorMode] = []
    for given in (*args, *kwargs.values()):
        told = _told(given, modes)
        if told is None:
            return func(*args, **kwargs)
        asked.append(told)
    key = tuple(asked)
    known = _known.get(key)
    if known is not None:
        return _again(known, modes[0] if modes else None)
    result = func(*args, **kwargs)
    several = isinstance(result, tuple)
    made = tuple(_made(one) for one in (result if several else (result,)))
    if None not in made:
        if len(_known) >= KEPT:
            _known.clear()
        _known[key] = made if several else made[0]  # type: ignore[assignment]
    return result


def _again(known: Any, mode: FakeTensorMode | None) -> Any:
    if type(known[0]) is tuple:
        return tuple(_again(one, mode) for one in known)
    shape, strides, dtype, device = known
    if device is None:
        return torch.empty_strided(shape, strides, dtype=dtype, device="meta")
    with torch._C._DisableTorchDispatch():  # as the mode's own memory does
        empty = torch.empty_strided(shape, strides, dtype=dtype, device="meta")
    return FakeTensor(mode, empty, device)


def _view_of(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    base = args[0]
    if base.constant is not None:
        return func(*args, **kwargs)
    place = base.shape, base.stride(), base.storage_offset()
    key = (func, place, *map(_hashable, args[1:]), *kwargs.items())
    known = _places.get(key)
    if known is None:
        result = func(*args, **kwargs)
        if len(_places) >= KEPT:
            _places.clear()
        _places[key] = result.shape, result.stride(), result.storage_offset()
        return result
    shape, strides, offset = known
    storage = base.untyped_storage()
    with torch._C._DisableTorchDispatch():
        view = torch.empty_strided(shape, strides, dtype=base.dtype, device="meta")
        view.set_(storage, offset, shape, strides)
    return FakeTensor(base.fake_mode, view, base.fake_device)


def _hashable(given: Any) -> Any:
    return tuple(given) if isinstance(given, list) else given


def _told(given: Any, modes: list[FakeTensorMode]) -> Any:
    """What a result depends on of an argument; None for what is not looked through."""
    kind = type(given)
    if kind in PLAIN:
        # A single number from a Python one gives way to other types, which nothing here shows.
        if given.device.type != "meta" or not given.dim():
            return None
        return given.shape, given.stride(), given.dtype
    if kind is FakeTensor:
        if not given.dim() or given.constant is not None:
            return None
        modes.append(given.fake_mode)
        return given.shape, given.stride(), given.dtype, given.fake_device
    if kind is list or kind is tuple:
        parts = tuple(_told(part, modes) for part in given)
        return None if None in parts else (kind, parts)
    if given is None or kind in (int, float, bool, str, torch.dtype):
        # True, 1 and 1.0 are one key of a dictionary, and not one argument.
        return kind, given
    return None


def _made(result: Any) -> Made | None:
    """A tensor as it is remembered; None unless it begins where its storage does and fills it."""
    kind = type(result)
    if kind not in (torch.Tensor, FakeTensor) or result.storage_offset():
        return None
    last = sum((size - 1) * step for size, step in zip(result.shape, result.stride(), strict=True))
    elements = last + 1 if result.numel() else 0
    if result.untyped_storage().nbytes() != elements * result.element_size():
        return None
    device = result.fake_device if kind is FakeTensor else None
    return result.shape, result.stride(), result.dtype, device
