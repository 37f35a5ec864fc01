"""An inverted-file index of FAISS, built chunk by chunk and searched with so many probes.

Its lists' lengths are counted before anything is added and their room is asked for once: a vector
that grows by doubling would hold up to three times its bytes while it moves. Centroids and the
list of each prompt are kept on disk, so a run that goes on computes neither again; adding copies.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from planner.sampling.run.neighbours import I64, Near
from planner.sampling.run.vectors import F32, Chunks

SEED = 1234
"""Of the sample that trains the lists."""

Done = Callable[[str, int, int], None]
"""Told what was computed: a stage's name, a number, of how many."""


def centroids(chunks: Chunks, lists: int, sample: int, folder: Path, done: Done) -> F32:
    """Centres of the lists, shape [lists, width]; trained once, by FAISS's k-means."""
    import faiss

    file = folder / "centroids.npy"
    if not file.exists():
        places = np.random.default_rng(SEED).choice(chunks.prompts, sample, replace=False)
        vectors = chunks.rows_at(np.sort(places).astype(np.int64))
        means = faiss.Clustering(chunks.width, lists)
        means.niter, means.seed = 10, SEED
        means.max_points_per_centroid = -(-sample // lists)
        means.train(vectors, faiss.IndexFlatL2(chunks.width))
        found = faiss.vector_to_array(means.centroids).reshape(lists, chunks.width)
        save(file, found)
        done("train", 1, 1)
    return np.load(file)  # type: ignore[no-any-return]


def assigned(chunks: Chunks, quantizer: Any, folder: Path, done: Done) -> None:
    """Keep the list of every prompt, a file a chunk."""
    missing = [chunk for chunk in range(chunks.count) if not _lists(folder, chunk).exists()]
    if not missing:
        return
    buffer = np.empty((min(chunks.rows, chunks.prompts), chunks.width), np.float32)
    for chunk in missing:
        first, beyond = chunks.span(chunk)
        chunks.read_into(chunk, buffer[: beyond - first])
        _, found = quantizer.search(buffer[: beyond - first], 1)
        save(_lists(folder, chunk), found[:, 0].astype(np.int32))
        done("assign", chunk, chunks.count)


def _lists(folder: Path, chunk: int) -> Path:
    return folder / f"lists-{chunk:06d}.npy"


def save(file: Path, values: npt.NDArray[Any]) -> None:
    """Write an array whole or not at all."""
    fresh = file.with_name(f".{file.name}.{os.getpid()}.part")
    try:
        with open(fresh, "wb") as out:
            np.save(out, values)
        os.replace(fresh, file)
    finally:
        fresh.unlink(missing_ok=True)


def inverted(quantizer: Any, dtype: str) -> Any:
    """Empty lists of vectors of this dtype around trained centres, which have to outlive them."""
    import faiss

    width, lists = quantizer.d, quantizer.ntotal
    index: Any = faiss.IndexIVFFlat(quantizer, width, lists)
    if dtype == "fp16":
        index = faiss.IndexIVFScalarQuantizer(
            quantizer, width, lists, faiss.ScalarQuantizer.QT_fp16, faiss.METRIC_L2, False
        )
    # The centres are trained already, and half precision has nothing to learn.
    index.is_trained = True
    return index


def room_for(index: Any, counts: I64) -> None:
    """Ask for the memory of lists of these lengths, shape [lists], before they are filled."""
    import faiss

    room = faiss.downcast_InvertedLists(index.invlists)
    for number, count in enumerate(counts.tolist()):
        room.resize(number, count)
        room.resize(number, 0)  # a vector keeps its room


class Index:
    """The lists with all vectors in them, in the chunks' own dtype."""

    def __init__(self, chunks: Chunks, centres: F32, probes: int, folder: Path, done: Done) -> None:
        import faiss

        self.probes = probes
        quantizer = faiss.IndexFlatL2(chunks.width)
        quantizer.add(centres)
        assigned(chunks, quantizer, folder, done)
        self._index = inverted(quantizer, chunks.dtype)
        self._quantizer = quantizer  # the index does not own it
        self._index.nprobe = probes
        self._fill(chunks, folder)

    def _fill(self, chunks: Chunks, folder: Path) -> None:
        import faiss

        counts = np.zeros(self._index.nlist, np.int64)
        for chunk in range(chunks.count):
            counts += np.bincount(np.load(_lists(folder, chunk)), minlength=len(counts))
        room_for(self._index, counts)
        for chunk, (first, vectors) in enumerate(chunks.blocks()):
            own = np.load(_lists(folder, chunk)).astype(np.int64)
            places = np.arange(first, first + len(vectors))
            self._index.add_core(
                len(vectors), faiss.swig_ptr(vectors), faiss.swig_ptr(places), faiss.swig_ptr(own)
            )

    def nearest(self, queries: F32, neighbours: int) -> Near:
        """The nearest ``neighbours`` + 1 in the probed lists, the queries themselves among them.

        Where these hold fewer, the distance is infinite and the place is -1.
        """
        squared, places = self._index.search(queries, neighbours + 1)
        distances = np.sqrt(np.maximum(squared, 0).astype(np.float64))
        distances[places < 0] = np.inf
        return distances, places.astype(np.int64, copy=False)


def recall(found: I64, exact: I64) -> float:
    """The share of the exact neighbours that were found, over all sampled prompts."""
    hits = sum(len(np.intersect1d(one, other)) for one, other in zip(found, exact, strict=True))
    return hits / exact.size
