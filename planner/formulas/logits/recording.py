"""A loss as a program on the tape: run once for each head, then its moments are given sizes.

A program is a function that makes and drops storages in the order in which the code that it reads
like does. Nothing of it depends on sizes but whether its loop goes round ``again``; so a program is
run once for all plans that have the same head, forward and backward, and the moments at which most
is alive are kept.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np

from planner.formulas.activations.kinds import Kind
from planner.formulas.activations.tape import (
    Backward,
    Gradients,
    Label,
    Node,
    Storage,
    Tape,
    Tensor,
    run_backward,
)
from planner.formulas.formula import REGISTRY, Formula
from planner.formulas.logits.head import INSIDE_MODEL, Head
from planner.formulas.logits.pieces import INSIDE_LOGSUMEXP, PER_TOKEN, SCALAR
from planner.numeric import Num
from planner.term import Instant, Term

WIDTHS = {"half": 2, "fp32": 4, "int64": 8, "bool": 1, "perhaps": 0}
"""Bytes of a number; ``perhaps`` is fp32 of a buffer that a compiler makes or leaves out."""

PIECES = ("chunk_tokens", "tile_columns", "row_copies", "sequences")
"""Inputs of formulas that say how large one of several pieces is."""

OVER = frozenset(("vocab", "hidden", "vocabulary_tile", "slice_vocab"))
"""Inputs of which a tensor of the loss has one, and small ones have none."""

RATIO_NUMBERS = 7
"""fp32 numbers of each token beside its log-probability, of the clipped ratio with a k3 KL."""


Gradient = Sequence[Any] | int
"""The arguments of :meth:`Run.new`, or the number of an output whose gradient is passed on."""


class Scored(NamedTuple):
    """What scoring hands out: numbers of each token, or a loss that is made of the logits."""

    taken: Tensor | None = None
    """Log-probabilities of the taken tokens."""
    entropy: Tensor | None = None
    """Entropies that are part of the loss."""
    loss: Tensor | None = None


@dataclass(frozen=True, slots=True)
class Run:
    """A program while it runs: the head that it is about, and where storages are written down."""

    head: Head
    again: bool
    """The program's loop has a second round, which stands for all later ones."""
    gradient: bool
    """Hidden states have a gradient, and so does the head's weight if it trains."""
    tape: Tape = field(default_factory=Tape)
    marks: dict[int, str] = field(default_factory=lambda: {0: "head"})
    """What moments are called from a position of the tape on."""
    named: list[Storage] = field(default_factory=list)
    """Outputs that have a name until the loss exists, or still when it goes backward."""

    def at(self, name: str) -> None:
        """What the moments from here on are called."""
        self.marks[len(self.tape.events)] = name

    @property
    def narrow(self) -> str:
        """Number format of hidden states, weight and product."""
        return "fp32" if self.head.item_bytes == WIDTHS["fp32"] else "half"

    @property
    def wide(self) -> str:
        """Number format inside the log-softmax."""
        return "fp32" if self.head.upcasts else self.narrow

    def new(self, formula: Formula, width: str, label: str = "", part: str = "") -> Storage:
        """A storage of the formula's size, by the name of ``label`` if it has one of its own.

        ``part`` is the size that the formula takes where it is about one of several pieces.
        """
        return self.tape.new(f"{formula.name}:{part}", width, label)

    def numbers(self, *widths: str, of: Formula = PER_TOKEN) -> list[Storage]:
        """Small tensors, of one number a token unless told otherwise."""
        return [self.new(of, width) for width in widths]

    def written_over(self, storage: Storage, formula: Formula, label: str) -> Storage:
        """The same memory, which is something else from now on."""
        kind, _ = old = storage.label
        part = kind.shape.partition(":")[2]
        storage.label = Kind(f"{formula.name}:{part}", kind.width), label
        self.tape.events += [(-1, old), (1, storage.label)]
        return storage

    def inputs(self) -> list[Tensor]:
        """Hidden states and, if it trains, the head's weight, which others count: not this tape."""
        nodes = [Node(self.tape, (), (), lambda _: []) for _ in range(1 + self.head.weight_trains)]
        outside = Tape().new("", "", "")
        return [Tensor(outside, "", "", node if self.gradient else None) for node in nodes]

    def function(
        self,
        inputs: Sequence[Tensor],
        outputs: Sequence[Storage],
        gradients: Sequence[Gradient] | Backward,
        saved: Sequence[Storage] = (),
        at: str = "",
    ) -> list[Tensor]:
        """The outputs as tensors that one node of autograd has made, if an input has a gradient.

        Its backward, called ``at``, makes the ``gradients`` in turn; those of the inputs are the
        last. A number stands for the gradient of that output, which is passed on.
        """
        count, node = len(inputs), None

        def backward(arrived: Gradients) -> Gradients:
            if at:
                self.at(at)
            if callable(gradients):
                return gradients(arrived)
            made = [arrived[g] if isinstance(g, int) else self.new(*g) for g in gradients]
            return made[-count:]

        if any(tensor.node is not None for tensor in inputs):
            node = Node(self.tape, inputs, saved, backward, len(outputs))
        return [
            Tensor(storage, *storage.form, node, index)
            for index, storage in enumerate(outputs)
        ]

    def moments(self, start: int, end: int) -> Iterator[tuple[str, dict[Label, int]]]:
        """What is alive at each local maximum between two positions of the tape, by its name.

        Where a name ends is a moment too, so that each has one.
        """
        name, alive, events = "", Counter[Label](), self.tape.events
        for at in range(end + 1):
            top = at == end or at in self.marks or events[at][0] < 0 < events[at - 1][0]
            if at > start and top:
                yield name, +alive
            name = self.marks.get(at, name)
            if at < end:
                alive[events[at][1]] += events[at][0]


