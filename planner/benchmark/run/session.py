"""One benchmark from its first tensor to its result. Imports torch.

The time is shared out over the parts; a part that ends early leaves its rest to those after it,
and one that has no time left runs its first case alone.
"""

from __future__ import annotations

import gc
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import torch

from planner import catalog
from planner.background import GivenUp
from planner.benchmark.ask.derivation import derive
from planner.benchmark.run import (
    attention,
    bandwidth,
    decode,
    host_copy,
    launches,
    layers,
    products,
)
from planner.benchmark.run.case import CARD, PROCESSOR, Case, Sizes
from planner.benchmark.run.clock import DeviceClock, Samples, WallClock, sample
from planner.benchmark.run.communicator import communicator_bytes
from planner.benchmark.run.constants import CudaMemory, Reading
from planner.benchmark.run.identity import described, versions_of
from planner.catalog import Gpu
from planner.catalog.card_benchmark import CardBenchmark, Measured, Peaks, ascii_line
from planner.formulas.communication import slot_bytes_per_second
from planner.jobs.turns import Turn
from planner.trial.ask.result import now
from planner.trial.run.device import device_of, environment, used_by_others

Report = Callable[[str, int, int], None]
"""Told what is measured, its number and how many there are."""

PARTS: Mapping[Callable[[Sizes, str], Iterator[Case]], float] = {
    layers.cases: 0.45,
    decode.cases: 0.06,
    bandwidth.cases: 0.07,
    host_copy.cases: 0.05,
    launches.cases: 0.15,
    attention.cases: 0.1,
    products.cases: 0.12,
}
"""Parts in their order, with their shares of the time: what estimates use comes first."""

TOLD = ("part", "name", "model", "sizes", "dtype", "flops", "moved_bytes")
"""What a row takes over from its case."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """What a benchmark reads and runs on; the parts that a test puts its own in place of."""

    device: str
    clock: WallClock
    sizes: Sizes
    gpu: Gpu | None
    """The catalog's row, whose peaks shares are of; None gives rates and no shares."""
    memory: CudaMemory | None = None
    others_bytes: int | None = None
    cards: int = 0
    """Cards that PyTorch sees."""
    notes: list[str] = field(default_factory=list)


def bench_of(device: str) -> Bench:
    """The real one of ``cpu`` or ``cuda:N``.

    Raises:
        ValueError: when there is no such device here.
    """
    if device == "cpu":
        return Bench(device=device, clock=WallClock(), sizes=PROCESSOR, gpu=None)
    others = used_by_others(device)  # before this process touches it
    found = device_of(device, None)
    torch.cuda.set_device(device)
    notes = []
    if not found.gpu:
        notes.append("The catalog lacks this GPU: rates are measured, but not as shares of a peak.")
    return Bench(
        device=device,
        clock=DeviceClock(device),
        sizes=CARD,
        gpu=catalog.gpu(found.gpu) if found.gpu else None,
        memory=CudaMemory(device),
        others_bytes=others,
        cards=torch.cuda.device_count(),
        notes=notes,
    )


def run_benchmark(
    bench: Bench,
    *,
    identifier: str,
    budget_seconds: float,
    report: Report = lambda name, number, count: None,
    cancelled: Callable[[], bool] = lambda: False,
    began: float | None = None,
) -> CardBenchmark:
    """Measure everything, in about ``budget_seconds``.

    Args:
        bench: what it runs on.
        identifier: the benchmark's name.
        budget_seconds: of measuring; imports come on top.
        report: told of progress.
        cancelled: asked again and again.
        began: ``time.monotonic()`` when the process did, for the seconds of all.

    Raises:
        GivenUp: when ``cancelled`` says so.
        ValueError: where a library is missing, or nothing could be measured.
    """
    began = time.monotonic() if began is None else began
    reading = None
    if bench.memory is not None:
        reading = Reading(bench.memory, bench.device, bench.others_bytes)
        reading.start()
    peaks = _peaks(bench.gpu)
    notes = list(bench.notes)
    with warnings.catch_warnings(), torch.random.fork_rng([]):
        warnings.simplefilter("ignore")
        layers.prepare(bench.sizes, bench.device)
        rows = tuple(_rows(bench, budget_seconds, peaks, notes, report, cancelled))
    if not rows:
        raise ValueError(f"device: nothing could be measured on {bench.device}: {notes[0]}")
    derived, left = derive(rows, peaks) if bench.gpu is not None else ((), ())
    if bench.device == "cpu":
        notes.append("Figures of a CPU change no estimate.")
    device = described(bench.device, bench.gpu)
    constants = None
    if reading is not None:
        nccl = {"nccl_bytes": _communicator(bench, identifier, notes)}
        constants = reading.finish().model_copy(update=nccl)
    said = environment(bench.device)
    return CardBenchmark(
        id=identifier,
        created=now(),
        budget_seconds=budget_seconds,
        seconds=max(time.monotonic() - began, 1e-6),
        device=device,
        versions=versions_of(said.versions),
        driver=None if said.driver is None else ascii_line(said.driver),
        peaks=peaks,
        measured=rows,
        derived=derived,
        constants=constants,
        notes=tuple(ascii_line(note) for note in (*notes, *left)),
    )


