"""Exact nearest neighbours, tile by tile: a block of queries against a chunk of all vectors.

A tile is the unit wherever it is computed: one process that holds everything, one that reads
chunk after chunk, or many machines. Their results are merged by distance and then by place, so
all of them are equal to the last bit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from planner.sampling.run.vectors import F32

F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]
Near = tuple[F64, I64]
"""Distances and places, shape [queries, neighbours], nearest first."""
Search = Callable[[F32, F32, int], Near]
"""Queries [q, width], vectors [n, width], how many: distances and rows of the vectors."""


def by_sklearn(queries: F32, vectors: F32, count: int) -> Near:
    """scikit-learn's brute force: float32 in, distances from float64 products."""
    from sklearn.neighbors import NearestNeighbors

    search = NearestNeighbors(n_neighbors=count, algorithm="brute").fit(vectors)
    distances, rows = search.kneighbors(queries)
    return distances.astype(np.float64, copy=False), rows.astype(np.int64, copy=False)


def by_faiss(queries: F32, vectors: F32, count: int) -> Near:
    """FAISS's flat search, without the copy that an index would hold; products in float32."""
    import faiss

    squared, rows = faiss.knn(queries, vectors, count)
    return np.sqrt(np.maximum(squared, 0).astype(np.float64)), rows.astype(np.int64, copy=False)


def search_of(index: str) -> Search:
    """The exact search of this name."""
    return {"exact": by_sklearn, "faiss-flat": by_faiss}[index]


def merged(one: Near | None, other: Near, count: int) -> Near:
    """The nearest of two results for the same queries; equal distances by the lower place."""
    if one is None:
        distances, places = other
    else:
        distances = np.concatenate((one[0], other[0]), axis=1)
        places = np.concatenate((one[1], other[1]), axis=1)
    order = np.lexsort((places, distances), axis=1)[:, :count]
    rows = np.arange(len(order))[:, None]
    return distances[rows, order], places[rows, order]


def tile(search: Search, queries: F32, vectors: F32, first: int, count: int) -> Near:
    """The nearest of one chunk, whose vectors are the places from ``first`` on."""
    distances, rows = search(queries, vectors, min(count, len(vectors)))
    return distances, rows + first


def nearest(
    search: Search, queries: F32, blocks: Iterable[tuple[int, F32]], neighbours: int
) -> Near:
    """The nearest ``neighbours`` + 1 of all blocks, the queries themselves among them."""
    found: Near | None = None
    for first, vectors in blocks:
        found = merged(found, tile(search, queries, vectors, first, neighbours + 1), neighbours + 1)
    assert found is not None
    return found


def without_self(found: Near, own: I64) -> Near:
    """Each query's neighbours without itself.

    One that is not among its own nearest has as many others at no distance: the last is dropped.

    Args:
        found: one neighbour more than wanted.
        own: each query's place.
    """
    distances, places = found
    drop = places == own[:, None]
    drop[~drop.any(axis=1), -1] = True
    shape = (len(own), places.shape[1] - 1)
    return distances[~drop].reshape(shape), places[~drop].reshape(shape)


def blocks_of(vectors: npt.NDArray[Any], rows: int) -> Iterable[tuple[int, F32]]:
    """The chunks of an array that is held whole, as float32: views, or casts one at a time."""
    for first in range(0, len(vectors), rows):
        yield first, vectors[first : first + rows].astype(np.float32, copy=False)
