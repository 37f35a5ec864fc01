"""A few seconds of searching random vectors of the run's own width: what its stages will take.

Rates are seconds a product, that is seconds a pair of vectors and dimension; the core's formulas
do the rest. Lists as full as the run's are scanned, and more of them than a cache holds.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from planner.sampling.run.job import Job
from planner.sampling.run.neighbours import search_of, tile
from planner.sampling.run.vectors import F32

BYTES = 192 * 2**20
"""Most that the random vectors take."""


def search_rates(job: Job, seconds: float) -> dict[str, float]:
    """Seconds a product of the stages that search."""
    width = job.setup.width
    rows = max(512, min(job.chunks.rows, BYTES // (4 * width)))
    vectors = _unit(rows, width)
    if job.request.index != "faiss-ivf":
        count = job.request.neighbours + 1
        search = search_of(job.request.index)
        queries = vectors[: min(job.query_rows, rows)]
        pair = _rate(lambda q: tile(search, q, vectors, 0, count), queries, rows, seconds)
        return {"pair_seconds": pair}
    return _ivf(job, vectors, seconds)


def _ivf(job: Job, vectors: F32, seconds: float) -> dict[str, float]:
    import faiss

    width, each = vectors.shape[1], max(1, -(-job.setup.prompts // job.lists))
    lists = max(1, min(job.lists, len(vectors) // each))
    # A search of few centres is slower a product: as many as the run's are searched.
    every = faiss.IndexFlatL2(width)
    every.add(vectors[: min(job.lists, len(vectors))])
    pair = _rate(lambda q: every.search(q, 1), vectors, every.ntotal, seconds / 3)
    centres = faiss.IndexFlatL2(width)
    centres.add(vectors[:: max(1, len(vectors) // lists)][:lists].copy())
    few = _rate(lambda q: centres.search(q, 1), vectors, lists, seconds / 6)
    index: Any = faiss.IndexIVFFlat(centres, width, lists)
    if job.request.dtype == "fp16":
        index = faiss.IndexIVFScalarQuantizer(
            centres, width, lists, faiss.ScalarQuantizer.QT_fp16, faiss.METRIC_L2, False
        )
    index.is_trained = True
    places = np.arange(lists * each, dtype=np.int64) % lists
    held = vectors[np.arange(lists * each) % len(vectors)]
    index.add_core(
        len(held), faiss.swig_ptr(held), faiss.swig_ptr(np.arange(len(held))),
        faiss.swig_ptr(places),
    )
    index.nprobe = min(job.probes, lists)
    count = job.request.neighbours + 1
    both = _rate(lambda q: index.search(q, count), vectors, index.nprobe * each, seconds / 2)
    scan = both - few * lists / (index.nprobe * each)
    return {"pair_seconds": pair, "scan_seconds": max(scan, 0.1 * both)}


def _rate(search: Callable[[F32], object], queries: F32, scanned: int, seconds: float) -> float:
    """Seconds a product: the median of repeats, which grow until one takes a quarter second."""
    size = min(64, len(queries))
    search(queries[:size])  # libraries are loaded and threads are begun with the first
    began = time.perf_counter()
    rates: list[float] = []
    while True:
        start = time.perf_counter()
        search(queries[:size])
        spent = time.perf_counter() - start
        if spent < 0.25 and size < len(queries):
            size = min(len(queries), size * 4)
        else:
            rates.append(spent / (size * scanned * queries.shape[1]))
        late = time.perf_counter() - began > seconds
        if late and rates:
            return float(np.median(rates))
        if late:
            return float(spent / (size * scanned * queries.shape[1]))


def _unit(rows: int, width: int) -> F32:
    found = np.random.default_rng(0).standard_normal((rows, width), dtype=np.float32)
    found /= np.linalg.norm(found, axis=1, keepdims=True)
    return found
