"""Document 003: sums by hand, shapes from the catalog, what libraries do by running them."""

from __future__ import annotations

import tracemalloc

import faiss
import numpy as np
import pytest
from sklearn.neighbors import NearestNeighbors

from planner import catalog
from planner.examples import doc_003, doc_003_answers
from planner.formulas.parameters import parameter_count

ROWS = (
    *(*doc_003.BREAKDOWN, *doc_003.TIMELINE, *doc_003.SCALING),
    *(*doc_003_answers.SAFE, *doc_003_answers.CONFIDENCE),
)
CLAIMS = {one.what: one for one in ROWS}


def test_ours_of_document_003() -> None:
    """Every figure that a sum gives, in its claim's unit; none may be left out."""
    search = 2 * 28_000 * 28_000 * 50_304 / 36e9
    rows = 28_000 * 50_304 * 4
    weights = (2 * 50_304 * 768 + 12 * (4 + 8) * 768 * 768) * 4
    logits = 8 * 512 * 50_304 * 4
    expected = {
        "Embeddings, in bytes": 5_634_048_000,
        "Embeddings storage": rows / 1e9,
        "A batch of 8 on the GPU": 824.180736,
        "Batches": 3_500,
        "k-NN index storage": 4.928e-3,
        "Distances array": 2.464,
        "Indices array": 2.464,
        "Distances and indices": 4.928,
        "Duration of kneighbors": search,
        "Density weights": 0.112,
        "Density weights (final)": 0.000112,
        "Model weights (12 layers, 768 hidden)": weights / 1e9,
        "Optimizer state (if using Adam)": 2 * weights / 1e9,
        "Forward buffers": logits / 1e9,
        "GPU in all": (weights + logits) / 1e9,
        "Load prompts from disk": 28_000 * 512 * 4 / 1e6,
        "Embeddings added at t=5s": 2 * (weights / 4 - 50_304 * 768) * 28_000 * 512 / 165.2e12,
        "Peak RAM needed": 2 * rows / 1e9,
        "Setup time": search,
        "Fits in a 24 GB GPU": (weights + logits) / 1e9,
        "28,000 prompts: embeddings": rows / 2**30,
        "28,000 prompts: in all": 2 * rows / 2**30,
        "280,000 prompts: embeddings": 10 * rows / 2**30,
        "280,000 prompts: in all": 20 * rows / 2**30,
        "2.8M prompts: embeddings": 100 * rows / 2**30,
        "2.8M prompts: in all": 200 * rows / 2**30,
        "28M prompts: embeddings": 1000 * rows / 1e12,
        "28M prompts: in all": 2000 * rows / 2**30,
        "Where online ends": 24e9 / (8 * 50_304),
        "Embeddings on disk, compressed": rows / 2 / 1e9,
        "Offline: k-NN computed at t=1s": search,
        "Offline at 280,000: embeddings.npy": 10 * rows / 1e9,
        "Offline at 280,000: loaded": 10 * rows / 1e9,
        "Line 105: np.concatenate": 2 * rows / 1e9,
        "Will it fit in RAM?": 2 * rows / 1e9,
        "Need offline precomputation?": 24e9 / (8 * 50_304),
        "If we had millions?": 100 * rows / 1e9,
        "Can we run this on 24GB GPU?": (weights + logits) / 1e9,
        "Recommended approach?": 28_000 * 1_280 * 4 / 1e9,
    }
    held = {what: one.true for what, one in CLAIMS.items() if doc_003.COUNTED in one.tested}
    assert held == {what: pytest.approx(value, rel=1e-9) for what, value in expected.items()}


def test_verdicts_are_the_audits() -> None:
    def of(word: str) -> set[str]:
        return {what for what, one in CLAIMS.items() if one.judgement == word}

    assert of("agrees") == {
        "Embeddings, in bytes", "Batches", "Distances array", "Indices array",
        "Distances and indices", "Density weights", "Density weights (final)", "GPU in all",
        *(f"{n} prompts: embeddings" for n in ("28,000", "280,000", "2.8M")),
        *(f"{n} prompts: in all" for n in ("28,000", "280,000", "2.8M", "28M")),
        "Line 71: batches of 8", "Need offline precomputation?", "Can we run this on 24GB GPU?",
    }
    assert {"Peak RAM needed", "Duration of kneighbors"} < of("no derivation")
    assert len(CLAIMS) == len(ROWS), "two claims of one name"


