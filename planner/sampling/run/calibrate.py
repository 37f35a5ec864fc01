"""A few seconds of searching random vectors of the run's own width: what its stages will take.

Rates are seconds a product, that is seconds a pair of vectors and dimension, or a byte; the core's
formulas do the rest. Lists as full as the run's are scanned, and more of them than a cache holds.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from planner.sampling.run.ivf import inverted, room_for
from planner.sampling.run.job import Job
from planner.sampling.run.neighbours import search_of, tile
from planner.sampling.run.vectors import F32, Chunks
from planner.values.dtypes import BYTES

RANDOM_BYTES = 192 * 2**20
"""Most that the random vectors take."""
SCANNED_BYTES = 512 * 2**20
"""Most that the lists hold which are scanned: far more than a cache, as a run's own are, and never
more than those."""
REPEAT_SECONDS = 0.25
"""A repeat that takes so long is long enough to say what the next takes."""


@dataclass
class Repeated:
    """Work on so many rows of ``rows``; a row is ``each`` products or bytes."""

    does: Callable[[int], object]
    rows: int
    each: float
    size: int = 64
    rates: list[float] = field(default_factory=list)

    def once(self) -> float:
        """Seconds a product or byte of one repeat."""
        began = time.perf_counter()
        self.does(self.size)
        return (time.perf_counter() - began) / (self.size * self.each)

    def grow(self) -> None:
        """Find how many rows take long enough; libraries load and threads begin meanwhile."""
        self.size = min(self.size, self.rows)
        self.does(self.size)
        while self.size < self.rows and self.once() * self.size * self.each < REPEAT_SECONDS:
            self.size = min(self.rows, self.size * 4)


def search_rates(job: Job, seconds: float) -> dict[str, float]:
    """Seconds a product of the stages that search, and seconds a byte of those that read."""
    width = job.setup.width
    rows = max(512, min(job.chunks.rows, RANDOM_BYTES // (4 * width)))
    vectors = _unit(rows, width)
    place = job.folder / "calibration"
    place.mkdir(exist_ok=True)
    try:
        works = {"read_seconds": _reading(place, vectors, job.chunks)}
        if job.request.index != "faiss-ivf":
            count = job.request.neighbours + 1
            search = search_of(job.request.index)
            works["pair_seconds"] = Repeated(
                lambda size: tile(search, vectors[:size], vectors, 0, count),
                min(job.query_rows, rows), float(rows * width),
            )  # fmt: skip
            return medians(works, seconds)
        return _ivf(job, vectors, works, seconds)
    finally:
        shutil.rmtree(place, ignore_errors=True)


def medians(works: dict[str, Repeated], seconds: float) -> dict[str, float]:
    """The median rate of each work.

    They take turns: what disturbs the machine for a second disturbs a repeat of each, not all of
    one.
    """
    began = time.perf_counter()
    for work in works.values():
        work.grow()
    while True:
        for work in works.values():
            work.rates.append(work.once())
        if time.perf_counter() - began > seconds:
            return {name: float(np.median(work.rates)) for name, work in works.items()}


def _reading(place: Any, vectors: F32, like: Chunks) -> Repeated:
    """Reading a chunk of the run's dtype; the system's cache has it, as it has fresh embeddings."""
    chunk = Chunks(place, len(vectors), like.width, like.dtype, len(vectors))
    chunk.write(0, vectors)
    into = np.empty_like(vectors)
    stored = like.width * BYTES[like.dtype]
    return Repeated(
        lambda size: chunk.read_into(0, into), len(vectors), float(stored), size=len(vectors)
    )


def _ivf(
    job: Job, vectors: F32, works: dict[str, Repeated], seconds: float
) -> dict[str, float]:
    import faiss

    width, each = vectors.shape[1], max(1, -(-job.setup.prompts // job.lists))
    scanned = min(job.setup.prompts, max(len(vectors), SCANNED_BYTES // (4 * width)))
    lists = max(1, min(job.lists, len(vectors), scanned // each))
    # A search of few centres is slower a product: as many as the run's are searched.
    every = faiss.IndexFlatL2(width)
    every.add(vectors[: min(job.lists, len(vectors))])
    works["pair_seconds"] = Repeated(
        lambda size: every.search(vectors[:size], 1), len(vectors), float(every.ntotal * width)
    )
    centres = faiss.IndexFlatL2(width)
    centres.add(vectors[:: max(1, len(vectors) // lists)][:lists].copy())
    works["few"] = Repeated(
        lambda size: centres.search(vectors[:size], 1), len(vectors), float(lists * width)
    )

    def filled(rows: int) -> Any:
        """Lists of so many vectors, the random ones again and again."""
        index = inverted(centres, job.request.dtype)
        own, ids = np.arange(rows, dtype=np.int64) % lists, np.arange(rows)
        room_for(index, np.bincount(own, minlength=lists))
        for first in range(0, rows, len(vectors)):
            beyond = min(rows, first + len(vectors))
            index.add_core(
                beyond - first, faiss.swig_ptr(vectors),
                faiss.swig_ptr(ids[first:]), faiss.swig_ptr(own[first:]),
            )  # fmt: skip
        return index

    stored = width * BYTES[job.request.dtype]
    began = time.perf_counter()
    index = filled(lists * each)
    # Once: filled again, it would have memory that is no longer new.
    adding = (time.perf_counter() - began) / (lists * each * stored)
    index.nprobe = min(job.probes, lists)
    visited, count = index.nprobe * each, job.request.neighbours + 1
    works["both"] = Repeated(
        lambda size: index.search(vectors[:size], count), len(vectors), float(visited * width)
    )
    rates = medians(works, seconds)
    few, both = rates.pop("few"), rates.pop("both")
    # A search of the index is one of its centres and a scan of the lists.
    scan = max(both - few * lists / visited, 0.1 * both)
    return {**rates, "add_seconds": adding, "scan_seconds": scan}


def _unit(rows: int, width: int) -> F32:
    found = np.random.default_rng(0).standard_normal((rows, width), dtype=np.float32)
    found /= np.linalg.norm(found, axis=1, keepdims=True)
    return found
