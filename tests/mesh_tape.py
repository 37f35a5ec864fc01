"""Ways of dividing a model among GPUs, around a decoder layer that stays as it is.

A wrapper at the layer's parts adds collectives and says in which region tensors are born; a region
is a layout, which divides sizes by degrees of the mesh. A schedule is a list of words, apart from
what one micro-batch's forward and backward are. Nothing here is planned yet: it holds that the
tape's hooks are enough.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from planner.catalog.architecture import Architecture
from planner.formulas.activations import operations as op
from planner.formulas.activations.decoder import decoder_layer
from planner.formulas.activations.kinds import Kind
from planner.formulas.activations.setting import Layer, Part, Setting, unwrapped
from planner.formulas.activations.tape import (
    Gradients,
    Label,
    Node,
    Storage,
    Tape,
    Tensor,
    run_backward,
)
from planner.numeric import Num

Sizes = Mapping[str, Num]
INSIDE = "inside a part"


def inside(sizes: Sizes, ranks: int) -> Sizes:
    """Sizes of what is between a column-parallel and a row-parallel linear."""
    divided = ("heads", "kv_heads", "intermediate")
    return {**sizes, **{name: sizes[name] // ranks for name in divided}}


def bytes_of(live: Mapping[Label, int], regions: Mapping[str, Sizes]) -> int:
    """Bytes of storages, each by the sizes of its region."""
    return sum(int(kind.formula.of(regions[kind.region])) * n for (kind, _), n in live.items())


class TensorParallel:
    """transformers' own: each column-parallel linear sums its input's gradient."""

    COLUMN = ("q_proj", "k_proj", "v_proj", "gate_proj", "up_proj")

    def __call__(self, name: str, part: Part) -> Part:
        """The part with its collectives."""
        if name in ("attention", "mlp"):
            return lambda layer, x, *rest: self._divided(part, layer, x, *rest)
        if name.rsplit(".", maxsplit=1)[-1] in self.COLUMN:
            return lambda layer, x, *rest: part(layer, self._summed_in_backward(x), *rest)
        return part

    def _divided(self, part: Part, layer: Layer, x: Tensor, *rest: Any) -> Any:
        tape, around = layer.tape, layer.tape.region
        tape.region = INSIDE
        found = part(layer, x, *rest)
        tape.region = around
        tape.collect("all-reduce", "tensor", found[0] if isinstance(found, tuple) else found)
        return found

    def _summed_in_backward(self, x: Tensor) -> Tensor:
        tape, shape, width = x.tape, x.shape, x.width

        def backward(gradients: Gradients) -> Gradients:
            assert gradients[0] is not None
            tape.collect("all-reduce", "tensor", Tensor(gradients[0], shape, width))
            return [*gradients]

        return op.record(x.storage, shape, width, [x], backward)


@dataclass
class Recorded:
    """One layer on a tape: what it saves, and its collectives forward and backward."""

    saved: Counter[Label]
    forward: Counter[tuple[str, Kind]]
    backward: Counter[tuple[str, Kind]]


def recorded(arch: Architecture, setting: Setting, wrap: Any = unwrapped) -> Recorded:
    """Run a decoder layer on a tape of its own, forward and backward."""
    tape, width = Tape(), setting.weight
    names = ("rotary cos", "rotary sin")
    cos, sin = (Tensor(tape.new("rotary table", width, n), "rotary table", width) for n in names)
    mask = Tensor(tape.new("pair", width, "mask"), "pair", width)
    outside = tape.live(len(tape.events))
    leaf = Node(tape, (), (), lambda _: [])
    hidden = Tensor(tape.new("hidden", width, "layer input"), "hidden", width, leaf)
    output = decoder_layer(Layer(tape, arch, setting, wrap), hidden, cos, sin, mask)
    del hidden
    root = output.node
    assert root is not None
    del output
    saved = tape.live(len(tape.events)) - outside
    forward = Counter((one.operation, one.kind) for one in tape.collectives)
    run_backward(tape, root, [tape.new("hidden", width, "gradient of layer output")])
    everything = Counter((one.operation, one.kind) for one in tape.collectives)
    return Recorded(saved, forward, everything - forward)


def one_forward_one_backward(stages: int, rank: int, micro_batches: int) -> Iterator[str]:
    """Words of torch's ``Schedule1F1B``: a stage is as many forwards ahead as follow it."""
    ahead = min(micro_batches, stages - rank)
    yield from ["forward"] * ahead
    for number in range(micro_batches):
        yield "backward"
        if number < micro_batches - ahead:
            yield "forward"


@dataclass
class MicroBatch:
    """What a forward leaves until its backward: several are in flight, each with its own graph."""

    output: Tensor
    caught: list[Storage | None]


@dataclass
class Stage:
    """One rank of a pipeline, as torch's ``PipelineStage`` runs it."""

    arch: Architecture
    setting: Setting
    layers: int
    first: bool
    last: bool
    micro_batches: int
    tape: Tape = field(default_factory=Tape)

    def __post_init__(self) -> None:
        """Tables, and a buffer for each activation and gradient that will be received."""
        self.tables = [self._hidden(name, "rotary table") for name in ("rotary cos", "rotary sin")]
        sides = [("received activation", self.first), ("received gradient", self.last)]
        self.buffers = {
            name: [self._hidden(name) for _ in range(0 if outermost else self.micro_batches)]
            for name, outermost in sides
        }
        self.handed_back: list[Storage | None] = []

    def _hidden(self, name: str, shape: str = "hidden") -> Storage:
        return self.tape.new(shape, self.setting.weight, name)

    def run(self, words: Iterable[str]) -> None:
        """One step: in flight are the forwards whose backward has not come.

        The schedule's frame names the latest output, and the work of the last send before the
        first backward, which holds what it sent, until all forwards are done.
        """
        flying: list[MicroBatch] = []
        output: Tensor | None = None
        sending: Storage | None = None
        forwards = backwards = 0
        for word in words:
            if word == "forward":
                if not backwards and output is not None:
                    sending = output.storage
                flying.append(self._forward(forwards))
                output = flying[-1].output
                forwards += 1
            else:
                self._backward(flying.pop(0), backwards)
                backwards += 1
                if forwards == self.micro_batches:
                    sending = None
        del output, sending
        self.handed_back.clear()

    def _forward(self, number: int) -> MicroBatch:
        tape, width = self.tape, self.setting.weight
        cos, sin = (Tensor(one, "rotary table", width) for one in self.tables)
        caught: list[Storage | None] = []

        def catch(gradients: Gradients) -> Gradients:
            caught.extend(gradients)
            return []

        given = None if self.first else self.buffers["received activation"][number]
        x = Tensor(given or self._hidden("embeddings"), "hidden", width, Node(tape, (), (), catch))
        for _ in range(self.layers):
            x = decoder_layer(Layer(tape, self.arch, self.setting), x, cos, sin, None)
        return MicroBatch(x, caught)

    def _backward(self, one: MicroBatch, number: int) -> None:
        tape, node = self.tape, one.output.node
        assert node is not None
        one.output.node = None
        if self.last:  # the loss sums the output in fp32; its gradient is a number, spread
            given = [self._hidden("gradient of the output")]
        else:
            given = [self.buffers["received gradient"][number]]
        run_backward(tape, node, given)
        del node
        if self.first:
            one.caught.clear()
            self.tape.new("vocabulary weight gradient", self.setting.weight, "embedding's gradient")
        self.handed_back = one.caught  # until the next is sent
