"""Document 003, "Memory Requirements Analysis: Density-Aware Sampling", recomputed.

The code it describes was read in tablekat/nanochat-rlhf-density-sampling at 06b4281,
``scripts/kat_train_grpo.py``: pooled logits of every prompt, concatenated, normalised, searched by
scikit-learn. Every "GB" of its memory is 2**30 bytes, and host RAM and GPU memory are one figure.
"""

from __future__ import annotations

from planner.examples.claim import Claim, Working, held_by

TITLE = "What does density-weighted sampling of prompts cost?"

PROMPTS, DIMENSIONS = 28_000, 50_304
GIB = 2**30
SIZES = {"prompts": PROMPTS, "dimensions": DIMENSIONS}
EMBEDDINGS = "prompts * dimensions * 4"
COPIED = f"2 * {EMBEDDINGS}"
"""Concatenating the batches, and then dividing by their norms, each make a second array."""
SHAPE = {"layers": 12, "hidden": 768, "vocab": DIMENSIONS}
PARAMETERS = "(2 * vocab * hidden + 12 * layers * hidden**2)"
"""nanochat's GPT: an embedding and a head of their own, no biases, 12 squares a layer."""
TRUE_DIMENSIONS = 65_536
"""Vocabulary of the model that was trained (nanochat d20: the catalog's row; a test compares)."""
TRUE_HIDDEN = 1280
BATCH = {"rows": 8, "tokens": 512, "dimensions": DIMENSIONS}
LOGITS = "rows * tokens * dimensions * 4"
FOUND = "prompts * 11 * (8 + 8)"
SEARCH = "2 * prompts**2 * dimensions"
FLOPS_PER_SECOND = 36e9
"""Matrix products of two cores, measured; a large server does 0.5 to 1 TFLOP/s."""
PEAK_4090 = 165.2e12
"""Dense bf16 peak of a card with 24 GB (RTX 4090: the catalog's row; a test compares)."""

COUNTED = "tests/examples/test_density_document.py::test_ours_of_document_003"
SHAPES = "tests/examples/test_density_document.py::test_the_models_shapes_are_the_catalogs"
TWICE = "tests/examples/test_density_document.py::test_concatenating_and_normalising_hold_two"
TYPES = "tests/examples/test_density_document.py::test_neighbours_come_as_64_bit_numbers"
DIRECTION = "tests/examples/test_density_document.py::test_one_over_distance_favours_the_common"
SEARCHED = "tests/examples/test_density_document.py::test_brute_force_costs_two_operations_a_value"
FLAT = "tests/examples/test_density_document.py::test_a_flat_index_copies_every_vector"
ITSELF = "tests/examples/test_density_document.py::test_a_prompt_is_its_own_nearest_neighbour"
READ = "read: tablekat/nanochat-rlhf-density-sampling@06b4281, scripts/kat_train_grpo.py"
BINARY = "The document writes GB but means GiB: 2**30 bytes, not 10**9."


def sized(expression: str, prompts: float = PROMPTS, **more: float) -> Working:
    """A sum over so many prompts of the document's dimensions."""
    return Working(expression, {"prompts": prompts, "dimensions": DIMENSIONS, **more})