def test_the_models_shapes_are_the_catalogs() -> None:
    """Dimensions of an embedding; Model weights (12 layers, 768 hidden); Recommended approach?;
    Embeddings added at t=5s."""
    trained = catalog.model("karpathy/nanochat-d20").architecture
    assert trained is not None
    assert (trained.vocab, trained.hidden) == (doc_003.TRUE_DIMENSIONS, doc_003.TRUE_HIDDEN)
    assert parameter_count(trained) == 560_988_160
    peak = catalog.gpu("rtx-4090").flops_per_second("bf16")
    assert peak == pytest.approx(doc_003.PEAK_4090)
    assert CLAIMS["Dimensions of an embedding"].true == trained.vocab


def _peak(work: object, kept: int) -> float:
    """Most bytes alive while ``work`` runs, over what it is about; those it is given included."""
    tracemalloc.reset_peak()
    work()  # type: ignore[operator]
    return tracemalloc.get_traced_memory()[1] / kept


def test_concatenating_and_normalising_hold_two() -> None:
    """Peak RAM needed; When the peak is; Line 105: np.concatenate; Will it fit in RAM?; Where
    online ends; 28,000 prompts: in all; 280,000 prompts: in all; 2.8M prompts: in all;
    28M prompts: in all."""
    tracemalloc.start()
    try:
        batches = [np.ones((8, 5_030), np.float32) for _ in range(200)]
        kept = sum(batch.nbytes for batch in batches)
        assert _peak(lambda: np.concatenate(batches, axis=0), kept) == pytest.approx(2, abs=0.02)
        whole = np.concatenate(batches, axis=0)
        batches.clear()
        normalised = _peak(
            lambda: whole / (np.linalg.norm(whole, axis=1, keepdims=True) + 1e-8), kept
        )
        assert normalised == pytest.approx(2, abs=0.02)
    finally:
        tracemalloc.stop()


@pytest.fixture(scope="module")
def clustered() -> np.ndarray:
    """900 prompts in one dense cluster, 100 far from each other, unit length."""
    rng = np.random.default_rng(0)
    dense = rng.normal(size=(1, 64)) + 0.1 * rng.normal(size=(900, 64))
    vectors = np.concatenate((dense, rng.normal(size=(100, 64)))).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def test_neighbours_come_as_64_bit_numbers(clustered: np.ndarray) -> None:
    """k-NN index storage; Distances array; Indices array; Distances and indices."""
    distances, indices = NearestNeighbors(n_neighbors=11).fit(clustered).kneighbors(clustered)
    assert (distances.dtype, indices.dtype) == (np.float64, np.int64)


def test_one_over_distance_favours_the_common(clustered: np.ndarray) -> None:
    """Is the current code safe?; Is current code safe?"""
    distances, _ = NearestNeighbors(n_neighbors=11).fit(clustered).kneighbors(clustered)
    sparsity = np.maximum(distances[:, 1:].mean(axis=1), 1e-6)
    for weights, favours_common in ((1 / sparsity, True), (sparsity, False)):
        share = weights[:900].sum() / weights.sum()
        assert (share > 0.9) == favours_common


def test_brute_force_costs_two_operations_a_value() -> None:
    """Duration of kneighbors; Setup time; Offline: k-NN computed at t=1s."""
    seconds = CLAIMS["Duration of kneighbors"].true
    assert seconds is not None
    assert seconds * 36e9 == pytest.approx(78.9e12, rel=1e-3)
    assert seconds / 60 == pytest.approx(37, abs=0.6)
    auto = NearestNeighbors(n_neighbors=11).fit(np.eye(64, dtype=np.float32))
    assert auto._fit_method == "brute"


def test_a_flat_index_copies_every_vector(clustered: np.ndarray) -> None:
    """IndexFlatL2 at 280,000; If we had millions?"""
    index = faiss.IndexFlatL2(clustered.shape[1])
    index.add(clustered)
    assert index.codes.size() == clustered.nbytes


def test_a_prompt_is_its_own_nearest_neighbour(clustered: np.ndarray) -> None:
    """Neighbours of index.search(embeddings, k=10)"""
    index = faiss.IndexFlatL2(clustered.shape[1])
    index.add(clustered)
    _, found = index.search(clustered, 10)
    assert (found[:, 0] == np.arange(len(clustered))).all()
