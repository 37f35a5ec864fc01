"""The section of docs/accuracy.md about rollout engines: parts, and every log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from accuracy.engines.compare import MAX_NUM_SEQS, Compared, compared, fields, reason
from accuracy.engines.rows import file, rows

INTRODUCTION = """
What {count} start-up logs of {engine} on H100s say that an engine takes of a card
(`accuracy/engines/rows.json`: figures and settings, no text; {source},
{licence}), beside the terms of a plan with the same engine; {planned} have a plan, with
`max_num_seqs={seqs}`, vLLM's own default there. Errors are signed: negative is too low. **Weights,
working set and pool have no constant from such logs; libraries and graphs do, bounds included**
(`planner/catalog/device_constants.py`): their columns only say how far models differ, and are no
check.
"""

NAMES = {
    "weights_gib": "weights",
    "activation_peak_gib": "working set of the profile run",
    "kv_gib": "KV cache pool",
    "non_torch_gib": "libraries (memory outside PyTorch)",
    "graphs_gib": "CUDA graphs",
}


def text() -> str:
    """The section."""
    found = compared()
    parts = [
        INTRODUCTION.format(
            count=len(rows()),
            engine=file()["engine"],
            source=f"{file()['repository']}, `{file()['folder']}`",
            licence=file()["licence"],
            planned=len(found),
            seqs=MAX_NUM_SEQS,
        ),
        _parts(found),
        "Every log with a plan, GiB logged → counted:\n\n" + _each(found),
        "Logs without a plan: " + _left() + ".",
        "Every log is planned as the first is: `"
        + ", ".join(f"{key}={value}" for key, value in fields(found[0].row).items())
        + "`.",
    ]
    return "\n\n".join(part.strip("\n") for part in parts)


def _parts(found: Sequence[Compared]) -> str:
    lines = [
        "| part | logs | median | p5 | p95 | inside its bounds |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for part, name in NAMES.items():
        errors = [item.error(part) for item in found]
        inside = sum(item.within(part) for item in found if part in item.bounds)
        bounds = f"{inside} of {len(found)}" if part in found[0].bounds else ""
        lines.append(f"| {name} | {_spread(errors)} | {bounds} |")
        if part == "kv_gib":
            beside = [item.pool_beside_graphs for item in found]
            lines.append(f"| the same, graphs beside the share | {_spread(beside)} | |")
    return "\n".join(lines) + (
        "\n\nThis vLLM sizes its KV cache before it captures CUDA graphs, so the graphs come on "
        "top of its share;\nthe estimate counts the graphs within the share, so its KV cache is "
        "smaller by their size. Weights and working set of\nGemma-3 leave out its vision tower. "
        "Some logs differ only in their row length."
    )


def _spread(errors: Sequence[float]) -> str:
    shown = (100 * float(value) for value in np.percentile(errors, [50, 5, 95]))
    return f"{len(errors)} | " + " | ".join(f"{value:+.1f} %" for value in shown)


def _each(found: Sequence[Compared]) -> str:
    lines = [
        "| log | GPUs | " + " | ".join(NAMES.values()) + " |",
        "|---|---:|" + "---:|" * len(NAMES),
    ]
    for item in found:
        row = item.row
        cells = (
            f"{getattr(row, part):.2f} → {size:.2f} ({100 * item.error(part):+.1f} %)"
            for part, size in ((part, item.predicted[part]) for part in NAMES)
        )
        lines.append(f"| {row.log} ({row.commit}) | {row.tp} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _left() -> str:
    each = Counter(why for row in rows() if (why := reason(row)))
    return ", ".join(f"{why} ({count})" for why, count in each.most_common())