BREAKDOWN: tuple[Claim, ...] = held_by((COUNTED,), (
    Claim(
        "Embeddings, in bytes", "28,000 × 50,304 × 4 = 5,634,048,000", 5_634_048_000, "bytes",
        working=sized(EMBEDDINGS),
        truth=sized(EMBEDDINGS),
        why="Each prompt has one fp32 number for each entry of the vocabulary.",
    ),
    Claim(
        "Embeddings storage", "5.25 GB", 5.25, "GB",
        working=sized(EMBEDDINGS),
        truth=sized(EMBEDDINGS),
        why=BINARY,
    ),
    Claim(
        "Dimensions of an embedding", "50,304", DIMENSIONS, "",
        truth=Working(str(TRUE_DIMENSIONS)),
        judged="does not follow",
        tested=(SHAPES,),
        why="50,304 is the configuration class's default. The model that was trained has a "
        "vocabulary of 65,536 (7.34 GB of mean logits for all prompts) and hidden states of 1,280 "
        "values (0.14 GB).",
    ),
    Claim(
        "A batch of 8 on the GPU", "32 MB in VRAM", 32, "MB",
        working=Working(LOGITS, BATCH),
        truth=Working(LOGITS, BATCH),
        why="The logits have shape [8, 512, 50,304] in fp32; bf16 takes half as much. 32 MB would "
        "be the logits of prompts of 20 tokens.",
    ),
    Claim(
        "Batches", "3500", 3500, "",
        working=Working("prompts / rows", {"prompts": PROMPTS, "rows": 8}),
        truth=Working("prompts / rows", {"prompts": PROMPTS, "rows": 8}),
        why="28,000 prompts, eight at a time.",
    ),
    Claim(
        "k-NN index storage", "0.03 GB", 0.03, "GB",
        working=Working("prompts * 11 * 8 + prompts * 11 * 4", SIZES),
        truth=Working(FOUND, SIZES),
        tested=(COUNTED, TYPES),
        why="The document's own sum below is 3.7 MB, not 0.03 GB.",
    ),
    Claim(
        "Distances array", "28,000 × 11 × 8 bytes (float64) = 2.46 MB", 2.46, "MB",
        working=Working("prompts * 11 * 8", SIZES),
        truth=Working("prompts * 11 * 8", SIZES),
        tested=(COUNTED, TYPES),
        why="scikit-learn returns float64 distances for fp32 embeddings too.",
    ),
    Claim(
        "Indices array", "28,000 × 11 × 4 bytes (int32) = 1.23 MB", 1.23, "MB",
        working=Working("prompts * 11 * 4", SIZES),
        truth=Working("prompts * 11 * 8", SIZES),
        tested=(COUNTED, TYPES),
        why="The indices are int64.",
    ),
    Claim(
        "Distances and indices", "≈ 3.7 MB", 3.7, "MB",
        working=Working("prompts * 11 * 8 + prompts * 11 * 4", SIZES),
        truth=Working(FOUND, SIZES),
        tested=(COUNTED, TYPES),
        why="A distance and an index take eight bytes each.",
    ),
    Claim(
        "Duration of kneighbors", "~1-2 seconds", 2, "s",
        truth=sized(f"{SEARCH} / flops_per_second", flops_per_second=FLOPS_PER_SECOND),
        tested=(COUNTED, SEARCHED),
        why="Brute force takes 78.9 TFLOP: 37 minutes at the 36 GFLOP/s measured on two cores, or "
        "one to three minutes on a large server.",
    ),
    Claim(
        "Density weights", "28,000 × 4 = 112 KB", 0.112, "MB",
        working=Working("prompts * 4", SIZES),
        truth=Working("prompts * 4", SIZES),
        why="Each prompt has one fp32 weight.",
    ),
    Claim(
        "Density weights (final)", "0.0001 GB", 0.0001, "GB",
        working=Working("prompts * 4 / 1.073741824", SIZES),
        truth=Working("prompts * 4", SIZES),
        judged="agrees",
        why="The document rounds to one digit.",
    ),
    Claim(
        "Model weights (12 layers, 768 hidden)", "~1.5 GB", 1.5, "GB",
        working=Working(f"{PARAMETERS} * 4", SHAPE),
        truth=Working(f"{PARAMETERS} * 4", SHAPE),
        tested=(COUNTED, SHAPES),
        why="This shape has 162.2 million weights in fp32. The model that was trained has 561.0 "
        "million weights: 2.24 GB in fp32, 1.12 GB in bf16.",
    ),
    Claim(
        "Optimizer state (if using Adam)", "~0.5 GB", 0.5, "GB",
        working=Working(f"2 * {PARAMETERS} * 4", SHAPE),
        truth=Working(f"2 * {PARAMETERS} * 4", SHAPE),
        why="Adam keeps two fp32 moments for each weight. The sampler's model is not trained, so "
        "it has no Adam moments.",
    ),
    Claim(
        "Forward buffers", "~0.2 GB", 0.2, "GB",
        truth=Working(LOGITS, BATCH),
        why="The logits of one batch alone take 0.8 GB in fp32.",
    ),
    Claim(
        "GPU in all", "~2-3 GB", 2.5, "GB",
        working=Working("(1.5 + 0.5 + 0.2) * 1e9"),
        truth=Working(f"{PARAMETERS} * 4 + {LOGITS}", {**SHAPE, **BATCH}),
        judged="agrees",
        why="The document's parts add up to 2.2 GB. The sampler needs its model's weights and one "
        "batch's logits; the code also holds other models.",
    ),
))
"""The document's detailed breakdown, in its order."""

