"""What the real runs of TRL on a CPU say: of its dry runs, and these of the closed form."""

from __future__ import annotations

from pathlib import Path

from accuracy.real_summary import RealSummary
from accuracy.trl_cases import CASES, SCALE

MEASURED = Path(__file__).with_name("measured") / "trl-vs-cpu.json"

INTRODUCTION = """
A dry run of a TRL plan executes TRL {trl}'s own trainers (docs/trl-step.md). Here they ran for
real, on a CPU: {cases} small configurations of SFT, DPO, GRPO and RLOO, for two optimizer steps.
Each starts from a checkpoint on disk and goes through TRL's own loader, constructor and `train`;
PyTorch's own allocator measured the memory. {sharded} are sharded, by DDP in two processes or by
FSDP2 in one. Responses come with the batch; nothing is sampled. In {on_gpu} configurations the
fused head, optimizers and clipping take a GPU's branches in the real run and in the dry run;
Triton's kernels then compute nothing. The command
`python -m accuracy.trl_runs --out accuracy/measured/trl-vs-cpu.json` (torch {torch}, transformers
{transformers}, peft {peft}, accelerate {accelerate}) writes the figures, each with a hash of what
ran; a test refuses any that would run otherwise today, repeats six for real and a share of the dry
runs (`tests/accuracy/test_trl_runs.py`).
"""
CLOSED = """
The closed form of the moment beside dry runs of the same plans for models of the catalog
({models}), at {scale} times the lengths and with a GPU's branches, cuBLAS's workspaces left out on
both sides:
"""


SUMMARY = RealSummary(MEASURED, CASES)
stored, dry_errors, closed_errors = SUMMARY.stored, SUMMARY.dry_errors, SUMMARY.closed_errors


def text() -> str:
    """The section, without its title."""
    told = {
        "cases": len(CASES),
        "sharded": sum("sharding" in case.changes for case in CASES),
        "on_gpu": sum(case.head == "gpu" for case in CASES),
        **stored()["versions"],
    }
    models = ", ".join(sorted({case.whole.model.split("/")[1] for case in CASES}))
    parts = [
        INTRODUCTION.format(**told),
        SUMMARY.by_method(dry_errors),
        CLOSED.format(models=models, scale=SCALE),
        SUMMARY.by_method(closed_errors),
    ]
    return "\n\n".join(part.strip("\n") for part in parts)
