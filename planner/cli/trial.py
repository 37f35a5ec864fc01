"""``python -m planner trial PLAN``: the plan's own steps, really run here for a few iterations."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from planner.cli import plan_argument
from planner.cli.answer import known, may_be_json, may_fail, status, table
from planner.units import read_bytes, read_gib, read_seconds

if TYPE_CHECKING:
    from planner.jobs.supervisor import Supervisor
    from planner.trial.ask.folders import TrialFolder
    from planner.trial.ask.footprints import FootprintFigures
    from planner.trial.ask.request import TrialRequest
    from planner.trial.ask.result import TrialResult


def register(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    from planner.trial.ask.request import LIMIT_SECONDS, STEPS, WARM_UP

    plan_argument.takes_plan(parser)
    may_be_json(parser, "the whole result as JSON")
    may_fail(parser)
    parser.add_argument("--device", default="cpu", help="cpu or cuda:0, cuda:1, …")
    parser.add_argument("--steps", type=int, default=STEPS, help="measured steps")
    parser.add_argument("--warm-up", type=int, default=WARM_UP, help="warm-up steps, not measured")
    parser.add_argument(
        "--cap-bytes", type=int, help="pretend that the device has only this much memory"
    )
    parser.add_argument("--limit-seconds", type=float, default=LIMIT_SECONDS)
    parser.add_argument(
        "--host-limit-bytes", type=int, help="end the trial above this much host RAM"
    )
    parser.add_argument(
        "--model-folder",
        default="",
        help="folder with a model's safetensors, to train on real weights",
    )
    parser.add_argument("--lengths", choices=("full", "random"), default="full")
    parser.add_argument("--truncate", choices=("auto", "never"), default="auto")
    parser.add_argument(
        "--depths",
        default="",
        metavar="A,B",
        help="two numbers of layers to run and extrapolate from",
    )
    parser.add_argument("--processes", type=int, default=1, help="processes to start with torchrun")
    parser.add_argument(
        "--snapshot",
        default="",
        metavar="FILE",
        help="write the allocations, for pytorch.org/memory_viz",
    )
    parser.add_argument("--out", type=Path, metavar="FILE", help="write the result as JSON")
    parser.add_argument("--describe", action="store_true", help="say what would run, and stop")
    parser.add_argument(
        "--ray",
        nargs="?",
        const="owner's",
        metavar="ADDRESS",
        help="run it on a Ray cluster: http://head-node:8265, or what HEADROOM_RAY_ADDRESS says",
    )
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    # How a cluster's node runs it: progress, then the result, as lines; nothing is kept there.
    parser.add_argument("--stream", nargs=2, help=argparse.SUPPRESS)


def run(arguments: argparse.Namespace) -> int:
    """Prints the result; 0 when it completed, 1 when it ended in another way.

    3 when the plan did not fit, or would not fit on its own card by what was measured there;
    with ``--exit-zero`` those are 1 and 0.
    """
    from planner.trial.ask.description import describe
    from planner.trial.ask.folders import TrialFolder

    if arguments.stream:
        return _streamed(*arguments.stream)
    if arguments.folder:
        return _seen_to(TrialFolder(arguments.folder), arguments)
    request = _request(arguments)
    if arguments.describe:
        found = describe(request)
        print(found.refused or "\n".join((found.runs, found.most_words, *found.notes)))
        return 2 if found.refused else 0
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        if request.ray:
            raise ValueError("ray: torchrun has started this here; use --processes on a cluster.")
        return _as_a_rank(request, arguments)
    return _seen_to(_new(request), arguments)


def _request(arguments: argparse.Namespace) -> TrialRequest:
    """What the options ask for."""
    from planner.trial.ask.request import TrialRequest, existing_folder, request_of

    plan = plan_argument.require_plan(arguments.plan, arguments.model)
    choices = {name: getattr(arguments, name) for name in TrialRequest.model_fields}
    choices |= {"ray": _address(arguments.ray), "depths": _depths(arguments.depths)}
    if arguments.model_folder and not choices["ray"]:
        choices["model_folder"] = existing_folder(arguments.model_folder)
    if arguments.snapshot:
        choices["snapshot"] = str(Path(arguments.snapshot).resolve())
    return request_of(**{**choices, "plan": plan})


def _seen_to(folder: TrialFolder, arguments: argparse.Namespace) -> int:
    """Run a folder's trial, in a worker process or a job that this one sees to."""
    from planner.trial.ask.supervisor import TrialSupervisor
    from planner.trial.cluster.dispatch import RemoteSupervisor

    result = _ended((RemoteSupervisor if folder.request().ray else TrialSupervisor)(folder))
    _print(result, arguments.json)
    _keep(folder)
    _write(arguments.out, result)
    verdict = result.measured.verdict if result.measured is not None else None
    word = verdict.word if verdict is not None else result.status
    return status(arguments, word) or (0 if result.status == "completed" else 1)


def _depths(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(",") if part)
    except ValueError:
        raise ValueError(f"depths: {text[:40]!r} is not two whole numbers such as 4,8.") from None


def _address(given: str | None) -> str:
    """The cluster's address: as given, or the owner's; empty for this machine."""
    from planner.trial.cluster.address import EXAMPLE, SETTING, owners_address

    if given != "owner's":
        return given or ""
    found = owners_address()
    if not found:
        raise ValueError(f"ray: no cluster is named; give --ray {EXAMPLE}, or set {SETTING}.")
    return found


def _new(request: TrialRequest) -> TrialFolder:
    from planner.trial.ask.process import TRIALS

    try:
        return TRIALS.new(request)
    except OSError as error:
        raise ValueError(
            f"HEADROOM_DATA: the trial cannot be written to {TRIALS.place()}: "
            f"{error.strerror or error}. Nothing ran; free some space there, or set "
            "HEADROOM_DATA to a folder that you may write to."
        ) from None


