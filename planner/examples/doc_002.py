"""Document 002, "Memory Optimization for Qwen3-4B": GRADE's run that ran out of memory.

The code it describes was read in LukasNel/gradeste at 46e8c58 (2026-10), training_grade.py.
"""

from __future__ import annotations

from planner.examples.claim import Claim, Working
from planner.examples.unrolled import (
    BF16,
    FP32,
    GB,
    KEPT,
    ONLY_INPUTS,
    PARAMETERS,
    POSITIONS,
    PROMPT,
    kept,
    sizes,
    with_weights,
)

TITLE = "Document 002 · GRADE out of memory"

BEFORE = (4, 48)
AFTER = (2, 32)
"""Rows and soft tokens."""

_BEFORE = kept(*BEFORE, FP32)


def _weights(parameters: float, width: int) -> Working:
    return Working(
        expression="3 * parameters * width", inputs={"parameters": parameters, "width": width}
    )


def _share(part: float, whole: float) -> Working:
    return Working(expression="1 - after / before", inputs={"after": part, "before": whole})


CHANGES: tuple[Claim, ...] = (
    Claim(
        what="Memory in use at the error",
        written="79.25 GiB, of which 12.75 MiB free: 79.23 GiB",
        claimed=79.23,
        unit="GiB",
        scale=1,
        working=Working(expression="79.25 - 12.75 / 1024"),
        truth=Working(
            expression="allocated + unallocated / 1024 + context",
            inputs={"allocated": 77.84, "unallocated": 921.65, "context": 0.49},
        ),
        why="The trace adds up: what tensors took, what the allocator held besides, and 0.49 GiB "
        "of CUDA context.",
    ),
    Claim(
        what="Effective batch",
        written="4 × 4 = 2 × 8 = 16",
        claimed=16,
        unit="rows",
        scale=1,
        working=Working(expression="2 * 8"),
        truth=Working(expression="2"),
        why="`gradient_accumulation_steps` is never read: each step sets gradients to zero and "
        "updates, so the batch fell from 4 to 2.",
    ),
    Claim(
        what="Batch 4 → 2",
        written="Halves per-step memory",
        claimed=50,
        unit="%",
        scale=0.01,
        working=_share(2, 4),
        truth=Working(
            expression="kept / 2 / (weights + kept)",
            inputs={"kept": _BEFORE.value, "weights": 3 * PARAMETERS * 4},
        ),
        why="Activations halve, the weights of three models stay.",
    ),
    Claim(
        what="Length 48 → 32",
        written="by 33%",
        claimed=33,
        unit="%",
        scale=0.01,
        working=_share(32, 48),
        truth=Working(
            expression=f"1 - {POSITIONS} / before",
            inputs={"prompt": PROMPT, "tokens": 32, "before": 2664},
        ),
        why="Every token runs the whole row again: the graph held 2,664 positions a row and "
        "holds 1,520. The change saves more than it says.",
    ),
    Claim(
        what="Model weights (×3), before",
        written="~48 GB",
        claimed=48,
        unit="GB",
        scale=GB,
        working=_weights(4e9, 4),
        truth=_weights(PARAMETERS, 4),
        why="Three whole copies in fp32.",
    ),
    Claim(
        what="Model weights (×3), after",
        written="~24 GB",
        claimed=24,
        unit="GB",
        scale=GB,
        working=_weights(4e9, 2),
        truth=_weights(PARAMETERS, 2),
        why="The same in bf16. With adapters the reference could be the policy with its adapters "
        "off, one copy less.",
    ),
    Claim(
        what="Model weights, reduction",
        written="50%",
        claimed=50,
        unit="%",
        scale=0.01,
        working=_share(24, 48),
        truth=_share(2, 4),
        why="Two bytes for four.",
    ),
    Claim(
        what="Activations, before",
        written="~30 GB",
        claimed=30,
        unit="GB",
        scale=GB,
        working=Working(
            expression="total - weights", inputs={"total": 78 * GB, "weights": 48 * GB}
        ),
        truth=_BEFORE,
        why="What was left of the card when it failed, not what the step needs. With every weight "
        "trained it would be 127.1 GB: frozen layers keep fewer inputs.",
    ),
    Claim(
        what="Activations, after: first step",
        written="~10-15 GB",
        claimed=12.5,
        unit="GB",
        scale=GB,
        truth=kept(*AFTER, BF16),
        why="`from_pretrained` leaves the model in evaluation mode, where transformers recomputes "
        "nothing. As coded, with dropout and autocast's copies of the adapters, 23.1 GB.",
    ),
    Claim(
        what="Activations, after: later steps",
        written="~10-15 GB",
        claimed=12.5,
        unit="GB",
        scale=GB,
        truth=Working(expression=ONLY_INPUTS, inputs=sizes(*AFTER, BF16)),
        why="The evaluation after the first step calls `.train()`, and then each layer keeps its "
        "input only.",
    ),
    Claim(
        what="Activations, reduction: least",
        written="~50%",
        claimed=50,
        unit="%",
        scale=0.01,
        working=_share(15, 30),
        truth=_share(kept(*AFTER, BF16).value, _BEFORE.value),
        why="Of its own columns; the first step saves more, since the true figure before was "
        "three times as large.",
    ),
    Claim(
        what="Activations, reduction: most",
        written="~66%",
        claimed=66,
        unit="%",
        scale=0.01,
        working=_share(10, 30),
        truth=Working(
            expression=f"1 - {ONLY_INPUTS} / before",
            inputs={**sizes(*AFTER, BF16), "before": _BEFORE.value},
        ),
        why="Of its own columns; later steps keep almost nothing.",
    ),
    Claim(
        what="Total, before",
        written="~78 GB",
        claimed=78,
        unit="GB",
        scale=GB,
        working=Working(expression="48e9 + 30e9"),
        truth=with_weights(KEPT, *BEFORE, FP32),
        why="The card's size. The step needs nearly twice that, so no cleaning up could save it.",
    ),
    Claim(
        what="Total, after: low end",
        written="~25 GB",
        claimed=25,
        unit="GB",
        scale=GB,
        working=Working(expression="24e9 + 10e9"),
        truth=with_weights(ONLY_INPUTS, *AFTER, BF16),
        why="Its own parts give 34; the later steps really take about what it says.",
    ),
    Claim(
        what="Total, after: high end",
        written="~35 GB",
        claimed=35,
        unit="GB",
        scale=GB,
        working=Working(expression="24e9 + 15e9"),
        truth=with_weights(KEPT, *AFTER, BF16),
        why="Its own parts give 39; the first step takes more, and decides whether the run lives.",
    ),
    Claim(
        what="Total, reduction: least",
        written="~55%",
        claimed=55,
        unit="%",
        scale=0.01,
        working=_share(35, 78),
        truth=_share(
            with_weights(KEPT, *AFTER, BF16).value, with_weights(KEPT, *BEFORE, FP32).value
        ),
        why="From its own totals, which its own parts do not give.",
    ),
    Claim(
        what="Total, reduction: most",
        written="~65%",
        claimed=65,
        unit="%",
        scale=0.01,
        working=_share(25, 78),
        truth=_share(
            with_weights(ONLY_INPUTS, *AFTER, BF16).value, with_weights(KEPT, *BEFORE, FP32).value
        ),
        why="67.9 by its own totals.",
    ),
    Claim(
        what="Recomputation's cost",
        written="~10-20% slower",
        claimed=15,
        unit="%",
        scale=0.01,
        truth=Working(expression="forward / (forward + 2 * forward)", inputs={"forward": 1}),
        why="One more forward beside a forward and a backward of two, in operations. With adapters "
        "the backward is little more than one forward, and a step a half slower.",
    ),
)
"""The document's numbers, in its order."""
