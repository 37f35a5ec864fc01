"""The text of docs/accuracy.md."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from accuracy import (
    cpu_summary,
    dry_run,
    flat_summary,
    framework_summary,
    front_page,
    gpu_report,
    grid_summary,
    kernel_report,
    times,
    trial_report,
    trl_summary,
    verdict_report,
    verl_summary,
)
from accuracy.colocated import report as colocated_report
from accuracy.engines import report as engines_report
from accuracy.mapping import mappings
from accuracy.peaks import report as peaks_report
from accuracy.prediction import Predicted, Unpredicted
from accuracy.published import Row, rows
from accuracy.quantity import Answer
from accuracy.timings import report as timings_report
from planner.units import GIB

LARGE = 0.10
"""Differences above this must have a note."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """A published row beside its prediction."""

    row: Row
    how: Predicted
    answer: Answer

    @property
    def error(self) -> float:
        """Signed relative error of the estimate."""
        return self.answer.bytes / self.row.bytes - 1

    @property
    def completed_error(self) -> float:
        """The same with what no field of a plan expresses."""
        return self.answer.completed_bytes / self.row.bytes - 1


@cache
def compared() -> tuple[Compared, ...]:
    """Every predicted row, predicted."""
    return tuple(
        Compared(row=row, how=how, answer=how.predict())
        for row in rows()
        if isinstance(how := mappings()[row.id], Predicted)
    )


def unpredicted() -> tuple[Unpredicted, ...]:
    """Every row without a prediction."""
    return tuple(how for how in mappings().values() if isinstance(how, Unpredicted))


def text() -> str:
    """The whole document."""
    found = compared()
    parts = [
        front_page.text(),
        INTRODUCTION.format(rows=len(rows()), predicted=len(found)),
        "## Summary\n\n" + _summary(found),
        "## Every predicted row\n\n" + TABLE + "\n" + _table(found),
        "## What is behind each row\n\n" + "\n\n".join(_details(item) for item in found),
        "## Not predicted, and why\n\n" + _reasons(),
        "## Public runs, measured on GPUs\n\n" + peaks_report.text(),
        "## Whole RL cards\n\n" + colocated_report.text(),
        "## Rollout engines' start-up logs\n\n" + engines_report.text(),
        "## Runs of which only the outcome is known\n\n" + verdict_report.text(),
        "## What no field says\n\n" + NO_FIELD + "\n" + _no_field(found),
        "## Measured on a GPU\n\n" + gpu_report.text(),
        "## Trials on a GPU\n\n" + trial_report.text(),
        "## Kernels on a GPU\n\n" + kernel_report.text(),
        "## Closed form beside dry runs\n\n" + grid_summary.text(),
        "## Closed form beside frameworks' own step\n\n" + framework_summary.text(),
        "## Closed form beside the first dry runs\n\n" + DRY_RUN + "\n" + _dry_run(),
        "## Dry runs beside real runs on a CPU\n\n" + cpu_summary.text(),
        "## TRL's own step beside real runs on a CPU\n\n" + trl_summary.text(),
        "## verl's own engines beside real runs on a CPU\n\n" + verl_summary.text(),
        "## Both under FSDP1, for real on a CPU\n\n" + flat_summary.text(),
        "## Time model beside published speeds\n\n" + TIMES + "\n" + _times(),
        "## Seconds of public runs\n\n" + timings_report.text(),
        MISSING,
    ]
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


INTRODUCTION = """
**Published memory figures.** `accuracy/published.json` has {rows} figures of real GPU runs, with
their sources; {predicted} of them can be planned. The tables below compare the figures with the
closed form for the same settings. The estimate follows torch 2.13.0, transformers 5.23.0 and the
framework versions that a plan can name; the runs used older or newer ones, as each row says.

**Our own GPU runs** are under *Measured on a GPU*, *Trials on a GPU* and *Kernels on a GPU*: an
H100 and an H200, one process each, with torch 2.11.0 where a plan says 2.13.0, random weights, no
vLLM and no traffic between GPUs.

**On a CPU, in every run of the tests**, whole training steps of tiny models are executed and live
storages counted: every family, bf16 and fp32, full and LoRA, padded or not, checkpointed or not,
one micro-batch and two (`tests/test_real_steps.py`, 68 configurations: every phase within 0.1 %, a
first layer's backward at most one layer's gradients too high); rank 0 of eight under FSDP2
(`tests/test_real_fsdp.py`: forward within 0.3 %, backward never lower than that) and under
DistributedDataParallel (`tests/test_real_ddp.py`: within 0.1 %); rollouts by transformers'
`generate` (`tests/test_real_generation.py`: within 3 %).
"""

TABLE = """*Estimate* is the planner's figure for the row's plan, at the level that was measured:
requested, allocated, reserved or device. *Completed* adds what the run's source code or settings
state and no setting of a plan can express; each addition comes from the same formulas and is listed
below the table. We looked for additions only where the estimate's error was large, so the error of
*completed* explains that row and predicts nothing for other runs.
"""

DRY_RUN = """This compares the same formulas with real training steps on fake tensors, recorded in
[memory notes](memory-notes.md). cuBLAS workspaces, which a CPU does not have, are left out.
"""

TIMES = """Figures of `tests/accuracy/test_published_times.py`; none of them was used for the time
model. The interval is the stated error: published over predicted has to lie within it.
"""

NO_FIELD = """No framework and version that a plan can name does any of the following
([decision 0031](decisions/0031-causes-without-a-field.md)).
"""

MISSING = """
## What is missing