Line = tuple[Formula, str, tuple[tuple[str, int | str], ...], int]
"""A term without its sizes: its formula, name, inputs (numbers or names of sizes) and tensors."""

Moment = tuple[str, tuple[Line, ...]]
"""A name, and what is alive then."""


def highest(run: Run, start: int, end: int) -> tuple[Moment, ...]:
    """The moments that can be the highest by some sizes; of equal ones the last.

    No number for each token outweighs a tensor over the vocabulary. What lives inside of one
    operator is compared apart, since who watches operators does not see it; and, where the loss is
    outside of the model, so are moments inside of it, which stand beside other weights.
    """
    found = list(run.moments(start, end))
    columns: dict[tuple[bool, bool, str], int] = {}
    heights = np.zeros((len(found), 64), np.int64)
    for row, (name, alive) in zip(heights, found, strict=True):
        row[int(name in INSIDE_MODEL)] = run.head.way.outside_model
        for (kind, label), count in alive.items():
            formula, _, part = kind[0].partition(":")
            inside = INSIDE_LOGSUMEXP.name in (formula, label)
            light = OVER.isdisjoint(REGISTRY[formula].inputs)
            key = (light, inside, REGISTRY[formula].expression + part)
            row[columns.setdefault(key, len(columns) + 2)] += count * max(WIDTHS[kind[1]], 1)
    small, hidden = ([place for key, place in columns.items() if key[sort]] for sort in (0, 1))
    large, whole = (np.delete(heights, out, axis=1) for out in ((*small, *hidden), small))
    fewer = (heights[:, None, small] <= heights[:, small]).all(-1)
    below = (whole[:, None] <= whole).all(-1) & ((large[:, None] < large).any(-1) | fewer)
    lower = below & (np.triu(np.ones_like(below), 1) | ~below.T)
    return tuple((*found[row][:1], lines(found[row][1])) for row in np.flatnonzero(~lower.any(-1)))