TIMELINE: tuple[Claim, ...] = held_by((COUNTED,), (
    Claim(
        "Load prompts from disk", "50-100 MB", 75, "MB",
        truth=Working("prompts * tokens * 4", {"prompts": PROMPTS, "tokens": 512}),
        why="57 MB is the most that prompts of 512 tokens take, at about four characters per "
        "token.",
    ),
    Claim(
        "Embeddings added at t=5s", "5 seconds", 5, "s",
        truth=Working(
            f"2 * ({PARAMETERS} - vocab * hidden) * prompts * tokens / peak_flops_per_second",
            {**SHAPE, "prompts": PROMPTS, "tokens": 512, "peak_flops_per_second": PEAK_4090},
        ),
        tested=(COUNTED, SHAPES),
        why="Our figure assumes the longest prompts and the full peak of a 24 GB card (RTX 4090, "
        "bf16); real runs reach less than half of that peak.",
    ),
    Claim(
        "Peak RAM needed", "10.25 GB", 10.25, "GB",
        truth=sized(COPIED),
        tested=(COUNTED, TWICE),
        why="The document's parts add up to 7.25 to 8.25 GB, part of it host RAM and part GPU "
        "memory. Host RAM alone holds two copies of the embeddings, first while they are "
        "concatenated and again while they are normalised (measured: 2.00 × the embeddings each "
        "time).",
    ),
    Claim(
        "When the peak is", "t=185s, as training starts",
        said="before the search: concatenate and normalise",
        judged="does not follow",
        tested=(TWICE,),
        why="The two copies of the embeddings are made before the search, which adds only "
        "megabytes.",
    ),
    Claim(
        "Setup time", "~3 minutes (one-time)", 180, "s",
        truth=sized(f"{SEARCH} / flops_per_second", flops_per_second=FLOPS_PER_SECOND),
        tested=(COUNTED, SEARCHED),
        why="The search alone takes 37 minutes on the two cores that were measured. To finish in "
        "three minutes, the search needs a large server.",
    ),
    Claim(
        "Left after the weights are made", "Embeddings freed; weights only (112 KB)", 0.112, "MB",
        truth=sized(EMBEDDINGS),
        judged="does not follow",
        tested=(READ,),
        why="`self.embeddings` lives as long as the sampler, the whole run; the document's own "
        "timeline says 5.25 GB at t=186s.",
    ),
    Claim(
        "Fits in a 24 GB GPU", "Peak 10.25 GB, fits in 24GB GPU", 10.25, "GB",
        truth=Working(f"{PARAMETERS} * 4 + {LOGITS}", {**SHAPE, **BATCH}),
        judged="does not follow",
        why="The document compares host RAM with a card's memory. The card holds the model and one "
        "batch's logits; the embeddings are never on the card.",
    ),
))
"""The executive summary's peak and the timeline."""


