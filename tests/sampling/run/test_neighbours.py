"""Neighbours: a prompt is never its own, tiles merge to the whole, lists find what they probe."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from planner.sampling.run import ivf
from planner.sampling.run import vectors as vectors_module
from planner.sampling.run.neighbours import (
    blocks_of,
    by_faiss,
    by_sklearn,
    merged,
    nearest,
    search_of,
    tile,
    without_self,
)
from planner.sampling.run.vectors import F32, Chunks
from sampling.run import tiny

pytestmark = pytest.mark.filterwarnings("ignore:builtin type:DeprecationWarning")
EXACT = ("exact", "faiss-flat")
NEAR = 4


def by_hand(vectors: F32, neighbours: int) -> tuple[np.ndarray, np.ndarray]:
    """All distances in float64, the diagonal left out."""
    wide = vectors.astype(np.float64)
    distances = np.sqrt(((wide[:, None] - wide[None]) ** 2).sum(-1))
    np.fill_diagonal(distances, np.inf)
    places = np.argsort(distances, axis=1, kind="stable")[:, :neighbours]
    return np.take_along_axis(distances, places, 1), places


@pytest.mark.parametrize("index", EXACT)
def test_the_neighbours_are_those_of_every_pair(index: str) -> None:
    vectors = tiny.unit(300, 24)
    own = np.arange(300)
    found = without_self(nearest(search_of(index), vectors, blocks_of(vectors, 128), NEAR), own)
    distances, places = by_hand(vectors, NEAR)
    assert np.allclose(found[0], distances, atol=2e-6)
    assert (found[1] == places).mean() > 0.999


@pytest.mark.parametrize("index", EXACT)
def test_no_prompt_is_its_own_neighbour_among_duplicates(index: str) -> None:
    one, other = tiny.unit(2, 16)
    vectors = np.stack([one] * 9 + [other] * 3)
    own = np.arange(12)
    found = without_self(nearest(search_of(index), vectors, blocks_of(vectors, 5), NEAR), own)
    assert found[1].shape == (12, NEAR)
    assert not (found[1] == own[:, None]).any()
    assert np.allclose(found[0][:9], 0, atol=1e-3)  # nine alike have four at no distance
    apart = float(np.linalg.norm(one - other))
    assert np.allclose(np.sort(found[0][9:], axis=1)[:, 2:], apart, atol=1e-3)  # three have two


@pytest.mark.parametrize("index", EXACT)
def test_results_of_shards_merge_to_the_whole_to_the_last_bit(index: str) -> None:
    vectors = tiny.unit(1_000, 32)
    vectors[500:520] = vectors[:20]  # ties across shards
    queries, search = vectors[:256], search_of(index)
    whole = nearest(search, queries, blocks_of(vectors, 256), NEAR)
    tiles = [
        tile(search, queries, block, first, NEAR + 1) for first, block in blocks_of(vectors, 256)
    ]
    for order in ([3, 1, 0, 2], [2, 3, 0, 1]):
        left = merged(tiles[order[0]], tiles[order[1]], NEAR + 1)
        right = merged(tiles[order[2]], tiles[order[3]], NEAR + 1)
        found = merged(left, right, NEAR + 1)
        assert np.array_equal(found[0], whole[0]) and np.array_equal(found[1], whole[1])


def kept(folder: Path, vectors: F32, dtype: str = "fp32", rows: int = 300) -> Chunks:
    chunks = Chunks(folder, len(vectors), vectors.shape[1], dtype, rows)
    for chunk in range(chunks.count):
        chunks.write(chunk, vectors[slice(*chunks.span(chunk))])
    return chunks


@pytest.mark.parametrize("dtype", ["fp32", "fp16"])
def test_chunks_come_back_and_streaming_equals_holding(dtype: str, tmp_path: Path) -> None:
    vectors = tiny.unit(1_000, 32)
    chunks = kept(tmp_path, vectors, dtype)
    held = chunks.whole()
    assert held.dtype.itemsize == (2 if dtype == "fp16" else 4)
    assert np.allclose(held.astype(np.float32), vectors, atol=1e-3)
    places = np.array([0, 299, 300, 999])
    assert np.array_equal(chunks.rows_at(places), held[places].astype(np.float32))
    queries = chunks.rows_at(np.arange(200))
    streamed = nearest(by_sklearn, queries, chunks.blocks(), NEAR)
    whole = nearest(by_sklearn, queries, blocks_of(held, 300), NEAR)
    assert all(np.array_equal(one, other) for one, other in zip(streamed, whole, strict=True))


@pytest.mark.parametrize("dtype", ["fp32", "fp16"])
@pytest.mark.parametrize(
    "span", [(0, 300), (299, 300), (340, 361), (601, 850), (980, 1_000)], ids=str
)
def test_rows_are_read_from_the_row_groups_that_have_them(
    dtype: str, span: tuple[int, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vectors_module, "GROUP_BYTES", 40 * 32 * 4)
    chunks = kept(tmp_path, tiny.unit(1_000, 32), dtype)
    expected = chunks.whole()[slice(*span)].astype(np.float32)
    assert np.array_equal(chunks.rows_of(*span), expected)


def test_a_chunk_of_another_run_is_refused(tmp_path: Path) -> None:
    chunks = kept(tmp_path, tiny.unit(10, 8), rows=5)
    chunks.file(0).replace(chunks.file(1))
    chunks.write(0, tiny.unit(5, 8))
    with pytest.raises(ValueError, match="not of this run"):
        chunks.whole()


def test_half_a_chunk_is_no_chunk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import pyarrow.parquet as pq

    chunks = Chunks(tmp_path, 10, 8, "fp32", 5)

    def half(table: object, path: Path, **more: object) -> None:
        path.write_bytes(b"PAR1")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pq, "write_table", half)
    with pytest.raises(OSError, match="No space"):
        chunks.write(0, tiny.unit(5, 8))
    assert chunks.missing() == [0, 1] and list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("dtype", ["fp32", "fp16"])
def test_an_index_that_probes_every_list_finds_what_is_exact(dtype: str, tmp_path: Path) -> None:
    vectors = tiny.unit(1_000, 16)
    chunks = kept(tmp_path, vectors, dtype)
    said: list[tuple[str, int, int]] = []
    centres = ivf.centroids(chunks, 8, 500, tmp_path, lambda *done: said.append(done))
    index = ivf.Index(chunks, centres, 8, tmp_path, lambda *done: said.append(done))
    own = np.arange(1_000)
    queries = chunks.rows_at(own)
    found = without_self(index.nearest(queries, NEAR), own)
    exact = without_self(nearest(by_faiss, queries, chunks.blocks(), NEAR), own)
    assert np.allclose(found[0], exact[0], atol=1e-3)
    assert ivf.recall(found[1], exact[1]) > 0.99
    assert said == [("train", 1, 1), *(("assign", chunk, 4) for chunk in range(4))]
    few = ivf.Index(chunks, ivf.centroids(chunks, 8, 500, tmp_path, lambda *_: said.clear()), 1,
                    tmp_path, lambda *_: said.clear())
    assert said  # neither trained nor assigned again
    some = without_self(few.nearest(queries, NEAR), own)
    assert 0.1 < ivf.recall(some[1], exact[1]) < 0.99


def test_recall_is_the_share_of_exact_neighbours_that_were_found() -> None:
    assert ivf.recall(np.array([[1, 2], [3, 4]]), np.array([[2, 9], [4, 3]])) == 0.75
