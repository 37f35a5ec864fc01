"""``python -m planner sampling run``: prompts to weights, really computed here."""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from planner.cli.answer import known, may_be_json, table
from planner.units import read_bytes, read_seconds

if TYPE_CHECKING:
    from planner.sampling.ask.result import SamplingResult
    from planner.sampling.ask.store import SamplingFolder

CHOICES = {
    "embedding": "mean over a prompt's tokens of its last hidden states, or of its logits",
    "dtype": "what embeddings are stored in",
    "model_dtype": "what the model runs in",
    "index": "brute force of scikit-learn, or FAISS",
    "mode": "all vectors in memory beside the model, in memory alone, or never whole",
    "favour": "which prompts are sampled more often",
}
NUMBERS = {
    "neighbours": "nearest neighbours of each prompt, itself excluded",
    "lists": "of an IVF index; 0 is derived",
    "probes": "lists that a search visits; 0 is derived",
    "training_prompts": "that train an IVF index; 0 is derived",
    "prompt_tokens": "at which prompts are cut",
    "batch_size": "prompts of one forward",
    "chunk_prompts": "prompts of one Parquet chunk; 0 is 64 MiB of them",
    "recall_prompts": "whose exact neighbours an IVF index is compared with",
}


def register(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    from planner.sampling.ask.request import SamplingRequest
    from planner.sampling.plan import choices

    plain = SamplingRequest(prompts="-", model="-")
    parser.add_argument("prompts", nargs="?", help="JSON lines, each with a prompt")
    parser.add_argument("--model", help="a folder with safetensors, or a Hub id")
    parser.add_argument("--revision", default="", help="of the Hub's model")
    parser.add_argument("--device", default=plain.device, help="cpu or cuda:0, cuda:1, …")
    for name, help in CHOICES.items():
        parser.add_argument(_flag(name), choices=choices(name), default=getattr(plain, name),
                            help=help)
    for name, help in NUMBERS.items():
        parser.add_argument(_flag(name), type=int, default=getattr(plain, name), help=help)
    parser.add_argument("--calibration-seconds", type=float, default=plain.calibration_seconds)
    parser.add_argument("--ray", default="", metavar="ADDRESS",
                        help="compute as Ray Data jobs: auto, local, or a cluster's address")
    parser.add_argument("--out", type=Path, metavar="FOLDER",
                        help="copy the weights, and a sampler for each trainer, there")
    parser.add_argument("--resume", metavar="RUN", help="continue a run that was stopped")
    may_be_json(parser, "the whole result as JSON")
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def run(arguments: argparse.Namespace) -> int:
    """Prints the stages as they end and then the result; 0 when there are weights, 1 otherwise."""
    from planner.jobs.following import followed
    from planner.sampling.ask.supervisor import SamplingSupervisor

    folder = _what(arguments)
    supervisor = SamplingSupervisor(folder)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, supervisor.stop)
    with followed(folder, _heard):
        result = supervisor.run()
    if result.status == "completed" and arguments.out is not None:
        _copied(folder, arguments.out)
    print(result.model_dump_json(indent=2) if arguments.json else _text(result, folder))
    return 0 if result.status == "completed" else 1


def _what(arguments: argparse.Namespace) -> SamplingFolder:
    """A run's folder: a new one, the page's, or one that goes on."""
    from planner.sampling.ask.process import RUNS, reopen
    from planner.sampling.ask.request import SamplingRequest, request_of
    from planner.sampling.ask.store import SamplingFolder

    if arguments.folder is not None:
        return SamplingFolder(arguments.folder)
    if arguments.resume:
        found = RUNS.find(arguments.resume)
        if found is None:
            raise ValueError(f"resume: no run {arguments.resume[:64]!r} in the data folder.")
        reopen(found)
        return found
    if not arguments.prompts or not arguments.model:
        raise ValueError("prompts and --model are needed: a file of JSON lines, and a model.")
    given = {name: getattr(arguments, name) for name in SamplingRequest.model_fields}
    for name in ("prompts", "model"):
        if Path(given[name]).exists():
            given[name] = str(Path(given[name]).resolve())
    return RUNS.new(request_of(**given))


def _heard(lines: list[str]) -> None:
    """What happens, on stderr."""
    from planner.sampling.ask.words import said

    for line in filter(None, map(said, map(json.loads, lines))):
        print(line, file=sys.stderr, flush=True)


def _copied(folder: SamplingFolder, out: Path) -> None:
    from planner.sampling.ask.samplers import samplers
    from planner.sampling.ask.store import WEIGHTS

    out.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(folder.path / WEIGHTS, out / WEIGHTS)
    for sampler in samplers():
        (out / sampler.file_name).write_text(sampler.text, "utf-8")


def _text(result: SamplingResult, folder: SamplingFolder) -> str:
    from planner.sampling.ask.store import WEIGHTS
    from planner.sampling.ask.words import HEADER, rows

    lines = [f"Run {result.id}: {result.status} in {read_seconds(result.seconds)}."]
    if result.reason:
        lines.append(result.reason)
    if result.stages:
        lines += ["", table(HEADER, rows(result), right=(1, 2, 3, 4, 5, 6))]
    if result.status != "completed":
        again = f"python -m planner sampling run --resume {result.id}"
        return "\n".join([*lines, "", f"To go on: {again}"])
    lines += ["", f"Peak host RAM: {known(read_bytes, result.measured_peak_bytes)} measured, "
              f"{known(read_bytes, result.predicted_peak_bytes)} predicted."]
    if result.recall is not None:
        lines.append(f"Recall of the index: it found {result.recall:.1%} of the exact neighbours.")
    for label, examples in (("Rarest", result.rarest), ("Commonest", result.commonest)):
        lines += ["", f"{label} prompts (mean distance, line, text):"]
        lines += [f"  {one.distance:.4f}  {one.place + 1:>8}  {' '.join(one.text.split())[:80]}"
                  for one in examples[:5]]
    lines += ["", *(f"note: {note}" for note in result.notes),
              f"Weights: {folder.path / WEIGHTS}"]
    return "\n".join(lines)
