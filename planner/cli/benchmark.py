"""``python -m planner benchmark``: what share of its peaks a card of this machine reaches."""

from __future__ import annotations

import argparse
import os
import re
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from planner.cli.answer import may_be_json, table
from planner.imports import kept_for_good
from planner.units import read_seconds

if TYPE_CHECKING:
    from planner.benchmark.ask.process import BenchmarkFolder
    from planner.catalog.card_benchmark import CardBenchmark

DEVICE = re.compile(r"cpu|cuda:\d{1,3}")
SECONDS = (1.0, 600.0)


def register(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    from planner.benchmark.ask.process import BUDGET_SECONDS

    parser.add_argument("--device", default="cuda:0", help="cuda:0, cuda:1, … or cpu")
    parser.add_argument(
        "--seconds",
        type=float,
        default=BUDGET_SECONDS,
        help="time to spend measuring, imports not counted",
    )
    parser.add_argument("--out", type=Path, metavar="FILE", help="write the result as JSON")
    may_be_json(parser, "the whole result as JSON")
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)


def run(arguments: argparse.Namespace) -> int:
    """Prints the result; 0 when there is one, 1 when it was given up."""
    from planner.benchmark.ask.process import BenchmarkFolder
    from planner.jobs.storage import new_identifier

    device, seconds = arguments.device, arguments.seconds
    if not DEVICE.fullmatch(device):
        raise ValueError(f"device: {device[:40]!r} is neither cpu nor cuda:0, cuda:1, …")
    if not SECONDS[0] <= seconds <= SECONDS[1]:
        raise ValueError(f"seconds: {seconds:g} is not between {SECONDS[0]:g} and {SECONDS[1]:g}.")
    folder = BenchmarkFolder(arguments.folder) if arguments.folder else None
    identifier = folder.identifier if folder else new_identifier()
    found = _alone(device, seconds, identifier, folder)
    if found is None:
        print("The benchmark was interrupted; no figures are stored.", file=sys.stderr)
        return 1
    _keep(found, arguments.out, folder)
    from planner.catalog.card_benchmark import benchmark_json

    print(benchmark_json(found) if arguments.json else _text(found))
    return 0


def _alone(
    device: str, seconds: float, identifier: str, folder: BenchmarkFolder | None
) -> CardBenchmark | None:
    """The result, measured while the device is nobody else's; None when it was given up.

    Raises:
        ValueError: when a trial or another benchmark has the device.
    """
    from planner.background import GivenUp
    from planner.jobs.turns import Turn

    began = time.monotonic()
    turn = Turn([device], identifier)
    try:
        turn.wait(lambda ahead: None, lambda: True)
        return _measured(device, seconds, identifier, folder, began)
    except GivenUp:
        raise ValueError(
            f"device: a trial or a benchmark runs on {device}, or waits for it; "
            "run the benchmark when it is done."
        ) from None
    except KeyboardInterrupt:
        return None
    finally:
        turn.close()


def _measured(
    device: str, seconds: float, identifier: str, folder: BenchmarkFolder | None, began: float
) -> CardBenchmark | None:
    if device == "cpu":
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    from planner.background import GivenUp

    with kept_for_good():
        from planner.benchmark.run.session import bench_of, run_benchmark

    def report(name: str, number: int, count: int) -> None:
        print(f"{number} of {count}: {name}", file=sys.stderr, flush=True)
        if folder is not None:
            folder.say(name, number=number, count=count)

    try:
        return run_benchmark(
            bench_of(device),
            identifier=identifier,
            budget_seconds=seconds,
            report=report,
            cancelled=lambda: folder is not None and folder.asked_to_stop(),
            began=began,
        )
    except GivenUp:
        return None


def _keep(found: CardBenchmark, out: Path | None, folder: BenchmarkFolder | None) -> None:
    """Into the user's data and the named file; where the first fails, a line says so."""
    import shutil

    from planner.benchmark.ask.archive import keep, write

    if out is not None:
        write(found, out)
    try:
        keep(found, None if folder is None else folder.path.parent.parent)
    except OSError as error:
        print(f"note: the benchmark is not kept: {error}", file=sys.stderr)
        return
    if folder is not None:
        shutil.rmtree(folder.path, ignore_errors=True)


def _text(found: CardBenchmark) -> str:
    from planner.benchmark.ask.words import HEADER, ROWS_HEADER, compared, constants, listed
    from planner.catalog.card_benchmark import speeds_of
    from planner.speeds import speeds_to_text

    versions = ", ".join(f"{name} {text}" for name, text in found.versions.items())
    lines = [
        f"Benchmark {found.id} of {found.device.name} ({versions}).",
        "",
        table(ROWS_HEADER, listed(found), right=(3, 4)),
    ]
    speeds = speeds_of(found)
    if speeds is not None:
        lines += [
            "",
            table(HEADER, compared(found), right=(1, 3)),
            "",
            "For a plan of this card and torch version, add to its link:",
            f"&benchmark={speeds_to_text(speeds)}",
        ]
    lines += [
        "",
        *constants(found),
        *(f"note: {note}" for note in found.notes),
        f"It took {read_seconds(found.seconds)}.",
    ]
    return "\n".join(lines)
