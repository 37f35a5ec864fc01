"""The first page of docs/accuracy.md: how far to trust the figures, for whoever uses them.

The table stands in README.md as well, line by line (``tests/accuracy/test_report.py``).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cache

import numpy as np

from accuracy import gpu_report, grid_summary, verdicts
from accuracy.cases.compare import DIED, FITS, RAN, answered, read
from accuracy.colocated import report as colocated
from accuracy.gpu_report import LONG_SECONDS, WHOLE
from accuracy.peaks.mapping import results as public_peaks
from accuracy.timings import compare, rank
from accuracy.timings import report as published_times
from accuracy.timings import rows as timed
from accuracy.timings.compare import Figure
from planner.trial.evidence.stated_error import MADE_WHOLE

HEAD = "| What | Compared with | Error |"
TABLE = re.compile(rf"^{re.escape(HEAD)}\n(?:\|.*\n)+", re.M)


def text() -> str:
    """The page."""
    return "\n\n".join((ABOVE.strip("\n"), table(), _below()))


ABOVE = """
# Accuracy

How far can you trust a figure? This page says what was measured, how far the figures were off, and
where not to rely on them; the [details](#details) follow. An error is prediction over measurement,
less one: **a negative error means the prediction was too low**, which is the dangerous side.
No factor is fitted to the published runs. Our own GPU runs gave machine constants only: the memory
of CUDA libraries outside PyTorch's allocator, and the speed of kernels and launches.
"""


def put_into(document: str) -> str:
    """A document that has the table, such as README.md, with the table of today."""
    return TABLE.sub(lambda _: table() + "\n", document)


@cache
def table() -> str:
    """What was compared with what, and by how much it was off."""
    return "\n".join(
        (
            HEAD,
            "|---|---|---|",
            *(f"| {what} | {against} | {error} |" for what, against, error in _rows()),
        )
    )


def _rows() -> Iterable[tuple[str, str, str]]:
    yield from _on_cards()
    yield from _of_others()
    yield from _of_times()


def _on_cards() -> Iterable[tuple[str, str, str]]:
    """Training steps that this project ran on GPUs, and the step that a dry run executes."""
    files = gpu_report.files()
    cards = " and ".join(f"an {data['gpu'].split('-')[0].upper()}" for data in files)
    errors = [
        one
        for data in files
        for one in gpu_report.errors(data["cases"], made_whole=data.get("sharded") == MADE_WHOLE)
        if one.phase == WHOLE
    ]
    for what, source, level in (
        ("Peak memory that PyTorch allocates, estimate", "estimate", "allocated"),
        ("Peak memory that the driver sees, estimate", "estimate", "device"),
        ("Peak memory that the driver sees, dry run", "dry run", "device"),
    ):
        signed = [one.signed for one in errors if (one.source, one.level) == (source, level)]
        runs = f"{len(signed)} training steps on {cards}, one process each"
        yield what, runs, _between(min(signed), max(signed))
    grid = grid_summary.differences()
    plans = len(grid_summary.stored()["rows"])
    yield (
        "Peak memory that a step requests, estimate",
        f"dry runs of the real step: {len(grid):,} phases of {plans} plans",
        f"95 % within {100 * grid_summary.percentile(95):.2f} %",
    )


def _of_others() -> Iterable[tuple[str, str, str]]:
    """What others measured and published."""
    ran = [
        item
        for item in public_peaks()[0]
        if item.row.outcome == "ran" and item.row.confidence == "high"
    ]
    signed = [item.error("device") for item in ran if "device" in item.row.peaks]
    yield (
        "Peak memory that the driver sees, estimate",
        f"{len(signed)} public training runs read by nvidia-smi",
        f"median {_percent(float(np.median(signed)))}, 90 % {_middle(signed)}",
    )
    signed = [item.error(item.cold) for item in colocated.found()]
    yield (
        "Peak memory of RL with a colocated vLLM",
        f"{len(signed)} published peaks of GRPO with LoRA, one GPU",
        _between(min(signed), max(signed)),
    )
    cases = answered()
    died = [row for row in cases if row.ended == DIED]
    fits = sum(row.word == FITS for row in died)
    apart = len({row.case["id"] for row in died if row.word == FITS})
    ran_well = [row for row in cases if row.ended == RAN]
    good = sum(row.word == FITS for row in ran_well)
    yield (
        "The verdict",
        f"{len(read()['rows'])} public reports: {len(died)} plans that ran out of memory, "
        f"{len(ran_well)} that ran",
        f"said to fit: {fits} of those that died ({apart} reports, cause open), {good} of those "
        "that ran",
    )


def _of_times() -> Iterable[tuple[str, str, str]]:
    """Seconds: our own cards', then the published half that nobody saw before it was scored."""
    measured = [
        said / real - 1
        for data in gpu_report.files()
        for _, said, real in gpu_report.seconds(data["cases"])
        if real >= LONG_SECONDS
    ]
    yield (
        f"Time of a training phase of at least {LONG_SECONDS} s",
        f"{len(measured)} phases on the same cards",
        f"median {_percent(float(np.median(measured)))}, 90 % {_middle(measured)}",
    )
    first, now = (
        published_times._recorded(file) for file in (published_times.HELD, published_times.AGAIN)
    )
    for what, group, phase in (
        ("Time of an update, dense models", compare.TRAINING, "update"),
        ("Time of an update, mixtures of experts", compare.MIXED_TRAINING, "update"),
        ("Time of an RL step, dense models", compare.DENSE, "step"),
    ):
        today, then = (_judged(some, group, phase) for some in (now, first))
        yield (
            what,
            f"{len(today)} published runs, kept unseen while the time model was built",
            f"median {_size(today)} either way ({_size(then)} when first scored)",
        )
    yield (
        "Which of several settings is faster",
        "the same runs, within each source",
        f"rank correlation {_order(now):.2f} ({_order(first):.2f} when first scored)",
    )


def _judged(figures: Sequence[Figure], group: str, phase: str) -> list[float]:
    """Errors of figures whose source states all that decides the time."""
    return [one.error for one in figures if one.judged and (one.group, one.phase) == (group, phase)]


def _order(figures: Sequence[Figure]) -> float:
    ordered = [one for one in rank.ranked(figures) if one.spearman == one.spearman]
    return sum(one.spearman * one.rows for one in ordered) / sum(one.rows for one in ordered)


def _size(errors: Sequence[float]) -> str:
    return f"{100 * float(np.median(np.abs(errors))):.0f} %"


def _middle(errors: Sequence[float]) -> str:
    low, high = np.percentile(np.asarray(errors), [5, 95])
    return _between(float(low), float(high))


def _between(low: float, high: float) -> str:
    return f"between {_percent(low)} and {_percent(high)}"


def _percent(error: float) -> str:
    return f"{100 * error:+.1f} %"


def _below() -> str:
    planned = [row for row in verdicts.judged() if row.verdict is not None]
    ran = [row for row in planned if row.outcome in ("ran", "recommended")]
    return BELOW.strip("\n").format(
        timings=len(timed.rows()),
        severe=sum(row.false_out_of_memory for row in ran),
        ran=len(ran),
    )


BELOW = """
## Where not to trust it

- **Several GPUs.** We measured single processes. What sharding adds is checked against real
  FSDP, DDP and ZeRO runs on CPUs and against published runs, and never on a multi-GPU machine of
  our own. A vLLM beside the trainer is checked against published runs, never in runs of our own.
- **Other cards than H100 and H200**, and other PyTorch versions: our runs used torch 2.11.0 where
  a plan says 2.13.0. Driver, libraries and the allocator's unused cache differ from card to card:
  read the range, not the centre.
- **Public reports one by one** stand in [cases.md](cases.md), with the two whose cause is open.
- **"Out of memory" can be too strict.** Of {ran} published settings that ran, or that their authors
  recommend, {severe} are said not to fit. Most sources state only a cap on lengths, and memory is
  planned for rows at that cap.
- **Seconds of a whole RL step.** Few sources state enough to judge a step's time. Each time has a
  range; rank plans by their times rather than rely on the seconds.
- **Seconds of small models.** In phases shorter than 0.5 s the host launches kernels more slowly
  than the GPU runs them, and hosts differ.
- **What is not modelled**: tensor, pipeline, context and expert parallelism in training (Megatron),
  vision towers, several turns, FlashAttention-4. A plan or link that asks for such a feature is
  refused, or reported as incomplete with what is missing.

For your own plan, go on to evidence of your own: a **dry run** executes the real step and needs no
GPU; a **trial** runs a few steps on your card. `scripts/measure KEY FOLDER` takes all of the
measurements here on another card.

## How to read a figure

| Word | Meaning |
|---|---|
| requested | bytes that tensors ask for |
| allocated | the same, rounded up by PyTorch's allocator |
| reserved | what the allocator holds, used or not |
| device | what the driver sees: reserved, the CUDA context and libraries |
| estimate | the closed form: a sum over what each operation keeps for the backward pass |
| dry run | the real training step on fake tensors |
| trial | the real training step, run on this machine |

## Details

The rest of this page is for whoever wants to check. `python -m accuracy` writes it and the page
above (with the test requirements installed), and a test compares both with what the command writes:
edit `accuracy/`, not this file. The {timings} published timings are under *Seconds of public runs*.
"""
