"""``expected.md``: estimated memory by phase, to hold a run's first lines against."""

from __future__ import annotations

from planner.footprint import Footprint, Phase
from planner.launch.launch import Launch
from planner.units import read_gib, read_seconds


def expected_text(found: Footprint, launch: Launch, link: str) -> str:
    """A page of Markdown: the verdict, a row for each phase, and where the run says the same."""
    host = found.host_bytes
    lines = [
        "# What to expect",
        "",
        found.verdict.sentence,
        *(f"- {line}" for line in found.verdict.lines),
        "",
        "GiB of the fullest GPU, by phase. *GPU* is what the driver sees (`nvidia-smi`); "
        "*reserved* and *allocated* are PyTorch's own, as `torch.cuda.max_memory_reserved` and "
        "`max_memory_allocated` count them.",
        "",
        "| Phase | Process | GPU | Reserved | Allocated | Seconds |",
        "|---|---|---:|---:|---:|---:|",
        *(_row(phase) for phase in found.phases),
        "",
        f"Host RAM of a node: {'not estimated' if host is None else f'{read_gib(host)} GiB'}.",
        "",
        "## Where the run says it",
        "",
        launch.says,
        "",
        "A phase that takes more than its row by more than the estimate's error is worth a stop: "
        "compare lengths, batch sizes and versions with the plan first.",
        *(("", f"Plan: {link}") if link else ()),
    ]
    return "\n".join(lines) + "\n"


def _row(phase: Phase) -> str:
    sizes = (phase.device_bytes, phase.reserved_bytes, phase.allocated_bytes)
    seconds = "" if phase.seconds is None else read_seconds(phase.seconds)
    cells = (phase.name, phase.rank, *map(read_gib, sizes), seconds)
    return f"| {' | '.join(cells)} |"
