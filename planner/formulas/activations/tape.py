"""A tape that knows sizes only: which storages are alive when a layer runs.

The layers in :mod:`.decoder` are written against :class:`Tensor`, whose storages carry a
shape name instead of data. A storage lives exactly as long as Python or an autograd node
holds it, as in torch (this rests on CPython's reference counts); the tape writes down
every birth and death. Backward visits the nodes in torch's order (latest first), hands
each its gradient, and drops what the node saved, again as torch does. Nothing here
depends on sizes, so one tape serves every plan of an architecture.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from planner.formulas.activations.kinds import Form, Kind

Label = tuple[Kind, str]
"""What a storage is (its kind) and what a person calls it."""

Counts: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"
"""How many storages there are at a position (rows) of a label (columns)."""


def counted(labels: Sequence[Label], counts: Counts) -> list[Counter[Label]]:
    """The labels that there are at each position, with their counts."""
    return [
        Counter({label: count for label, count in zip(labels, row, strict=True) if count})
        for row in counts.tolist()
    ]


class Collective(NamedTuple):
    """An exchange between GPUs."""

    position: int
    """Events before it."""
    operation: str
    """Such as ``all-reduce``."""
    axis: str
    """Of the mesh."""
    kind: Kind
    """What is exchanged."""


class Product(NamedTuple):
    """A product of activations with a weight."""

    path: str
    """Module within the layer, such as ``self_attn.q_proj``; of experts their own tensor."""
    given: str
    """Shape that it reads; the weight lies between this and what it makes."""
    made: str
    name: str
    """What a person calls its output."""
    bias: bool = False
    rows: str = "token"
    """One row a ``token``, or a ``routed`` one for every expert that a token is sent to."""


class Scale(NamedTuple):
    """A norm's weight, by the shape of one vector that it scales."""

    path: str
    shape: str


class Kernel(NamedTuple):
    """One kernel launch, with the tensors it reads and writes if it is bound by memory.

    Matrix products and attention list none.
    """

    read: tuple[Form, ...] = ()
    written: tuple[Form, ...] = ()


Module: TypeAlias = Product | Scale
"""What has a weight."""


@dataclass(slots=True)
class Tape:
    """The births and deaths of storages, in order, and the work beside them."""

    events: list[tuple[int, Label]] = field(default_factory=list)
    modules: list[Module] = field(default_factory=list)
    kernels: list[Kernel] = field(default_factory=list)
    nodes: int = 0
    last_save: int = 0
    """Events before the latest operation that saved something was run: a checkpoint that runs
    the layer again ends there, with the last tensor that it looks for."""
    first_use: int = 0
    """Events before the backward of the first operation that had saved something: until then a
    checkpoint has not run its layer again."""
    kept: list[Storage] = field(default_factory=list)
    """What outlives the pass, such as gradients of weights."""
    region: str = ""
    """Of what is born now (:attr:`.kinds.Kind.region`); a wrapper around a part sets it."""
    collectives: list[Collective] = field(default_factory=list)

    def new(
        self, shape: str, width: str, name: str, read: tuple[Form, ...] | None = None
    ) -> Storage:
        """A fresh storage, alive from now on, perhaps a kernel's output of what it has ``read``."""
        if read is not None:
            self.launch(*read, writes=((shape, width),))
        return Storage(self, (Kind(shape, width, self.region), name))

    def collect(self, operation: str, axis: str, x: Tensor) -> None:
        """Note that GPUs along an axis of the mesh exchange a tensor, sized by this region."""
        kind = Kind(x.shape, x.width, self.region)
        self.collectives.append(Collective(len(self.events), operation, axis, kind))

    def launch(self, *read: Form, writes: tuple[Form, ...] = ()) -> None:
        """A kernel runs."""
        self.kernels.append(Kernel(read, writes))

    def counts_at_peaks(self, start: int, end: int) -> tuple[list[Label], Counts]:
        """All labels, and how many of each are alive at the local maxima between two positions."""
        changes = [change for change, _ in self.events[:end]]
        places: dict[Label, int] = {}
        of = [places.setdefault(label, len(places)) for _, label in self.events[:end]]
        alive = np.zeros((len(of) + 1, len(places)), np.int64)
        alive[range(1, len(of) + 1), of] = changes
        ends = zip(range(1, end), changes, changes[1:], strict=False)
        tops = [at for at, before, after in ends if after < 0 < before and at > start]
        return list(places), alive.cumsum(axis=0)[[*tops, len(of)]]

    def live_at_peaks(self, start: int, end: int) -> list[Counter[Label]]:
        """What is alive at every local maximum between two positions of the tape."""
        labels, counts = self.counts_at_peaks(start, end)
        return counted(labels, counts)

    def live(self, position: int) -> Counter[Label]:
        """What is alive at a position of the tape."""
        live: Counter[Label] = Counter()
        for change, label in self.events[:position]:
            live[label] += change
        return +live