def _ended(supervisor: Supervisor[TrialRequest, TrialResult]) -> TrialResult:
    """The result, unless a signal ends the trial early; then one that says so."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, supervisor.stop)
    return supervisor.run()


def _streamed(identifier: str, asked: str) -> int:
    """A trial that somebody follows elsewhere by what this process writes."""
    from planner.trial.ask.request import existing_folder, read_request
    from planner.trial.ask.supervisor import TrialSupervisor
    from planner.trial.cluster.stream import root_of, streamed, temporary_folder

    request = read_request(asked)
    if request.model_folder:
        existing_folder(request.model_folder)
    with temporary_folder(request, identifier) as folder:
        with streamed(folder, sys.stdout):
            result = _ended(TrialSupervisor(folder, root_of(folder)))
        _print(result, as_json=True)
        sys.stdout.flush()
    return 0 if result.status == "completed" else 1


def _keep(folder: TrialFolder) -> None:
    """Store the result in the history; where that fails its file stays, and a line says so."""
    from planner.trial.history.errors import HistoryError
    from planner.trial.history.intake import keep

    sys.stdout.flush()  # a database out of reach must not hold back the result
    try:
        keep(folder)
    except HistoryError as error:
        print(f"note: {error}", file=sys.stderr)


def _as_a_rank(request: TrialRequest, arguments: argparse.Namespace) -> int:
    """One of torchrun's processes: it runs the trial itself, and one of them prints it."""
    import tempfile

    from planner.jobs.storage import new_identifier
    from planner.jobs.supervisor import UNFINISHED
    from planner.jobs.turns import Turn
    from planner.trial.ask.folders import TrialFolder
    from planner.trial.ask.process import TRIALS
    from planner.trial.run.worker import run

    first, local = (int(os.environ[name]) == 0 for name in ("RANK", "LOCAL_RANK"))
    name = new_identifier()
    with contextlib.ExitStack() as stack:
        if first:
            place = TRIALS.place() / name
            place.mkdir(parents=True)
        else:
            place = Path(stack.enter_context(tempfile.TemporaryDirectory())) / name
            place.mkdir()
        folder = TrialFolder(place)
        (place / "request.json").write_text(request.model_dump_json(), "utf-8")
        if first:
            folder.own()
        if local:
            count = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
            turn = Turn(request.model_copy(update={"processes": count}).devices(), name)
            stack.callback(turn.close)
            turn.wait(lambda ahead: folder.say("queued", ahead=ahead), lambda: False)
        result = run(folder)
        if first or result.status != "completed":
            _print(result, arguments.json)
            sys.stdout.flush()
            _write(arguments.out, result)
        if first:
            _keep(folder)
    return 0 if result.status == "completed" else UNFINISHED


def _write(out: Path | None, result: TrialResult) -> None:
    from planner.trial.ask.result import result_json

    if out is None:
        return
    fresh = out.with_name(f".{out.name}.part")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        fresh.write_text(result_json(result) + "\n", "utf-8")
        fresh.replace(out)
    except OSError as error:
        with contextlib.suppress(OSError):
            fresh.unlink()
        raise ValueError(
            f"out: {out} cannot be written: {error.strerror or error}. The result is printed, and "
            f"`planner trials --show {result.id}` prints it again."
        ) from None


def _print(result: TrialResult, as_json: bool) -> None:
    from planner.trial.ask.result import result_json

    print(json.dumps(json.loads(result_json(result))) if as_json else _text(result))


def _text(result: TrialResult) -> str:
    lines = [f"Trial {result.id} on {result.where}: {result.status}.", result.reason]
    if result.measured is not None:
        lines += [" ", _compared(result, result.measured), " "]
        if result.measured.verdict is not None:
            judged = result.measured.verdict
            lines += [judged.sentence, *(f"  {line}" for line in judged.lines)]
    ended = result.out_of_memory
    if ended is not None and ended.predicted is not None:
        agreed = "does not fit" if ended.predicted.out_of_memory else "fits"
        lines.append(
            f"For that phase the dry run says {read_bytes(ended.predicted.bytes)}, which {agreed}."
        )
    if ended is not None and ended.would_fit:
        lines.append(f"According to the dry run, this would fit: {ended.would_fit_words}.")
    lines += [
        *(f"note: {note}" for note in result.notes),
        f"It took {read_seconds(result.seconds)}.",
    ]
    if result.status == "failed" and result.stderr_tail:
        lines += [" ", *result.stderr_tail.splitlines()[-12:]]
    return "\n".join(line.strip() for line in lines if line)


def _compared(result: TrialResult, measured: FootprintFigures) -> str:
    level = "requested_bytes" if result.device.kind == "cpu" else "reserved_bytes"
    rows = []
    for phase in measured.phases:
        said = None if result.predicted is None else result.predicted.phase(phase.name)
        expected = None if said is None else getattr(said, level)
        found = getattr(phase, level)
        rows.append(
            (
                phase.name,
                known(_size, expected),
                known(_size, found),
                f"{found / expected - 1:+.2%}" if found is not None and expected else "",
                known(read_seconds, phase.seconds),
                known(read_seconds, phase.first_seconds),
            )
        )
    name = level.partition("_")[0]
    sizes = (f"dry run, {name}", f"measured, {name}")
    header = ("phase", *sizes, "difference", "time", "first step")
    return table(header, rows, right=(1, 2, 3, 4, 5))


def _size(size_bytes: int) -> str:
    return f"{read_gib(size_bytes)} GiB" if size_bytes >= 2**30 else read_bytes(size_bytes)