def lines(alive: Mapping[Label, int]) -> tuple[Line, ...]:
    """What is alive as terms without sizes; small tensors of a kind are one term."""
    found: list[Line] = []
    for (kind, label), count in alive.items():
        name, _, part = kind[0].partition(":")
        known: dict[str, int | str] = {"item_bytes": WIDTHS[kind[1]], "copies": count}
        known["buffers"] = 0
        known |= dict.fromkeys(PIECES, part) if part else {}
        inputs = tuple((each, known.get(each, each)) for each in REGISTRY[name].inputs)
        together = count if "copies" in REGISTRY[name].inputs else 1
        found += [(REGISTRY[name], label, inputs, together)] * (count // together)
    return tuple(found)


Recorded = tuple[tuple[Moment, ...], tuple[Moment, ...], tuple[Line, ...]]
"""Moments of a program and of its backward, and what is alive when it has scored."""

Program = Callable[[Run], Scored]
"""Makes and drops storages as its code does; its names are gone when it returns."""


def ratio_loss(run: Run, found: Scored) -> Tensor:
    """A clipped ratio with a k3 KL, and the mean entropy if that is part of the loss.

    What it saves for its backward is gone before anything over the vocabulary is made again.
    """
    run.at("loss")
    inputs = [each for each in (found.taken, found.entropy) if each is not None]
    back = [(REGISTRY[each.shape.partition(":")[0]], each.width) for each in inputs]
    widest = run.numbers(*["fp32"] * RATIO_NUMBERS, of=back[0][0])
    del widest
    return run.function(inputs, run.numbers("fp32", of=SCALAR), back)[0]


SIZES = ("tokens", "rows", "vocab", "hidden")
DECIDING = tuple(name for name in Head.__slots__ if name not in (*SIZES, "chunk_tokens", "role"))
"""What of a head decides which storages there are."""
_sizes, _deciding = attrgetter(*SIZES), attrgetter(*DECIDING)


def recorded(program: Program, head: Head, *, again: bool, gradient: bool = True) -> Recorded:
    """The program's moments with a head, whose sizes do not matter."""
    return _recorded(program, _deciding(head), again, gradient)


@lru_cache(maxsize=1024)
def _recorded(
    program: Program, deciding: tuple[Any, ...], again: bool, gradient: bool
) -> Recorded:
    facts: dict[str, Any] = dict(zip(DECIDING, deciding, strict=True))
    head = Head(tokens=0, rows=0, vocab=0, hidden=0, **facts)
    run = Run(head, again, gradient)
    found = program(run)
    end = len(run.tape.events)
    kept = lines(run.tape.live(end))
    if not gradient:
        return highest(run, 0, end), (), kept
    loss = found.loss or ratio_loss(run, found)
    del found
    if not head.logits_held:
        run.named.clear()
    end, seed = len(run.tape.events), run.numbers("fp32", of=SCALAR)
    assert loss.node is not None
    run.at("loss backward")
    run_backward(run.tape, loss.node, [*seed])
    return highest(run, 0, end), highest(run, end, len(run.tape.events)), kept


def terms(found: Sequence[Line], head: Head, sizes: Mapping[str, Num]) -> tuple[Term, ...]:
    """The terms of one moment by the head's sizes, and those of its pieces."""
    known, made = {**dict(zip(SIZES, _sizes(head), strict=True)), **sizes}, []
    for formula, label, needed, tensors in found:
        inputs = {name: known[of] if type(of) is str else of for name, of in needed}
        term = formula.made(head.role, inputs, label, tensors)
        if "buffers" in inputs:  # nobody knows whether it is there
            term = term._replace(low=0, high=formula.of({**inputs, "buffers": 1}))
        made.append(term)
    return tuple(made)


def instants(
    program: Program,
    head: Head,
    sizes: Mapping[str, Num],
    *,
    backward: bool = False,
    gradient: bool = True,
) -> tuple[Instant, ...]:
    """Every moment of the program, or of its backward, that can be its highest.

    Where some points of a sweep go round the loop ``again`` and others do not, an instant's terms
    have 0 bytes at the points that it is not about.
    """
    again = sizes.get("again", False)
    found: dict[Moment, Num] = {}
    for decided in np.unique(again).tolist() if isinstance(again, np.ndarray) else (again,):
        record = recorded(program, head, again=decided, gradient=gradient)
        for moment in record[1] if backward else record[0]:
            found[moment] = True if moment in found else again == decided
    made = []
    for (name, alive), there in found.items():
        own = terms(alive, head, sizes)
        if there is not True:
            own = tuple(term._replace(bytes=term.bytes * there) for term in own)
        made.append(Instant(name=name, terms=own))
    return tuple(made)