def _row(prompts: int, label: str, embeddings: float, total: float) -> tuple[Claim, Claim]:
    """A row of the scaling table: embeddings, and all."""
    return (
        Claim(
            f"{label} prompts: embeddings", f"{embeddings} GB", embeddings, "GiB",
            working=sized(f"{EMBEDDINGS} / {GIB}", prompts),
            truth=sized(f"{EMBEDDINGS} / {GIB}", prompts),
            why=BINARY,
        ),
        Claim(
            f"{label} prompts: in all", f"{total:,}", total, "GiB",
            working=sized(f"{EMBEDDINGS} / {GIB} + 2", prompts),
            truth=sized(f"{COPIED} / {GIB}", prompts),
            tested=(COUNTED, TWICE),
            why="The document adds host RAM and GPU memory in one sum and leaves out the second "
            "copy of the embeddings.",
        ),
    )


SCALING: tuple[Claim, ...] = held_by((COUNTED,), (
    *_row(28_000, "28,000", 5.25, 7.2),
    *_row(280_000, "280,000", 52.5, 54.5),
    *_row(2_800_000, "2.8M", 525, 526.7),
    Claim(
        "28M prompts: embeddings", "5.2 TB", 5.2, "TB",
        working=sized(f"{EMBEDDINGS} / 1e12", 28_000_000),
        truth=sized(f"{EMBEDDINGS} / 1e12", 28_000_000),
        why="5,247 GiB are 5.12 TiB or 5.63 TB; 5.2 is neither.",
    ),
    _row(28_000_000, "28M", 5_247, 5_249)[1],
    Claim(
        "Where online ends", "Cannot scale beyond ~300k prompts", 300_000, "prompts",
        working=Working("ram / (dimensions * 4)", {"ram": 24e9, "dimensions": DIMENSIONS}),
        truth=Working("ram / (2 * dimensions * 4)", {"ram": 24e9, "dimensions": DIMENSIONS}),
        tested=(COUNTED, TWICE),
        why="In the document's own table 280,000 prompts do not fit. The 24 GB that it assumes "
        "hold 59,600 prompts as the code is written, or 119,000 if embeddings were never copied.",
    ),
    Claim(
        "Embeddings on disk, compressed", "2.5 GB compressed", 2.5, "GB",
        truth=sized("prompts * dimensions * 2"),
        judged="no derivation",
        why="In half precision the embeddings take 2.82 GB, and a compressor leaves 92% of that: "
        "2.59 GB. A compressor leaves 92% of fp32 embeddings too, 5.21 GB: mean logits look like "
        "noise to a compressor.",
    ),
    Claim(
        "Offline: k-NN computed at t=1s", "1 second", 1, "s",
        truth=sized(f"{SEARCH} / flops_per_second", flops_per_second=FLOPS_PER_SECOND),
        tested=(COUNTED, SEARCHED),
        why="Reading embeddings from disk does not shorten the search, so training does not start "
        "instantly. Training would start instantly only if the sampling weights were saved as "
        "well.",
    ),
    Claim(
        "Offline at 280,000: embeddings.npy", "2.5 GB compressed", 2.5, "GB",
        working=sized("prompts * dimensions * 2", 280_000),
        truth=sized(EMBEDDINGS, 280_000),
        why="2.5 GB is the figure for 28,000 prompts; 280,000 prompts take 28.2 GB in half "
        "precision.",
    ),
    Claim(
        "Offline at 280,000: loaded", "5.25 GB", 5.25, "GB",
        working=sized(EMBEDDINGS, 280_000),
        truth=sized(EMBEDDINGS, 280_000),
        why="5.25 GB is the figure for 28,000 prompts, not for 280,000.",
    ),
    Claim(
        "IndexFlatL2 at 280,000", "Better memory efficiency",
        said="56.3 GB more than the embeddings",
        judged="does not follow",
        tested=(FLAT,),
        why="A flat index copies every vector in fp32 and, like scikit-learn, computes all "
        "distances.",
    ),
    Claim(
        "Neighbours of index.search(embeddings, k=10)", "k=10", 10, "neighbours",
        truth=Working("10 - 1"),
        judged="does not follow",
        tested=(ITSELF,),
        why="The first neighbour that a search finds is the prompt itself.",
    ),
))
"""The scaling table, and what online and offline are said to be."""
