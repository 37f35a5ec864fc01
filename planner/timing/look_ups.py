"""Which kernels a cause of time is made of: found when somebody opens it, and not before.

A term carries one of these functions and what it is given after the term
(``TimeTerm.look_ups``). Each names the kernels by the very sizes that the term was made of, how
often they run in the phase, and what else its seconds have in them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from planner.catalog.architecture import Architecture
from planner.catalog.gpu_catalog import Gpu
from planner.kernels import experts_seconds, products_seconds
from planner.kernels.explanation import Kind
from planner.term import TimeTerm
from planner.timing import layers
from planner.timing.engine_kernels import gathered_logits, head_product, layer_products

if TYPE_CHECKING:
    from planner.timing.engine_step import Generator
    from planner.timing.rollout import Stretch

CURVE = "read off a curve over rows"
MONOTONE = "read off a curve that more rows never lower"
LASTING = "rates that last for seconds"
PAIRS = "pairs computed, by those measured"
FLASH2 = "FlashAttention-2, by the kernel measured"
OPERATIONS = "operations of the backward"
BACKWARD = "the backward's lower share"
LAUNCHES = "kernel launch overhead"
SMALL, REDUCED = "small kernels", "all-reduces"
SAMPLER, GATHERED = "sampler", "logits gathered"
REST = "small kernels, sampler and the host"
FILLED = "less what these tokens take with every place filled"


class LookUp(NamedTuple):
    """One kernel of one shape, as often as it runs in the phase."""

    kind: Kind
    gpu: Gpu
    sizes: Mapping[str, Any]
    runs: float
    factors: Mapping[str, float]
    """What its seconds are multiplied by, under what it stands for; none that is 1."""


class Beside(NamedTuple):
    """Seconds of the cause that rest on no table of kernels; below 0 where they are taken off."""

    name: str
    seconds: float


Found = Iterator[LookUp | Beside]


def look_ups(term: TimeTerm) -> Found:
    """The kernels of a plan's term, and what it has beside them; nothing where no table has any."""
    if term.look_ups:
        find, *given = term.look_ups
        yield from find(term, *given)


def products(
    term: TimeTerm,
    gpu: Gpu,
    shapes: layers.Shapes,
    dtype: str,
    inputs: bool,
    weights: bool,
    rows: float,
) -> Found:
    """Products of fixed widths; the arguments are those of :func:`layers.products_share`."""
    rows = max(rows, 1.0)
    alike = [
        (shape.matrices, "products", {**sizes, "dtype": dtype})
        for shape in shapes
        for sizes in layers.product_sizes(rows, shape.inner, shape.outer, inputs, weights)
    ]
    flops = 2.0 * max(inputs + weights, 1) * layers.elements(shapes) * rows
    yield from _at_share(term, gpu, alike, flops)


def experts(term: TimeTerm, gpu: Gpu, arch: Architecture, dtype: str, rows: float) -> Found:
    """Routed experts of every sparse layer."""
    rows = max(rows, 1.0)
    alike: list[Alike] = [
        (arch.sparse_layers * float(times), kind, sizes)
        for times, kind, sizes in layers.experts_kernels(gpu, arch, rows, dtype)
    ]
    yield from _at_share(term, gpu, alike, layers.experts_flops(arch, tokens=rows))


Alike = tuple[float, Any, dict[str, Any]]


def _at_share(term: TimeTerm, gpu: Gpu, alike: list[Alike], flops: float) -> Found:
    """Kernels of one pass that has so many ``flops``, of a term by its share of the peak."""
    passes = term.inputs["flops"] / flops
    read = flops / (term.inputs["peak_flops_per_second"] * term.inputs["share"])
    factors = {CURVE: read / _seconds(gpu, alike), LASTING: 1 / term.inputs.get("sustained", 1.0)}
    yield from _kernels(gpu, alike, passes, factors)


def attention(
    term: TimeTerm,
    gpu: Gpu,
    arch: Architecture,
    tokens: float,
    found: layers.Attention,
    operations: float,
    quotient: float,
) -> Found:
    """Attention of a model's forward or backward: ``operations`` by those of a forward."""
    assert found.one is not None
    kind, sizes, flops = found.one
    if kind == "products":  # scores and values are one each, and a row is a token and a head
        runs = 2 * arch.cache_layers * tokens * arch.heads / sizes["rows"]
    else:
        runs = arch.cache_layers * tokens / (sizes["sequences"] * sizes["tokens"])
    forward = term.inputs["flops"] / operations
    factors = {
        PAIRS: forward / (runs * flops),
        FLASH2: 1 / found.slower,
        OPERATIONS: operations,
        BACKWARD: 1 / quotient,
        LASTING: 1 / term.inputs["sustained"],
    }
    yield from _kernels(gpu, [(runs, kind, sizes)], 1.0, factors)


def again(_: TimeTerm, forward: Iterable[TimeTerm], times: float) -> Found:
    """A forward that is repeated: its terms' kernels, and its terms that have none."""
    for term in forward:
        if not term.look_ups:
            yield Beside(term.name, times * float(term.seconds))
        for one in look_ups(term):
            if isinstance(one, LookUp):
                yield one._replace(runs=times * one.runs)
            else:
                yield one._replace(seconds=times * one.seconds)