def _rows(
    bench: Bench,
    budget_seconds: float,
    peaks: Peaks,
    notes: list[str],
    report: Report,
    cancelled: Callable[[], bool],
) -> Iterator[Measured]:
    clock = bench.clock
    parts = [(list(cases(bench.sizes, bench.device)), share) for cases, share in PARTS.items()]
    count = sum(len(cases) for cases, _ in parts)
    number, late, until = 0, 0, clock.now()
    for cases, share in parts:
        until += share * budget_seconds
        for place, case in enumerate(cases):
            number += 1
            if cancelled():
                raise GivenUp
            if place and clock.now() >= until:
                late += 1
                continue
            report(_said(case), number, count)
            left = len(cases) - place
            try:
                found = sample(case, clock, clock.now() + (until - clock.now()) / left, cancelled)
            except RuntimeError as error:  # no memory, or on an old card no kernel
                first, *_ = str(error).split("\n")
                why = f"{type(error).__name__}: {first}"
                if isinstance(error, torch.OutOfMemoryError):
                    why = "the device has not enough memory for it."
                notes.append(f"{_said(case)} is left out: {why}")
                continue
            yield _row(case, found, _peak(case, peaks))
        _free(bench.device)
    if late:
        notes.append(f"{late} of {count} rows are left out: {budget_seconds:g} s were over.")


def _row(case: Case, found: Samples, peak: float | None) -> Measured:
    work = case.flops if case.flops is not None else case.moved_bytes
    share = None if work is None or peak is None else work / found.median / peak
    told = {name: getattr(case, name) for name in TOLD}
    return Measured(
        **told,
        seconds=found.median,
        low_seconds=found.lowest,
        high_seconds=found.highest,
        samples=found.count,
        share=share,
        of=None if share is None else case.of,
    )


def _said(case: Case) -> str:
    sizes = ", ".join(f"{value:,} {name}" for name, value in case.sizes.items())
    of = f" of {case.model.rpartition('/')[2]}" if case.model else ""
    return f"{case.part}: {case.name}{of}{f' ({sizes})' if sizes else ''}"


def _peaks(gpu: Gpu | None) -> Peaks:
    own = {name: getattr(gpu, name, None) for name in Peaks.model_fields}
    return Peaks(**{**own, "slot_bytes_per_second": slot_bytes_per_second(gpu) if gpu else None})


def _peak(case: Case, peaks: Peaks) -> float | None:
    if case.of == "dense peak":
        return peaks.fp32_flops_per_second if case.dtype == "fp32" else peaks.bf16_flops_per_second
    if case.of == "memory bandwidth":
        return peaks.bandwidth_bytes_per_second
    return peaks.slot_bytes_per_second if case.of else None


def _free(device: str) -> None:
    layers.forget()
    launches.forget()
    gc.collect()
    if device != "cpu":
        torch.cuda.empty_cache()


def _communicator(bench: Bench, identifier: str, notes: list[str]) -> int | None:
    """NCCL's bytes, where there is a second card and nobody has it."""
    if bench.cards < 2:
        return None
    other = "cuda:1" if bench.device == "cuda:0" else "cuda:0"
    turn = Turn([other], identifier)
    try:
        turn.wait(lambda ahead: None, lambda: True)
        return communicator_bytes((bench.device, other))
    except GivenUp:
        notes.append(f"NCCL was not measured: {other} is in use.")
        return None
    finally:
        turn.close()
