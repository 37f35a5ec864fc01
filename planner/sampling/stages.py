"""The stages of density-aware sampling, and what each holds at its peak.

They are those of the pipeline in ``run/``, by the same names, or those of the document's code
where a plan concatenates. Online, one process does all and keeps model and embeddings; otherwise
one embeds and another searches, so that neither holds what the other needs. Sizes are those of a
plan, or arrays over prompts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from planner.formulas import sampling
from planner.numeric import Num, minimum, total
from planner.sampling.derived import (
    chunk_of,
    last_chunk_of,
    lists_of,
    part_of,
    probes_of,
    training_of,
    width_of,
)
from planner.sampling.measured import (
    NOTHING,
    PROCESS_BYTES,
    THREAD_BYTES,
    TORCH_BESIDE,
    WEIGHING_BYTES,
    Measured,
)
from planner.sampling.model import Embedder, embedder_of
from planner.sampling.plan import SamplingPlan
from planner.term import Term
from planner.values.dtypes import BYTES

Terms = tuple[Term, ...]
MERGED, ANSWERED, KEPT = 112, 40, 16
"""Bytes of a neighbour while chunks are merged, while an index answers, and once it is found."""
STAGES: Mapping[str, str] = {
    "load": "Model",
    "embed": "Embedding",
    "concatenate": "Concatenating",
    "normalise": "Normalising",
    "read": "Reading embeddings",
    "train": "Training lists",
    "assign": "Assigning prompts to lists",
    "search": "Nearest neighbours",
    "weigh": "Weights",
}
"""Every stage in order, and what a person reads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """A stage's memory at its peak, and what is left in the process when it ends."""

    name: str
    terms: Terms

    @property
    def host_bytes(self) -> Num:
        """Anonymous host RAM."""
        return total([term.bytes for term in self.terms if term.host])

    @property
    def gpu_bytes(self) -> Num:
        """GPU memory."""
        return total([term.bytes for term in self.terms if not term.host])


@dataclass(frozen=True, slots=True)
class Sizes:
    """The numbers that formulas are given."""

    plan: SamplingPlan
    known: Measured = NOTHING
    embedder: Embedder | None = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "embedder", embedder_of(self.plan))

    @property
    def prompts(self) -> Num:
        """Prompts in all."""
        return self.plan.prompts

    @property
    def vectors(self) -> dict[str, Num]:
        """Inputs of what has a vector for each prompt."""
        return {
            "prompts": self.plan.prompts,
            "dimensions": width_of(self.plan),
            "value_bytes": BYTES[self.plan.dtype],
        }

    @property
    def rows(self) -> dict[str, Num]:
        """Inputs of what has a chunk's vectors."""
        return {
            "chunk_prompts": chunk_of(self.plan),
            "prompts": self.plan.prompts,
            "dimensions": width_of(self.plan),
        }

    @property
    def online(self) -> bool:
        """One process does all."""
        return bool(self.plan.mode == "online")


def stages_of(plan: SamplingPlan, known: Measured = NOTHING) -> tuple[Held, ...]:
    """Every stage of a plan with its terms, in order."""
    sizes = Sizes(plan, known)
    if plan.assembly == "concatenate":
        return tuple(_document(sizes))
    return (*_embedding(sizes), *_searching(sizes))


def _host(formula: Any, role: str, **inputs: Any) -> Term:
    term: Term = formula(role, host=True, **inputs)
    return term


def _process(sizes: Sizes, part: str) -> Term:
    """What the libraries hold: of the process that embeds, or of the one that searches."""
    known, index = sizes.known, sizes.plan.index
    if part == "embed":
        given = known.embed_process_bytes
        size = PROCESS_BYTES["embed"] if given is None else given
    elif sizes.online:
        given = known.search_process_bytes
        size = PROCESS_BYTES[index] + TORCH_BESIDE if given is None else given
    else:
        given = known.search_process_bytes
        size = PROCESS_BYTES[index] if given is None else given
    return _host(sampling.PROCESS, "libraries", process_bytes=size)