def decoding(term: TimeTerm, generator: Generator, rows: float) -> Found:
    """Products of every step, of so many rows."""
    yield from _layers(generator, rows, term.inputs["steps"], term.inputs["step_seconds"])


def decode_attention(
    term: TimeTerm, generator: Generator, sequences: float, context_tokens: float
) -> Found:
    """Attention of every step of so many sequences."""
    yield from _attended(generator, sequences, context_tokens, term.inputs["steps"])


def head(term: TimeTerm, generator: Generator, rows: float) -> Found:
    """The product with the vocabulary in every step, and what is sampled of it."""
    steps = term.inputs["steps"]
    yield from _head(generator, rows, steps, term.inputs["head_seconds"])
    yield Beside(SAMPLER, steps * term.inputs["sampler_seconds"])


def prefill(_: TimeTerm, generator: Generator, tokens: float, passes: float) -> Found:
    """Passes of so many tokens of prompts through the layers."""
    parts = generator.parts(tokens)
    assert parts is not None
    yield from _layers(generator, tokens, passes, parts.products)
    yield Beside(SMALL, passes * parts.small)
    yield Beside(REDUCED, passes * parts.reductions)
    yield Beside(LAUNCHES, passes * max(generator.launches - parts.layers, 0.0))


def prefill_attention(term: TimeTerm, generator: Generator, prompts: float, tokens: float) -> Found:
    """Attention of so many whole prompts in a pass."""
    alike: list[Alike] = [
        (count, "prefill", sizes) for count, sizes in generator.prefill_kernels(prompts, tokens)
    ]
    yield from _kernels(generator.gpu, alike, term.inputs["passes"], {})


def longest(
    term: TimeTerm,
    generator: Generator,
    pieces: Iterable[tuple[Any, ...]],
    rounds: float,
) -> Found:
    """What is really decoded, from a full engine to the last response (:func:`plain`)."""
    rest = 0.0
    for piece in pieces:
        columns = [column.tolist() for column in np.broadcast_arrays(*map(np.ravel, piece))]
        for sequences, steps, context_tokens, seconds in zip(*columns, strict=True):
            rows = generator.rows(sequences)
            parts = generator.parts(rows)
            attended = generator.attention(sequences, context_tokens)
            assert parts is not None and attended is not None
            times = rounds * steps
            yield from _layers(generator, rows, times, parts.products)
            yield from _attended(generator, sequences, context_tokens, times)
            yield from _head(generator, rows, times, parts.head)
            rest += rounds * seconds - times * (parts.products + attended + parts.head)
    yield Beside(REST, rest)
    yield Beside(FILLED, -term.inputs["busy_seconds"])


def plain(pieces: Iterable[tuple[Stretch, Any]]) -> tuple[tuple[Any, ...], ...]:
    """Sequences, steps, context and seconds of stretches; a plan's compare by value."""
    return tuple(
        tuple(
            tuple(value.tolist()) if isinstance(value, np.ndarray) and value.ndim == 1 else value
            for value in (of.sequences, of.steps, of.context_tokens, took)
        )
        for of, took in pieces
    )


def _layers(generator: Generator, rows: float, passes: float, seconds: float) -> Found:
    """Products of all layers, which together are read off a curve as so many ``seconds``."""
    of = generator.arch, rows, generator.weights or generator.dtype
    alike = list(layer_products(*of, generator.tensor_parallel, generator.expert_parallel))
    factors = {MONOTONE: seconds / _seconds(generator.gpu, alike)}
    yield from _kernels(generator.gpu, alike, passes, factors)


def _attended(generator: Generator, sequences: float, context_tokens: float, steps: float) -> Found:
    asked = generator.decode_kernels(sequences, context_tokens)
    alike: list[Alike] = [(count, "decode", sizes) for count, sizes in asked]
    yield from _kernels(generator.gpu, alike, steps, {})


def _head(generator: Generator, rows: float, steps: float, seconds: float) -> Found:
    of = rows, generator.dtype, generator.tensor_parallel
    alike: list[Alike] = [(1.0, "products", head_product(generator.arch, *of))]
    gathered = gathered_logits(generator.arch, generator.gpu, *of)
    assert gathered is not None
    read = seconds / (_seconds(generator.gpu, alike) + gathered)
    yield from _kernels(generator.gpu, alike, steps, {MONOTONE: read})
    yield Beside(GATHERED, steps * gathered * read)


def _seconds(gpu: Gpu, alike: Iterable[Alike]) -> float:
    total = 0.0
    for times, kind, sizes in alike:
        look = experts_seconds if kind == "experts" else products_seconds
        total += times * (look(gpu, **sizes) or 0.0)
    return total


def _kernels(
    gpu: Gpu, alike: Iterable[Alike], passes: float, factors: Mapping[str, float]
) -> Found:
    known = {name: one for name, one in factors.items() if not math.isclose(one, 1, rel_tol=1e-12)}
    for times, kind, sizes in alike:
        yield LookUp(kind, gpu, sizes, float(passes * times), known)
