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
        why="The trace adds up: what tensors took, what the allocator held besides, and 0.49 GiB "
        "of CUDA context.",
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
        why="Activations halve, the weights of three models stay.",
    ),
    Claim(
        "Length 48 → 32", "by 33%", 33, "%",
        working=_share(32, 48),
        truth=Working(
            f"1 - {POSITIONS} / before",
            {"prompt": PROMPT, "tokens": 32, "before": 2664},
        ),
        why="Every token runs the whole row again: the graph held 2,664 positions a row and "
        "holds 1,520. The change saves more than it says.",
    ),
    Claim(
        "bf16 for fp32", "Halves memory for weights and activations", 50, "%",
        working=_share(2, 4),
        truth=_share(
            with_weights(KEPT, *AFTER, BF16).value, with_weights(KEPT, *AFTER, FP32).value
        ),
        why="Of two rows of 32 tokens. Weights halve. Of a token a layer keeps 171,432 bytes for "
        "233,896, since norms and the softmax compute in fp32 either way, and of a pair of "
        "positions 192 for 128: the softmax is kept in both.",
    ),
    Claim(
        "Cleaning up", "Prevents fragmentation and ensures tensors are freed promptly",
        said="no peak moves",
        judged="does not follow",
        tested=("tests/examples/test_grade_documents.py::test_cleaning_up_moves_no_peak",),
        why="A step peaks where its whole graph is alive, and none of that can be deleted. What "
        "is emptied between steps is cached memory, which the next step asks for again.",
    ),
    Claim(
        "Autocast in the loop", "Ensures consistent precision",
        said="and keeps copies of the adapters for every token",
        judged="agrees",
        tested=(
            "tests/examples/test_grade_documents.py::"
            "test_dropout_and_autocast_keep_what_the_hooks_counted",
        ),
        why="Adapters in fp32 then multiply in bf16 as the frozen weights do. Each token's forward "
        "makes its copies anew, 655,360 bytes a layer, and the graph holds all of them.",
    ),
    Claim(
        "Shorter sequences", "Slightly reduced generation diversity",
        tested=(SOURCE,),
        judged="no derivation",
        why="Nobody measured it there, and no plan can: it is no matter of memory or time.",
    ),
    Claim(
        "bf16's numbers", "minor numerical differences, negligible in practice",
        tested=(SOURCE,),
        judged="no derivation",
        why="Not measured there. With master weights in fp32 the updates at least are not rounded "
        "away; its adapters have them.",
    ),
    Claim(
        "Model weights (×3), before", "~48 GB", 48, "GB",
        working=_weights(4e9, 4),
        truth=_weights(PARAMETERS, 4),
        why="Three whole copies in fp32.",
    ),
    Claim(
        "Model weights (×3), after", "~24 GB", 24, "GB",
        working=_weights(4e9, 2),
        truth=_weights(PARAMETERS, 2),
        why="The same in bf16. With adapters the reference could be the policy with its adapters "
        "off, one copy less.",
    ),
    Claim(
        "Model weights, reduction", "50%", 50, "%",
        working=_share(24, 48),
        truth=_share(2, 4),
        why="Two bytes for four.",
    ),
    Claim(
        "Activations, before", "~30 GB", 30, "GB",
        working=Working("total - weights", {"total": 78 * GB, "weights": 48 * GB}),
        truth=_BEFORE,
        tested=(OURS, LAYERS_KEEP),
        why="What was left of the card when it failed, not what the step needs. With every weight "
        "trained it would be 127.1 GB: frozen layers keep fewer inputs.",
    ),
    Claim(
        "Activations, after: first step", "~10-15 GB", 12.5, "GB",
        truth=kept(*AFTER, BF16),
        tested=(OURS, LAYERS_KEEP),
        why="`from_pretrained` leaves the model in evaluation mode, where transformers recomputes "
        "nothing. As coded, with dropout and autocast's copies of the adapters, 19.2 GB: 23.1 "
        "where dropout keeps fp32 noise, as on a CPU, and not a mask of bytes.",
    ),
    Claim(
        "Activations, after: later steps", "~10-15 GB", 12.5, "GB",
        truth=Working(ONLY_INPUTS, sizes(*AFTER, BF16)),
        why="The evaluation after the first step calls `.train()`, and then each layer keeps its "
        "input only.",
    ),
    Claim(
        "Activations, reduction: least", "~50%", 50, "%",
        working=_share(15, 30),
        truth=_share(kept(*AFTER, BF16).value, _BEFORE.value),
        why="Of its own columns; the first step saves more, since the true figure before was "
        "three times as large.",
    ),
    Claim(
        "Activations, reduction: most", "~66%", 66, "%",
        working=_share(10, 30),
        truth=Working(
            f"1 - {ONLY_INPUTS} / before",
            {**sizes(*AFTER, BF16), "before": _BEFORE.value},
        ),
        why="Of its own columns; later steps keep almost nothing.",
    ),
    Claim(
        "Total, before", "~78 GB", 78, "GB",
        working=Working("48e9 + 30e9"),
        truth=with_weights(KEPT, *BEFORE, FP32),
        tested=(OURS, f"{DRY_RUN}{dry_runs.BEFORE}"),
        why="The card's size. The step needs nearly twice that, so no cleaning up could save it.",
    ),
    Claim(
        "Total, after: low end", "~25 GB", 25, "GB",
        working=Working("24e9 + 10e9"),
        truth=with_weights(ONLY_INPUTS, *AFTER, BF16),
        tested=(OURS, f"{DRY_RUN}{dry_runs.AFTER}"),
        why="Its own parts give 34; the later steps really take about what it says.",
    ),
    Claim(
        "Total, after: high end", "~35 GB", 35, "GB",
        working=Working("24e9 + 15e9"),
        truth=with_weights(KEPT, *AFTER, BF16),
        tested=(OURS, f"{DRY_RUN}{dry_runs.FIRST_STEP}"),
        why="Its own parts give 39; the first step takes more, and decides whether the run lives.",
    ),
    Claim(
        "Total, reduction: least", "~55%", 55, "%",
        working=_share(35, 78),
        truth=_share(
            with_weights(KEPT, *AFTER, BF16).value, with_weights(KEPT, *BEFORE, FP32).value
        ),
        why="From its own totals, which its own parts do not give.",
    ),
    Claim(
        "Total, reduction: most", "~65%", 65, "%",
        working=_share(25, 78),
        truth=_share(
            with_weights(ONLY_INPUTS, *AFTER, BF16).value, with_weights(KEPT, *BEFORE, FP32).value
        ),
        why="67.9 by its own totals.",
    ),
    Claim(
        "Recomputation's cost", "~10-20% slower", 15, "%",
        truth=Working("forward / (forward + 2 * forward)", {"forward": 1}),
        why="One more forward beside a forward and a backward of two, in operations. With adapters "
        "the backward is little more than one forward, and a step a half slower.",
    ),
))
"""The document's numbers, in its order."""
