"""Watches operators run and logs the life of every storage they make.

A storage lives until Python and autograd have both let go of it. Only local storages count: a
DTensor's own claims the global size, that of a collective's result the size of what it wraps.
Kernels' scratch comes from a table.

Under any dispatch mode autograd takes other branches: its engine stops adding a second gradient
into the first in place, and the backwards of gather, of indexing and of top-k write into a copy of
their zeros (all ask whether a mode is active). They are put in place again here, or every such
place would show one tensor too many. So is waiting for a collective, which answers the tensor it
was given: without data torch makes others as large (``_wait_tensor_meta``).
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from types import FrameType, MappingProxyType
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.distributed._functional_collectives import AsyncCollectiveTensor
from torch.distributed.tensor import DTensor
from torch.nested._internal.nested_tensor import NestedTensor
from torch.utils._python_dispatch import TorchDispatchMode

from planner.dryrun.logs.log import BIRTH, BLOCK, DEATH, OUTSIDE, PHASE, ROUND, SCRATCH, Log, Made
from planner.dryrun.run.results import result_of

Workspace = Callable[[str, Any], int | None]

DEVICE = torch.ops.prim.device.default
ADD = torch.ops.aten.add.Tensor
ADD_IN_PLACE = torch.ops.aten.add_.Tensor
IN_PLACE = {
    torch.ops.aten.scatter_add.default: torch.ops.aten.scatter_add_.default,
    torch.ops.aten.index_put.default: torch.ops.aten.index_put_.default,
    torch.ops.aten.scatter.src: torch.ops.aten.scatter_.src,
}
"""What a backward calls while a mode is active, and what it calls otherwise."""
FUSED_ADAMW = torch.ops.aten._fused_adamw_.default
WRAPPERS = (DTensor, AsyncCollectiveTensor)
"""Tensors around others, whose own storages hold nothing."""
WAITS = frozenset(
    getattr(torch.ops._c10d_functional, name).default
    for name in ("wait_tensor", "_wrap_tensor_autograd")
)
"""Waiting for a collective, and the tensor that waits when it is first read."""
FUNCTION_APPLY = torch.autograd.function.BackwardCFunction.apply.__code__

NOTHING: Mapping[Any, Callable[..., Any]] = MappingProxyType({})
KEPT_BY_LAYER = ("parameters", "gradients", "optimizer")


class Tracker(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Logs storages made while active.

    Args:
        scratch: bytes a kernel takes and gives back, by operator and its arguments.
        stream: number of the stream that work is queued on.
        device: type of the device that stands for the GPU; tensors elsewhere are not logged.
        answers: what operators give whose result depends on data, by operator.
    """

    def __init__(
        self,
        scratch: Workspace | None = None,
        stream: Callable[[], int] = lambda: 0,
        device: str = "meta",
        answers: Mapping[Any, Callable[..., Any]] = NOTHING,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.log = Log()
        self.role, self.category, self.module = "", "activations", ""
        self.block = OUTSIDE
        self.operators = 0
        self._round = OUTSIDE
        self._scratch = scratch
        self._stream = stream
        self._device = device
        self._answers = answers
        self._host = False
        self._keys: dict[int, int] = {}
        self._refs: dict[int, Any] = {}
        self._next = 0
        self._owner = OUTSIDE
        self._owners: list[int] = []

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """No: nothing is compiled here, and what keeps a compiler out costs two calls each time."""
        return False

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func is DEVICE and type(args[0]) is FakeTensor:
            # Asked more often than all else; it is an operator for tensors that stand for others.
            return args[0].fake_device
        if DTensor in types or NestedTensor in types:
            return NotImplemented
        self.operators += 1
        if func is ADD and accumulates(*args):
            return ADD_IN_PLACE(*args)
        if func is FUSED_ADAMW:
            # In place, and there is no such kernel for tensors without data.
            return None
        if func in WAITS and (args[0].is_meta or isinstance(args[0], FakeTensor)):
            return args[0]
        if func in IN_PLACE and not torch.is_grad_enabled() and in_backward():
            func = IN_PLACE[func]
        if func in self._answers:
            outputs = self._answers[func](*args, **(kwargs or {}))
        else:
            outputs = result_of(func, args, kwargs or {})
        outside = self.block == OUTSIDE
        if outside:
            self._inherit(args)
        if isinstance(outputs, torch.Tensor):
            self.meet(outputs, func)
        elif isinstance(outputs, (tuple, list)):
            for place, output in enumerate(outputs):
                if isinstance(output, torch.Tensor):
                    if outside and self._owners:
                        self._owner = self._owners[place % len(self._owners)]
                    self.meet(output, func)
        self._owner = OUTSIDE
        if self._scratch is not None:
            # Beside the outputs: kernels take both before they begin.
            size = self._scratch(func, args)
            if size:
                self.log.events.append((SCRATCH, self.log.name(str(func)), size))
        return outputs

    def _inherit(self, args: Any) -> None:
        """Outside the layers, what is made from a layer's weights belongs to that layer.

        So the optimizer's loops over weights can be told apart by layer. A list of weights
        makes a list of results.
        """
        first = args[0] if args else None
        self._owners = []
        if isinstance(first, torch.Tensor):
            self._owner = self.block_of(first)
        elif isinstance(first, (list, tuple)) and first and isinstance(first[0], torch.Tensor):
            self._owners = [self.block_of(tensor) for tensor in first]

    def block_of(self, tensor: Any) -> int:
        """The layer of a weight, a gradient or an optimizer's state; that of others is unknown."""
        key = self.key_of(tensor) if isinstance(tensor, torch.Tensor) else None
        made = None if key is None else self.log.made[key]
        return made.block if made and made.category in KEPT_BY_LAYER else OUTSIDE

    def meet(self, tensor: torch.Tensor, func: Any) -> None:
        """Log a storage not seen before."""
        storage = tensor.untyped_storage()
        if storage._cdata in self._keys:
            return
        size = storage.nbytes()
        if not size or type(tensor) in WRAPPERS or tensor.device.type != self._device:
            # Tensors elsewhere are a library's own scalars; what a step keeps in host RAM is moved.
            return
        made = Made(
            size,
            func.name(),
            self.module,
            self.role,
            self.category,
            tuple(tensor.shape),
            _name(tensor.dtype),
            self._stream(),
            self._host,
            self.block if self.block != OUTSIDE else self._owner,
        )
        self._born(storage, made)

    def _born(self, storage: torch.UntypedStorage, made: Made) -> None:
        """From here on the storage is what ``made`` says, whatever it was before."""
        handle, key, log = storage._cdata, self._next, self.log
        self._next = key + 1
        self._keys[handle] = key
        log.made[key] = made
        if made.size_bytes:
            log.events.append((BIRTH, key, made.size_bytes))
        if handle not in self._refs:
            self._refs[handle] = weakref.ref(storage, lambda _: self._gone(handle))

    def _gone(self, handle: int) -> None:
        del self._refs[handle]
        self._died(self._keys.pop(handle))

    def _died(self, key: int) -> None:
        size = self.log.made[key].size_bytes
        if size:
            self.log.events.append((DEATH, key, size))

    def key_of(self, tensor: torch.Tensor) -> int | None:
        """The log's number of a tensor's storage; None when it was never seen."""
        return self._keys.get(tensor.untyped_storage()._cdata)

    def describe(self, tensor: torch.Tensor, **changes: Any) -> None:
        """Correct what the log says of a tensor's storage (its category, its role)."""
        key = self.key_of(tensor)
        if key is not None:
            self.log.made[key] = self.log.made[key]._replace(**changes)

    def move(self, tensor: torch.Tensor, host: bool) -> None:
        """The storage's bytes are now in host RAM, or back on the device."""
        key = self.key_of(tensor)
        if key is None or self.log.made[key].host == host:
            return
        self._born(tensor.untyped_storage(), self.log.made[key]._replace(host=host))
        self._died(key)

    def resized(self, storage: torch.UntypedStorage, size: int) -> None:
        """FSDP2 frees gathered weights by resizing them to nothing, which no mode sees."""
        key = self._keys.get(storage._cdata)
        if key is None or self.log.made[key].size_bytes == size:
            return
        self._died(key)
        made = self.log.made[key]._replace(size_bytes=size, stream=self._stream(), block=self.block)
        self._born(storage, made)

    def settle(self) -> None:
        """Forget how what is alive came to be: it is there from the start, in its order.

        Building the models is no phase of the step, and makes much that is gone at its end.
        """
        alive = sorted(self._keys.values())
        self.log.made = {key: self.log.made[key] for key in alive}
        sizes = [(key, made.size_bytes) for key, made in self.log.made.items()]
        self.log.events = [(BIRTH, key, size) for key, size in sizes if size]

    def enter_block(self, index: int) -> None:
        """From here on things belong to layer ``index``, or to none."""
        self.block = index
        self.log.events.append((BLOCK, index, 0))

    def enter_round(self, index: int) -> None:
        """From here on things belong to a round of an unrolled loop, or to none."""
        self._round = index
        self.log.events.append((ROUND, index, 0))

    def phase(self, name: str, begins: bool) -> None:
        """A phase begins or ends, outside every layer, round and module."""
        self.enter_block(OUTSIDE)
        if self._round != OUTSIDE:
            self.enter_round(OUTSIDE)
        self.module = ""
        self.log.events.append((PHASE, self.log.name(name), int(begins)))

    @contextmanager
    def region(self, role: str, category: str) -> Iterator[None]:
        """What is made inside belongs to the role and category that are given."""
        before = self.role, self.category
        self.role, self.category = role or self.role, category or self.category
        try:
            yield
        finally:
            self.role, self.category = before

    @contextmanager
    def on_host(self) -> Iterator[None]:
        """What is made inside is in host RAM, whatever device stands for it."""
        before, self._host = self._host, True
        try:
            yield
        finally:
            self._host = before


@cache
def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def accumulates(into: Any, more: Any, **_: Any) -> bool:
    """Whether autograd's engine, between two nodes, adds gradients nothing else refers to.

    No built-in node met here adds tensors itself; a Python function's backward may, and has its
    ``apply`` on the stack while it does.
    """
    if torch.is_grad_enabled() or not in_backward():
        return False
    same = isinstance(more, torch.Tensor) and into.shape == more.shape and into.dtype == more.dtype
    # One reference by the gradient itself, one by the Python object asked here.
    return same and torch._C._storage_Use_Count(into.untyped_storage()._cdata) <= 2


def in_backward() -> bool:
    """Whether autograd's engine runs a built-in node; a Python function's writes what it says."""
    return torch._C._current_autograd_node() is not None and not in_function()


def in_function() -> bool:
    """Whether a Python autograd function's backward is running."""
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        if frame.f_code is FUNCTION_APPLY:
            return True
        frame = frame.f_back
    return False