class Frozen:
    """Stands among what an operation saves for a weight that is counted elsewhere."""


class Storage:
    """Memory of one or more tensors; freed when nothing holds it."""

    __slots__ = ("label", "tape")

    def __init__(self, tape: Tape, label: Label) -> None:
        """Note the birth."""
        self.tape = tape
        self.label = label
        tape.events.append((1, label))

    @property
    def form(self) -> Form:
        """Its shape and number format."""
        return self.label[0].form

    def __del__(self) -> None:
        """Note the death."""
        self.tape.events.append((-1, self.label))


Gradients = list["Storage | None"]
Backward = Callable[[Gradients], Gradients]


class Node:
    """One differentiable operation: where gradients go next and what it saved."""

    __slots__ = ("backward", "edges", "order", "outputs", "region", "saved")

    def __init__(
        self,
        tape: Tape,
        inputs: Sequence[Tensor],
        saved: Sequence[Storage | Frozen],
        backward: Backward,
        outputs: int = 1,
    ) -> None:
        """Record the operation; ``backward`` gives one gradient per input."""
        self.order = tape.nodes
        tape.nodes += 1
        if saved:
            tape.last_save = len(tape.events) - 1
        self.edges = [(tensor.node, tensor.output) for tensor in inputs]
        self.saved: Sequence[Storage | Frozen] = saved
        self.backward: Backward | None = backward
        self.outputs = outputs
        self.region = tape.region


class Tensor:
    """A view of a storage in a shape and number format, perhaps with a gradient."""

    __slots__ = ("node", "output", "shape", "storage", "width")

    def __init__(
        self, storage: Storage, shape: str, width: str, node: Node | None = None, output: int = 0
    ) -> None:
        """A tensor over ``storage``; ``node`` made it when it needs a gradient."""
        self.storage = storage
        self.shape = shape
        self.width = width
        self.node = node
        self.output = output

    @property
    def name(self) -> str:
        """Name of its storage."""
        return self.storage.label[1]

    @property
    def kind(self) -> Form:
        """The shape that this view reads, and its number format."""
        return self.shape, self.width

    @property
    def tape(self) -> Tape:
        """Where what is made of it is written down."""
        return self.storage.tape


def run_backward(tape: Tape, root: Node, gradient: Gradients) -> None:
    """Walk the graph from ``root`` as torch's engine does; empties ``gradient``."""
    waiting = _dependencies(root)
    buffers: dict[Node, Gradients] = {root: [gradient.pop()]}
    ready = [(-root.order, root)]
    while ready:
        _, node = heapq.heappop(ready)
        assert node.backward is not None
        if node.saved and not tape.first_use:
            tape.first_use = len(tape.events)
        backward, node.backward = node.backward, None
        arrived = buffers.pop(node)
        tape.region = node.region
        outgoing = backward(arrived)
        arrived.clear()
        node.saved = ()
        del backward
        for target, output in node.edges:
            value = outgoing.pop(0)
            if target is None:
                continue
            slots = buffers.setdefault(target, [None] * target.outputs)
            _accumulate(tape, slots, output, [value])
            del value
            waiting[target] -= 1
            if not waiting[target]:
                heapq.heappush(ready, (-target.order, target))


def _dependencies(root: Node) -> dict[Node, int]:
    count: dict[Node, int] = {root: 0}
    stack = [root]
    while stack:
        for target, _ in stack.pop().edges:
            if target is not None:
                if target not in count:
                    count[target] = 0
                    stack.append(target)
                count[target] += 1
    return count


def _accumulate(tape: Tape, slots: Gradients, output: int, arriving: Gradients) -> None:
    """Add to what has arrived before.

    The sum is counted as a new storage beside both. Outside of dispatch modes torch adds
    in place when nobody else holds the first; no peak of any family is at a sum, so this
    changes none (a test with the profiler holds that).
    """
    value, known = arriving.pop(), slots[output]
    if value is not None:
        if known is not None:
            form = known.form
            tape.launch(form, form, writes=(form,))
            value = Storage(tape, known.label)
        slots[output] = value
