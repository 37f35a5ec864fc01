"""Document 002, "Memory Optimization for Qwen3-4B": GRADE's run that ran out of memory.

The code it describes was read in LukasNel/gradeste at 46e8c58 (2026-10), training_grade.py.
"""

from __future__ import annotations

from planner.examples import dry_runs
from planner.examples.claim import DRY_RUN, GB, Claim, Working, held_by
from planner.examples.doc_001 import LAYERS_KEEP, SOURCE
from planner.examples.unrolled import (
    BF16,
    FP32,
    KEPT,
    ONLY_INPUTS,
    PARAMETERS,
    POSITIONS,
    PROMPT,
    kept,
    sizes,
    with_weights,
)

TITLE = "Why did a GRADE run go out of memory?"

BEFORE = (4, 48)
AFTER = (2, 32)
"""Rows and soft tokens."""

_BEFORE = kept(*BEFORE, FP32)


def _weights(parameters: float, width: int) -> Working:
    return Working("3 * parameters * width", {"parameters": parameters, "width": width})


def _share(part: float, whole: float) -> Working:
    return Working("1 - after / before", {"after": part, "before": whole})


OURS = "tests/examples/test_claims.py::test_ours_of_document_002"

CHANGES: tuple[Claim, ...] = held_by((OURS,), (
    Claim(
        "Memory in use at the error", "79.25 GiB, of which 12.75 MiB free: 79.23 GiB", 79.23, "GiB",
        working=Working("79.25 - 12.75 / 1024"),
        truth=Working(
            "allocated + unallocated / 1024 + context",
            {"allocated": 77.84, "unallocated": 921.65, "context": 0.49},
        ),
        why="The memory in the error's trace adds up: allocated memory, reserved but unallocated "
        "memory, and 0.49 GiB of CUDA context.",
    ),
    Claim(
        "Effective batch", "4 × 4 = 2 × 8 = 16", 16, "rows",
        working=Working("2 * 8"),
        truth=Working("2"),
        tested=(OURS, SOURCE),
        why="`gradient_accumulation_steps` is never read: each step sets gradients to zero and "
        "updates, so the batch fell from 4 to 2.",
    ),
    Claim(
        "Batch 4 → 2", "Halves per-step memory", 50, "%",
        working=_share(2, 4),
        truth=Working(
            "kept / 2 / (weights + kept)",
            {"kept": _BEFORE.value, "weights": 3 * PARAMETERS * 4},
        ),
        why="Activations halve, but the weights of three models take as much as before.",
    ),
    Claim(
        "Length 48 → 32", "by 33%", 33, "%",
        working=_share(32, 48),
        truth=Working(
            f"1 - {POSITIONS} / before",
            {"prompt": PROMPT, "tokens": 32, "before": 2664},
        ),
        why="Every generated token runs the whole row again: the graph holds 2,664 positions a row "
        "at length 48 and 1,520 at length 32. The shorter length saves more than the document "
        "says.",
    ),
    Claim(
        "bf16 for fp32", "Halves memory for weights and activations", 50, "%",
        working=_share(2, 4),
        truth=_share(
            with_weights(KEPT, *AFTER, BF16).value, with_weights(KEPT, *AFTER, FP32).value
        ),
        why="Our figure is for two rows of 32 tokens. Weights halve. With bf16 a layer keeps "
        "171,432 bytes per token instead of 233,896, since norms and the softmax still compute in "
        "fp32. Per pair of positions a layer keeps 192 bytes instead of 128, since it keeps the "
        "softmax in fp32 and in bf16.",
    ),
    Claim(
        "Cleaning up", "Prevents fragmentation and ensures tensors are freed promptly",
        said="no peak moves",
        judged="does not follow",
        tested=("tests/examples/test_grade_documents.py::test_cleaning_up_moves_no_peak",),
        why="A step peaks while its whole graph is alive, and nothing in the graph can be deleted "
        "then. Cleaning up between steps only frees cached memory, which the next step allocates "
        "again.",
    ),
    Claim(
        "Autocast in the loop", "Ensures consistent precision",
        said="and keeps copies of the adapters for every token",
        judged="agrees",
        tested=(
            "tests/examples/test_grade_documents.py::"
            "test_dropout_and_autocast_keep_what_the_hooks_counted",
        ),
        why="Under autocast, fp32 adapters multiply in bf16, as the frozen weights do. Each "
        "token's forward makes new bf16 copies of the adapters, 655,360 bytes a layer, and the "
        "graph holds all of them.",
    ),
    Claim(
        "Shorter sequences", "Slightly reduced generation diversity",
        tested=(SOURCE,),
        judged="no derivation",
        why="The document does not measure diversity, and a plan cannot: it estimates memory and "
        "time.",
    ),
    Claim(
        "bf16's numbers", "minor numerical differences, negligible in practice",
        tested=(SOURCE,),
        judged="no derivation",
        why="The document does not measure how far results in bf16 differ from fp32. Its adapters "
        "have fp32 master weights, so at least their updates are not rounded away.",
    ),
    Claim(
        "Model weights (×3), before", "~48 GB", 48, "GB",
        working=_weights(4e9, 4),
        truth=_weights(PARAMETERS, 4),
        why="Three whole models are stored in fp32.",
    ),
    Claim(
        "Model weights (×3), after", "~24 GB", 24, "GB",
        working=_weights(4e9, 2),
        truth=_weights(PARAMETERS, 2),
        why="Three whole models are stored in bf16. With adapters the reference could be the "
        "policy with its adapters off, which saves one copy of the weights.",
    ),
    Claim(
        "Model weights, reduction", "50%", 50, "%",
        working=_share(24, 48),
        truth=_share(2, 4),
        why="Each weight takes two bytes instead of four.",
    ),
    Claim(
        "Activations, before", "~30 GB", 30, "GB",
        working=Working("total - weights", {"total": 78 * GB, "weights": 48 * GB}),
        truth=_BEFORE,
        tested=(OURS, LAYERS_KEEP),
        why="30 GB is what the weights left free on the card when the run failed, not what the "
        "step needs. If every weight were trained, activations would take 127.1 GB; frozen layers "
        "keep fewer inputs.",
    ),
    Claim(
        "Activations, after: first step", "~10-15 GB", 12.5, "GB",
        truth=kept(*AFTER, BF16),
        tested=(OURS, LAYERS_KEEP),
        why="`from_pretrained` leaves the model in evaluation mode, where transformers recomputes "
        "nothing. As coded, with dropout and autocast's copies of the adapters, activations take "
        "19.2 GB, or 23.1 GB where dropout keeps fp32 noise instead of a mask of bytes, as on a "
        "CPU.",
    ),
    Claim(
        "Activations, after: later steps", "~10-15 GB", 12.5, "GB",
        truth=Working(ONLY_INPUTS, sizes(*AFTER, BF16)),
        why="The evaluation after the first step calls `.train()`, and from then on each layer "
        "keeps only its input.",
    ),
    Claim(
        "Activations, reduction: least", "~50%", 50, "%",
        working=_share(15, 30),
        truth=_share(kept(*AFTER, BF16).value, _BEFORE.value),
        why="50% follows from the document's own columns. The first step saves more than that, "
        "since activations before the changes were three times the document's figure.",
    ),
    Claim(
        "Activations, reduction: most", "~66%", 66, "%",
        working=_share(10, 30),
        truth=Working(
            f"1 - {ONLY_INPUTS} / before",
            {**sizes(*AFTER, BF16), "before": _BEFORE.value},
        ),
        why="66% follows from the document's own columns. After the first step, layers keep almost "
        "no activations.",
    ),
    Claim(
        "Total, before", "~78 GB", 78, "GB",
        working=Working("48e9 + 30e9"),
        truth=with_weights(KEPT, *BEFORE, FP32),
        tested=(OURS, f"{DRY_RUN}{dry_runs.BEFORE}"),
        why="The document's total is the card's size. The step needs nearly twice as much memory "
        "as the card has, so freeing memory between steps could not make it fit.",
    ),
    Claim(
        "Total, after: low end", "~25 GB", 25, "GB",
        working=Working("24e9 + 10e9"),
        truth=with_weights(ONLY_INPUTS, *AFTER, BF16),
        tested=(OURS, f"{DRY_RUN}{dry_runs.AFTER}"),
        why="The document's own parts add up to 34 GB, but steps after the first really take about "
        "25 GB.",
    ),
    Claim(
        "Total, after: high end", "~35 GB", 35, "GB",
        working=Working("24e9 + 15e9"),
        truth=with_weights(KEPT, *AFTER, BF16),
        tested=(OURS, f"{DRY_RUN}{dry_runs.FIRST_STEP}"),
        why="The document's own parts add up to 39 GB. The first step takes more than that, and "
        "decides whether the run fits.",
    ),
    Claim(
        "Total, reduction: least", "~55%", 55, "%",
        working=_share(35, 78),
        truth=_share(
            with_weights(KEPT, *AFTER, BF16).value, with_weights(KEPT, *BEFORE, FP32).value
        ),
        why="55% follows from the document's totals, but these are not the sums of its parts.",
    ),
    Claim(
        "Total, reduction: most", "~65%", 65, "%",
        working=_share(25, 78),
        truth=_share(
            with_weights(ONLY_INPUTS, *AFTER, BF16).value, with_weights(KEPT, *BEFORE, FP32).value
        ),
        why="The document's own totals give 67.9%.",
    ),
    Claim(
        "Recomputation's cost", "~10-20% slower", 15, "%",
        truth=Working("forward / (forward + 2 * forward)", {"forward": 1}),
        why="Counted in FLOPs, a step costs three forwards, because the backward counts as two, "
        "and recomputation adds a fourth. With adapters the backward costs little more than one "
        "forward, so recomputation makes a step about 50% slower.",
    ),
))
"""The document's numbers, in its order."""
