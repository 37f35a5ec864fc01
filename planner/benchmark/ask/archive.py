"""Benchmarks of this machine: a file each in ``HEADROOM_DATA/benchmarks``. No torch."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from planner.benchmark.ask.process import BENCHMARKS
from planner.catalog.card_benchmark import CardBenchmark, benchmark_json, read_benchmark
from planner.jobs.storage import IDENTIFIER, named


def write(found: CardBenchmark, file: Path) -> None:
    """Write a benchmark, whole or not at all.

    Raises:
        OSError: when nothing can be written there.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    fresh = file.with_name(f".{file.name}.part")
    fresh.write_text(benchmark_json(found) + "\n", "utf-8")
    fresh.replace(file)


def keep(found: CardBenchmark, root: Path | None = None) -> Path:
    """Keep a benchmark under its name; returns its file.

    Raises:
        OSError: when nothing can be written there.
    """
    file = BENCHMARKS.place(root) / f"{found.id}.json"
    write(found, file)
    return file


def kept(root: Path | None = None) -> tuple[CardBenchmark, ...]:
    """Every benchmark that can be read, newest first; damaged files are passed over."""
    found: list[CardBenchmark] = []
    for path in named(BENCHMARKS.place(root), ".json"):
        with suppress(OSError, ValueError):
            found.append(read_benchmark(path.read_bytes()))
    return tuple(found)


def remove(identifier: str, root: Path | None = None) -> bool:
    """Delete one; False when there is none of that name."""
    if not IDENTIFIER.fullmatch(identifier):
        return False
    try:
        (BENCHMARKS.place(root) / f"{identifier}.json").unlink()
    except FileNotFoundError:
        return False
    return True