- Measurements of our own of several GPUs together, of an engine beside the trainer, of verl's own
  step, of cards other than Hopper's, and with torch 2.13.0.
- What the allocator holds, by a plan's own order of events: the estimate has bounds of the plan's
  kind (decision 0022), the dry run the replay itself.
- prime-rl's own modules of mixtures, distillation, Megatron and Liger's fused linear cross entropy,
  as listed under *not predicted*.
"""


def _no_field(found: Sequence[Compared]) -> str:
    """Additions of the rows above, by what they are: the fields that plans lack."""
    each: dict[str, list[str]] = {}
    for item in found:
        for addition in item.answer.additions:
            each.setdefault(addition.why, []).append(item.row.id)
    lines = ["| what | rows |", "|---|---|"]
    return "\n".join(lines + [f"| {why} | {', '.join(ids)} |" for why, ids in each.items()])


def _summary(found: Sequence[Compared]) -> str:
    lines = [
        "| rows | count | median | p5 | p95 | completed: median | p5 | p95 |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for name, group in _groups(found):
        plain = _spread([item.error for item in group])
        completed = _spread([item.completed_error for item in group])
        lines.append(f"| {name} | {len(group)} | {plain} | {completed} |")
    return "\n".join(lines)


def _groups(found: Sequence[Compared]) -> Iterable[tuple[str, list[Compared]]]:
    yield "all", list(found)
    for level in ("high", "medium"):
        yield (
            f"source's confidence {level}",
            [item for item in found if item.row.confidence == level],
        )
    for comparable in ("like for like", "approximate"):
        yield comparable, [item for item in found if item.how.comparable == comparable]


def _spread(errors: Sequence[float]) -> str:
    values = np.percentile(np.asarray(errors), [50, 5, 95])
    return " | ".join(percent(float(value)) for value in values)


def percent(error: float) -> str:
    """A signed error as a person reads it; below a tenth of a percent with one digit more."""
    return f"{100 * error:+.{1 if abs(error) >= 1e-3 else 2}f} %"


def _table(found: Sequence[Compared]) -> str:
    lines = [
        "| row | level | published, GiB | estimate | error | completed | error "
        "| source's confidence | comparison |",
        "|---|---|---:|---:|---:|---:|---:|---|---|",
    ]
    for item in found:
        answer = item.answer
        completed = (
            f"{answer.completed_bytes / GIB:.2f} | {percent(item.completed_error)}"
            if answer.additions
            else "| "
        )
        lines.append(
            f"| {item.row.id} | {item.how.level} | {item.row.bytes / GIB:.2f} "
            f"| {answer.bytes / GIB:.2f} | {percent(item.error)} | {completed} "
            f"| {item.row.confidence} | {item.how.comparable} |"
        )
    return "\n".join(lines)


def _details(item: Compared) -> str:
    row, how, answer = item.row, item.how, item.answer
    lines = [
        f"### {row.id}",
        "",
        f"- Published: {row.bytes / GIB:.2f} GiB, {row.metric}. {row.framework}, "
        f"{row.algorithm}, {row.tuning}, {row.gpus} × {row.gpu}. Source: {row.source}.",
        f"- Estimate: {answer.bytes / GIB:.2f} GiB ({percent(item.error)}), {answer.where}.",
        f"- Planned as: {how.assumed}",
    ]
    lines += [
        f"- Stage {name}: published {row.stage(name) / GIB:.3f} GiB, estimate {size / GIB:.3f} "
        f"({percent(size / row.stage(name) - 1)})."
        for name, size in answer.stages
    ]
    lines += [
        f"- No field says: {addition.why}: {addition.bytes / GIB:+.2f} GiB."
        for addition in answer.additions
    ]
    lines += [
        f"- Otherwise the same, {words}: {size / GIB:.2f} GiB ({percent(size / row.bytes - 1)})."
        for words, size in answer.variants
    ]
    if how.note:
        lines.append(f"- {how.note}")
    if how.fields is not None:
        settings = ", ".join(f"{key}={value}" for key, value in how.fields.items())
        lines.append(f"- Plan: `{settings}`")
    return "\n".join(lines)


def _reasons() -> str:
    lines = ["| row | reason |", "|---|---|"]
    return "\n".join(lines + [f"| {item.id} | {item.reason} |" for item in unpredicted()])


def _dry_run() -> str:
    lines = ["| what | recorded | formulas | error |", "|---|---:|---:|---:|"]
    for figure in dry_run.figures():
        shown = "{:,.3f}" if figure.recorded < 100 else "{:,.0f}"
        lines.append(
            f"| {figure.what} | {shown.format(figure.recorded)} {figure.unit} "
            f"| {shown.format(figure.predicted)} {figure.unit} "
            f"| {100 * figure.signed_error:+.2f} % |"
        )
    return "\n".join(lines)


def _times() -> str:
    lines = [
        "| what | card | published, s | predicted, s | error | stated interval | source |",
        "|---|---|---:|---:|---:|---|---|",
    ]
    for figure in times.figures():
        low, high = figure.between
        lines.append(
            f"| {figure.what} | {figure.card} | {figure.seconds:.3g} | {figure.predicted:.3g} "
            f"| {percent(figure.signed_error)} | {low:.2f} to {high:.2f} | {figure.source} |"
        )
    return "\n".join(lines)
