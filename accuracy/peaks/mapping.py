"""Row → plan or reason, one module a source; what a plan itself refuses is a reason too."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from accuracy.peaks import fms, litgpt, swift
from accuracy.peaks.compare import Compared, compared
from accuracy.peaks.planned import How, Left
from accuracy.peaks.rows import Row, rows

REASONS = {
    "torchtitan": {
        "context": "torchtitan: several parallelisms, or sequences split over GPUs: not modelled",
        "fp8": "torchtitan: fp8 products: no field says",
        "selective": "torchtitan: selective checkpointing: not modelled",
    }
}
OTHERS = {
    "Megatron-LM": "Megatron's parallelism: not modelled",
    "plain": "a course's own model and loop: no config.json",
    "transformers": "8-bit base weights: no field says",
    "axolotl": "axolotl: k-bit preparation and loss kernel are not stated",
    "verl": "verl: torch's counters include vLLM's KV cache, or batches are not stated",
    "verl-agent": "verl: torch's counters include vLLM's KV cache, or batches are not stated",
    "HF": "model and batch are not stated",
}
"""Sources no row of which has a plan, by their framework."""


def how(row: Row) -> How:
    """How one row is planned; a row of a source that nobody mapped raises ``KeyError``."""
    by_source: dict[str, Callable[[Row], How]] = {
        "fms-acceleration": fms.how,
        "litgpt": litgpt.how,
        "ms-swift": swift.how,
        "torchtitan": _titan,
    }
    known = by_source.get(row.framework)
    if known is not None:
        return known(row)
    return Left(reason=OTHERS[row.framework])


def _titan(row: Row) -> How:
    found, reasons = row.settings, REASONS["torchtitan"]
    if any(found.get(name, 1) > 1 for name in ("cp", "tp", "pp")):
        return Left(reason=reasons["context"])
    return Left(reason=reasons["fp8" if found.get("float8") else "selective"])


@cache
def results() -> tuple[tuple[Compared, ...], tuple[tuple[Row, str], ...]]:
    """Every row with a plan, compared; and every other one with its reason."""
    found: list[Compared] = []
    left: list[tuple[Row, str]] = []
    for row in rows():
        planned = how(row)
        if isinstance(planned, Left):
            left.append((row, planned.reason))
            continue
        try:
            item = compared(row, planned)
        except ValueError as error:
            left.append((row, _refusal(error)))
            continue
        why = fms.decided_by_kernels(item) if row.framework == "fms-acceleration" else ""
        if why:
            left.append((row, why))
        else:
            found.append(item)
    return tuple(found), tuple(left)


def _refusal(error: ValueError) -> str:
    """What the plan says, without pydantic's frame."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    said = next((line for line in lines if not line.startswith("1 validation")), lines[0])
    return "refused: " + said.split(" [type=")[0].split(". ")[0]
