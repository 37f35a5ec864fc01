"""One forward and backward of a shallow decoder body, watched layer by layer.

What each layer keeps and what passes inside it is read off the log of a run without data, with
the number of rows and tokens as given; :mod:`planner.dryrun.run.spot.polynomials` turns several of
them into polynomials. Bytes leave out weights, and the gradients that other layers have made.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate
from typing import Any
from weakref import WeakMethod

import torch
from torch import Tensor, nn

from planner.dryrun.logs.log import BIRTH, DEATH, SCRATCH, Event
from planner.dryrun.run.tracker import Tracker
from planner.steps import models


@dataclass(slots=True)
class Watch:
    """Places in the log that hooks note down, and the storages that cross layers."""

    entered: dict[int, int] = field(default_factory=dict)
    """Where each layer's forward begins; the number of layers is where the last has ended."""
    inputs: dict[int, int] = field(default_factory=dict)
    """Storage of each layer's input."""
    backward: dict[int, int] = field(default_factory=dict)
    """Where each layer's backward begins, and (at -1) where the first layer's ends."""
    handed: dict[int | None, int] = field(default_factory=dict)
    """Where each weight has been handed its gradient, by the gradient's storage."""

    def close(self, layers: int) -> None:
        """Layers that did not run begin where the next one does: nothing passes in them."""
        for index in reversed(range(layers)):
            if index not in self.entered and index + 1 in self.entered:
                self.entered[index] = self.entered[index + 1]
                self.inputs[index] = self.inputs[index + 1]
        for index in range(layers):
            if index - 1 in self.backward:
                self.backward.setdefault(index, self.backward[index - 1])


@dataclass(frozen=True, slots=True)
class Moments:
    """Live bytes at every instant of one layer's pass, and what happened there."""

    bytes: tuple[int, ...]
    shape: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """What one run shows; bytes, layers in their order."""

    before: int
    """Alive outside the layers while they run forward, the first layer's input left out."""
    standing: int
    """The same when the forward has returned: what the backward still needs."""
    held: bool
    """Whether the embeddings have a name until the forward returns, and are among ``before``."""
    after: int
    """What the end of the model keeps beside its output."""
    kept: tuple[int, ...]
    """What each layer adds until the next one begins."""
    input_kept: tuple[bool, ...]
    """Whether a layer's input outlives the forward."""
    norm: Moments | None
    """The backward of what follows the layers, above what these keep and what stands."""
    forward: tuple[Moments, ...]
    """Above what stands and what is kept by layers up to this one."""
    again: tuple[Moments, ...]
    """The same as far as a checkpoint runs a layer again, to the last tensor that is kept."""
    backward: tuple[Moments, ...]
    """The same in the backward, where a weight's gradient is gone once it is handed over (added to
    an earlier one, say); empty without gradients."""
    made: tuple[Moments, ...]
    """The same where the gradients that the layer makes stay."""


class Body:
    """A decoder body whose hooks tell a watch where it is."""

    def __init__(self, model: nn.Module, tracker: Tracker) -> None:
        self.module = model
        self.tracker = tracker
        self.watch = Watch()
        self.layers = models.layers(model)
        for index, layer in enumerate(self.layers):
            layer.register_forward_pre_hook(partial(self._entering, index), with_kwargs=True)
            layer.register_forward_hook(partial(self._leaving, index))
        # Python does not see that a weight holds such a hook: a cycle through it would never end.
        handed: Any = WeakMethod(self._handed)
        for weight in filter(lambda each: each.requires_grad, model.parameters()):
            weight.register_post_accumulate_grad_hook(  # type: ignore[no-untyped-call]
                lambda each: handed()(each)
            )

    def _now(self) -> int:
        return len(self.tracker.log.events)

    def _entering(self, index: int, _: nn.Module, given: Any, named: Any) -> None:
        hidden = given[0] if given else next(filter(torch.is_tensor, named.values()))
        if index in self.watch.entered:
            raise ValueError("its layers run more than once in a forward")
        self._crossing(index, hidden)
        if index == 0 and hidden.requires_grad:
            hidden.register_hook(lambda _: self._backward(-1))

    def _leaving(self, index: int, _: nn.Module, __: Any, output: Any) -> None:
        first = output[0] if isinstance(output, (tuple, list)) else output
        if index == len(self.layers) - 1:
            self._crossing(index + 1, first)
        if first.requires_grad:
            first.register_hook(lambda _: self._backward(index))

    def _crossing(self, index: int, tensor: Tensor) -> None:
        key = self.tracker.key_of(tensor)
        if key is None:
            raise ValueError("layers pass on a tensor that nobody saw being made")
        self.watch.entered[index], self.watch.inputs[index] = self._now(), key

    def _handed(self, weight: Any) -> None:
        # Layers that share a weight come here more than once: the first makes the gradient.
        self.watch.handed.setdefault(self.tracker.key_of(weight.grad), self._now())

    def _backward(self, index: int) -> None:
        self.watch.backward[index] = self._now()


def observe(
    body: Body, inputs: dict[str, Tensor], *, trains: bool, casting: AbstractContextManager[Any]
) -> Observation:
    """Run the body once, forward and (where it ``trains``) backward."""
    tracker, watch = body.tracker, Watch()
    body.watch = watch
    gc.collect()
    start = len(tracker.log.events)
    with torch.set_grad_enabled(trains):
        with casting:
            output = models.hidden_states(body.module, inputs)
        returned = len(tracker.log.events)
        result = tracker.key_of(output)
        loss = output.float().sum() if trains else None
        del output
        turned = len(tracker.log.events)
        if loss is not None:
            loss.backward()  # type: ignore[no-untyped-call]
        del loss
    end = len(tracker.log.events)
    body.module.zero_grad(set_to_none=True)
    watch.close(len(body.layers))
    story, whole = (_Story(tracker, start, end, gone) for gone in (watch.handed, {}))
    return _read(story, whole, watch, returned, turned, result, trains)


