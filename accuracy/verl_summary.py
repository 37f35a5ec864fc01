"""What real runs of verl's engines on a CPU say: of its dry runs, and these of the closed form."""

from __future__ import annotations

from pathlib import Path

from accuracy.real_summary import RealSummary
from accuracy.verl_cases import CASES, GPUS, SCALE

MEASURED = Path(__file__).with_name("measured") / "verl-vs-cpu.json"
SUMMARY = RealSummary(MEASURED, CASES)

INTRODUCTION = """
A dry run of a verl plan executes verl {verl}'s own engines (docs/verl-step.md). Here they ran
for real, on a CPU: {cases} small configurations of GRPO and PPO, for two steps. Each starts from a
checkpoint on disk and is sharded by FSDP2 over gloo in one process; PyTorch's own allocator
measured the memory. {budgets} have a token budget, whose rows verl's own `rearrange_micro_batches`
cuts. flash-attn's and Inductor's kernels compute nothing, and everything around them does. A CPU
cannot move state that is offloaded between phases, so no configuration offloads it. The command
`python -m accuracy.verl_runs --out accuracy/measured/verl-vs-cpu.json` (torch {torch}, transformers
{transformers}, peft {peft}, tensordict {tensordict}) writes the figures, each with a hash of what
ran; a test refuses any that would run otherwise today, and repeats some for real and some without
data (`tests/accuracy/test_verl_runs.py`, `tests/frameworks/test_verl_step.py`).
"""
CLOSED = """
The closed form of the moment beside dry runs of the same plans for models of the catalog
({models}) on {gpus} GPUs, at {scale} times the lengths and with a GPU's branches, cuBLAS's
workspaces left out on both sides:
"""
EACH = """
Case by case, the phase that is met worst (the 0.25 % of adapters are 5 kB):
"""


def text() -> str:
    """The section, without its title."""
    budgets = sum("max_tokens_per_micro_batch" in case.changes for case in CASES)
    told = {"cases": len(CASES), "budgets": budgets, **SUMMARY.stored()["versions"]}
    models = ", ".join(sorted({case.whole.model.split("/")[1] for case in CASES}))
    parts = [
        INTRODUCTION.format(**told),
        SUMMARY.by_method(SUMMARY.dry_errors),
        CLOSED.format(models=models, gpus=GPUS, scale=SCALE),
        SUMMARY.by_method(SUMMARY.closed_errors),
        EACH,
        SUMMARY.by_case(),
    ]
    return "\n\n".join(part.strip("\n") for part in parts)
