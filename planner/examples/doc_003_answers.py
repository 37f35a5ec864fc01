"""Document 003's judgements: its line-by-line check, and its summary table of six answers."""

from __future__ import annotations

from planner.examples.claim import Claim, Working, held_by
from planner.examples.doc_003 import (
    BATCH,
    COPIED,
    COUNTED,
    DIMENSIONS,
    DIRECTION,
    EMBEDDINGS,
    FLAT,
    LOGITS,
    PARAMETERS,
    PROMPTS,
    READ,
    SHAPE,
    SHAPES,
    TRUE_HIDDEN,
    TWICE,
    sized,
)

SAFE: tuple[Claim, ...] = held_by((READ,), (
    Claim(
        "Line 71: batches of 8", "SAFE: only 8 prompts in GPU memory at once", 8, "prompts",
        truth=Working("8"),
        judged="agrees",
        why="True, but the logits of 8 prompts take 824 MB in fp32, not 32 MB.",
    ),
    Claim(
        "Line 103: .cpu().numpy()", "SAFE: GPU memory freed after each batch",
        said="freed to PyTorch's cache; the card shows the largest batch until the end",
        judged="does not follow",
        why="The pooled batch leaves the card. The memory of the batch's logits stays in PyTorch's "
        "cache, and the model itself is never freed.",
    ),
    Claim(
        "Line 105: np.concatenate", "SAFE: 5.25 GB is fine", 5.25, "GB",
        truth=sized(COPIED),
        judged="does not follow",
        tested=(COUNTED, TWICE),
        why="The list of batches and the array that concatenates them exist at the same time.",
    ),
    Claim(
        "Line 126: NearestNeighbors", "SAFE: minimal memory overhead",
        said="206 MB a thread",
        judged="does not follow",
        tested=("tests/sampling/test_libraries.py::test_scikit_learn_takes_a_block_for_each_thread",),
        why="`fit` stores the embeddings unchanged. The search casts two blocks of 256 rows to "
        "float64 in each thread, which is little memory. But the search takes 37 minutes.",
    ),
    Claim(
        "Is the current code safe?", "Code is safe and memory-conscious",
        said="it does the opposite of what it is for",
        judged="does not follow",
        tested=(DIRECTION,),
        why="The mean distance to neighbours measures sparsity, so weights of 1 / distance favour "
        "common prompts: a cluster with 90% of the prompts got 98.7% of the draws, but 51.7% with "
        "weights proportional to the distance.",
    ),
))
"""Its line-by-line check."""

CONFIDENCE: tuple[Claim, ...] = held_by((COUNTED,), (
    Claim(
        "Will it fit in RAM?", "Yes, ~10 GB peak (100%)", 10, "GB",
        truth=sized(COPIED),
        judged="no derivation",
        tested=(COUNTED, TWICE),
        why="The embeddings fit in 24 GB of host RAM, but for a different reason than the document "
        "gives.",
    ),
    Claim(
        "Need offline precomputation?", "No, not for 28k prompts (100%)", 28_000, "prompts",
        truth=Working("ram / (2 * dimensions * 4)", {"ram": 24e9, "dimensions": DIMENSIONS}),
        judged="agrees",
        why="Right for memory: as the code is written, 59,600 prompts fit in 24 GB. But each start "
        "of training repeats the search.",
    ),
    Claim(
        "If we had millions?", "Yes, switch to offline + FAISS (100%)", 525, "GB",
        truth=sized(EMBEDDINGS, 2_800_000),
        judged="does not follow",
        tested=(COUNTED, FLAT),
        why="Offline mode saves no memory, and a flat index holds every vector. Streaming with an "
        "exact search saves memory, because that search holds a few chunks at a time. Hidden "
        "states instead of logits save memory, too: 14.3 GB for 2.8 million prompts.",
    ),
    Claim(
        "Is current code safe?", "Yes, well-designed (100%)",
        said="no",
        judged="does not follow",
        tested=(DIRECTION,),
        why="The code draws rare prompts less often, and common prompts more often.",
    ),
    Claim(
        "Can we run this on 24GB GPU?", "Yes, comfortably (100%)", 10.25, "GB",
        truth=Working(f"{PARAMETERS} * 4 + {LOGITS}", {**SHAPE, **BATCH}),
        judged="agrees",
        why="Right, but the card has to hold 1.5 GB, not 10.25 GB.",
    ),
    Claim(
        "Recommended approach?", "Keep online, plan offline for future (100%)", 5.25, "GB",
        truth=Working("prompts * hidden * 4", {"prompts": PROMPTS, "hidden": TRUE_HIDDEN}),
        judged="no derivation",
        tested=(COUNTED, SHAPES),
        why="Mean hidden states take a fiftieth of the memory of mean logits, and a fiftieth of "
        "the search's operations.",
    ),
))
"""Its summary table: six answers, each "100%"."""