class _Story:
    """Live bytes after each event of a stretch of the log.

    Storages that are ``gone`` no longer count from the place that stands there.
    """

    def __init__(
        self, tracker: Tracker, start: int, end: int, gone: Mapping[int | None, int]
    ) -> None:
        self.log, self.start = tracker.log, start
        self.events: list[Event] = tracker.log.events[start:end]
        self.born, self.died = (
            {key: start + at for at, (kind, key, _) in enumerate(self.events) if kind == wanted}
            for wanted in (BIRTH, DEATH)
        )
        changes = [size * ((kind == BIRTH) - (kind == DEATH)) for kind, _, size in self.events]
        for key in self.born.keys() & gone.keys():
            changes[gone[key] - 1 - start] -= self.log.made[key].size_bytes
        self.live = [0, *accumulate(changes)]

    def at(self, place: int) -> int:
        """Live bytes before the event at this place of the log."""
        return self.live[place - self.start]

    def alive(self, key: int, at: int) -> bool:
        """Whether a storage has not ended before a place."""
        return self.died.get(key, at) >= at

    def surviving(self, since: int, until: int, at: int, leaving_out: int | None) -> int:
        """Bytes born in a stretch and alive at a later place."""
        born = self._born(since, until)
        return sum(size for key, size in born if key != leaving_out and self.alive(key, at))

    def last_kept(self, since: int, until: int, at: int, output: int) -> int:
        """Just after the last storage of a stretch is made that is alive at a later place.

        The ``output`` is left out, which who comes next keeps.
        """
        kept = [born for key, born in self.born.items() if key != output and self.alive(key, at)]
        return 1 + max((born for born in kept if since <= born < until), default=since - 1)

    def numbers(self, since: int, until: int) -> int:
        """Bytes of single numbers born in a stretch: this run's own loss and its gradient."""
        return sum(size for key, size in self._born(since, until) if not self.log.made[key].shape)

    def _born(self, since: int, until: int) -> Iterator[tuple[int, int]]:
        for key, at in self.born.items():
            if since <= at < until:
                yield key, self.log.made[key].size_bytes

    def moments(self, first: int, last: int, base: int) -> Moments:
        """Every instant at which something has just been made, from ``first`` up to ``last``."""
        found: list[int] = [self.at(first) - base]
        shape = ["begin"]
        for at in range(first - self.start, last - self.start):
            kind, key, size = self.events[at]
            if kind == SCRATCH:
                found.append(self.live[at] + size - base)
                shape.append(self.log.names[key])
            elif kind == BIRTH:
                found.append(self.live[at + 1] - base)
                shape.append(self.log.made[key].op)
        return Moments(tuple(found), tuple(shape))


def _read(
    story: _Story,
    whole: _Story,
    watch: Watch,
    returned: int,
    turned: int,
    result: int | None,
    trains: bool,
) -> Observation:
    made = story.log.made
    layers = len(watch.entered) - 1
    entered = [story.at(watch.entered[index]) for index in range(layers + 1)]
    hidden = made[watch.inputs[0]].size_bytes
    # A model's forward may hold the embeddings by name until it returns.
    first = watch.inputs[0]
    held = story.alive(first, watch.entered[1]) and not story.alive(first, returned)
    before = entered[0] - hidden * (not held)
    standing = story.surviving(story.start, watch.entered[0], returned, watch.inputs[0])
    kept = tuple(
        entered[index + 1] - entered[index] - hidden * (held and index == 0)
        for index in range(layers - 1)
    )
    last = story.surviving(watch.entered[layers], returned, returned, result)
    crossing = watch.inputs[layers]
    if result != crossing and story.alive(crossing, returned):
        last += made[crossing].size_bytes
    forward, again, backward, made_in_it = [], [], [], []
    norm = None
    below = loss = 0
    if trains:
        turns = watch.backward
        loss = story.numbers(returned, turns[layers - 1])
        size = made[result].size_bytes if result is not None else 0
        base = story.at(returned) - last - size + loss
        norm = story.moments(turned, turns[layers - 1], base)
    for index in range(layers - 1):
        below += kept[index]
        # Without gradients the input is counted with what stands, not with what a layer needs.
        base = (standing if trains else before + hidden) + below
        forward.append(story.moments(watch.entered[index], watch.entered[index + 1], base))
        if trains:
            stretch = watch.entered[index], watch.entered[index + 1]
            until = story.last_kept(*stretch, returned, watch.inputs[index + 1])
            again.append(story.moments(stretch[0], until, base))
            passes = turns[index], turns[index - 1]
            backward.append(story.moments(*passes, standing + loss + below))
            higher = whole.at(passes[0]) - story.at(passes[0])
            made_in_it.append(whole.moments(*passes, standing + loss + below + higher))
    return Observation(
        before=before,
        standing=standing,
        held=held,
        after=last,
        kept=kept,
        input_kept=tuple(story.alive(watch.inputs[index], returned) for index in range(layers - 1)),
        norm=norm,
        forward=tuple(forward),
        again=tuple(again),
        backward=tuple(backward),
        made=tuple(made_in_it),
    )