def _threads(sizes: Sizes) -> Term:
    """What a search leaves in its libraries."""
    given, plan = sizes.known.threads_bytes, sizes.plan
    size = plan.cores * THREAD_BYTES[plan.index] if given is None else given
    return _host(sampling.THREADS, "libraries", threads_bytes=size)


def _model(sizes: Sizes) -> Terms:
    found = sizes.embedder
    return () if found is None else (found.weights(), *found.process())


def _embedding(sizes: Sizes) -> Iterator[Held]:
    base = (_process(sizes, "embed"), *_model(sizes))
    offsets = _host(sampling.OFFSETS, "prompts", prompts=sizes.prompts)
    held = (_host(sampling.EMBEDDINGS, "embeddings", **sizes.vectors),) if sizes.online else ()
    if sizes.embedder is not None:
        yield Held(name="load", terms=base)
    forward = () if sizes.embedder is None else sizes.embedder.forward()
    tokens = _host(
        sampling.TOKENS, "prompts",
        chunk_prompts=sizes.rows["chunk_prompts"], prompts=sizes.prompts,
        prompt_tokens=sizes.plan.prompt_tokens,
    )  # fmt: skip
    chunk = _host(sampling.CHUNK, "embeddings", **sizes.rows)
    yield Held(name="embed", terms=(*base, offsets, tokens, *held, chunk, *forward))


def _searching(sizes: Sizes) -> Iterator[Held]:
    plan = sizes.plan
    kept: Terms = (_process(sizes, "search"),)
    whole = _host(sampling.EMBEDDINGS, "embeddings", **sizes.vectors)
    kept = (*kept, *_model(sizes), whole) if sizes.online else kept
    left = (*kept, _threads(sizes))
    if plan.index == "faiss-ivf":
        index = _index(sizes)
        yield from _lists(sizes, left, index)
        left = (*left, *index)  # freed, but lists are too small to be given back
    else:
        if plan.mode == "offline":
            kept = (*kept, whole)
            groups = _host(
                sampling.READ_GROUPS,
                "embeddings",
                last_prompts=last_chunk_of(plan),
                **sizes.vectors,
            )
            yield Held(name="read", terms=(*kept, groups))
        yield Held(name="search", terms=(*kept, _threads(sizes), *_exact(sizes)))
    weighing = _host(
        sampling.WEIGHING, "weights", prompts=sizes.prompts, weighing_bytes=WEIGHING_BYTES
    )
    yield Held(name="weigh", terms=(*left, weighing))


def _groups(sizes: Sizes) -> Term:
    return _host(
        sampling.GROUPS, "embeddings", value_bytes=BYTES[sizes.plan.dtype], **sizes.rows
    )


def _exact(sizes: Sizes) -> Iterator[Term]:
    """What one part of an exact search takes, beside embeddings that are held."""
    plan, part, width = sizes.plan, part_of(sizes.plan), width_of(sizes.plan)
    if plan.mode == "streaming":
        yield from _read_queries(sizes)
    elif plan.dtype == "fp16":
        yield _host(sampling.QUERIES, "search", copies=2, queries=part, dimensions=width)
    if plan.mode == "streaming" or plan.dtype == "fp16":
        yield _host(sampling.CHUNK, "search", **sizes.rows)
    if plan.index == "exact":
        yield _host(
            sampling.THREAD_BLOCKS, "search",
            dimensions=width, cores=plan.cores, queries=part, prompts=sizes.prompts,
        )  # fmt: skip
    else:
        searched = sizes.rows["chunk_prompts"]
        yield _host(sampling.DISTANCE_BLOCK, "search", queries=part, searched=searched)
    yield _found(plan, part, MERGED)


def _found(plan: SamplingPlan, queries: Num, neighbour_bytes: int) -> Term:
    near = {"neighbours": plan.neighbours, "neighbour_bytes": neighbour_bytes}
    return _host(sampling.FOUND, "search", queries=queries, **near)


def _before(plan: SamplingPlan) -> Num:
    """1 where a search has more parts than one, so that one's end is there when the next begins."""
    return minimum(1, (plan.prompts - 1) // part_of(plan))


def _read_queries(sizes: Sizes) -> Iterator[Term]:
    """Queries that are read from a chunk, those before beside them."""
    plan = sizes.plan
    yield _groups(sizes)
    yield _host(
        sampling.QUERIES, "search",
        copies=1 + _before(plan), queries=part_of(plan), dimensions=width_of(plan),
    )  # fmt: skip


def _index(sizes: Sizes) -> Terms:
    lists = lists_of(sizes.plan)
    return (
        _host(sampling.CENTRES, "index", lists=lists, dimensions=width_of(sizes.plan)),
        _host(sampling.LISTS, "index", lists=lists, **sizes.vectors),
    )


def _lists(sizes: Sizes, kept: Terms, index: Terms) -> Iterator[Held]:
    """Training, filling and searching an IVF index."""
    plan, part, width = sizes.plan, part_of(sizes.plan), width_of(sizes.plan)
    lists, stored = lists_of(plan), BYTES[plan.dtype]
    sample = {"training_prompts": training_of(plan), "dimensions": width}
    chunk = _host(sampling.CHUNK, "embeddings", **sizes.rows)
    block = _host(sampling.DISTANCE_BLOCK, "search", queries=4096, searched=lists)
    vectors = _host(sampling.SAMPLE, "index", **sample)
    reading = (
        vectors,
        _host(sampling.STORED_CHUNK, "embeddings", value_bytes=stored, **sizes.rows),
        _host(
            sampling.PICKED, "embeddings",
            training_prompts=training_of(plan), value_bytes=stored, **sizes.rows,
        ),
    )  # fmt: skip
    training = (vectors, _host(sampling.KMEANS, "index", lists=lists, **sample), block)
    yield Held(name="train", terms=(*kept, *_larger(reading, training)))
    yield Held(name="assign", terms=(*kept, *index, chunk, _groups(sizes)))
    queries = () if sizes.online and plan.dtype == "fp32" else tuple(_read_queries(sizes))
    own = (_host(sampling.QUERIES, "search", copies=1, queries=part, dimensions=width),)
    searching = (
        *(own if queries else ()),
        _host(sampling.DISTANCE_BLOCK, "search", queries=part, searched=lists),
        _host(sampling.PROBED, "search", queries=part, probes=probes_of(plan)),
        _found(plan, part, ANSWERED),
    )
    asked = (*queries, _found(plan, part * _before(plan), KEPT))
    yield Held(name="search", terms=(*kept, *index, *_larger(asked, searching)))


def _larger(one: Terms, other: Terms) -> Terms:
    """Of two moments, the one with more; over an array, that with more at its end."""
    sums = [np.max(total([term.bytes for term in terms])) for terms in (one, other)]
    return one if sums[0] >= sums[1] else other


def _document(sizes: Sizes) -> Iterator[Held]:
    """The document's code: prompts and model stay, and embeddings are copied twice."""
    plan, vectors = sizes.plan, sizes.vectors
    texts = _host(
        sampling.TEXTS, "prompts", prompts=sizes.prompts, prompt_tokens=plan.prompt_tokens
    )
    base = (_process(sizes, "search"), *_model(sizes), texts)
    embeddings = _host(sampling.EMBEDDINGS, "embeddings", **vectors)
    second = _host(
        sampling.SECOND_ARRAY, "embeddings",
        prompts=sizes.prompts, dimensions=vectors["dimensions"],
    )  # fmt: skip
    forward = () if sizes.embedder is None else sizes.embedder.forward()
    if sizes.embedder is not None:
        yield Held(name="load", terms=base)
    yield Held(name="embed", terms=(*base, *forward, embeddings))
    yield Held(name="concatenate", terms=(*base, embeddings, second))
    yield Held(name="normalise", terms=(*base, embeddings, second))
    blocks = _host(
        sampling.THREAD_BLOCKS, "search", prompts=sizes.prompts, queries=sizes.prompts,
        dimensions=vectors["dimensions"], cores=plan.cores,
    )  # fmt: skip
    found = _found(plan, sizes.prompts, MERGED)
    yield Held(name="search", terms=(*base, embeddings, blocks, found))
    weighing = _host(
        sampling.WEIGHING, "weights", prompts=sizes.prompts, weighing_bytes=WEIGHING_BYTES
    )
    yield Held(name="weigh", terms=(*base, embeddings, weighing))
