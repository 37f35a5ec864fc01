"""TRL's trainers and verl's engines under FSDP1 for real on a CPU, beside the closed form.

``python -m accuracy.flat_runs --out accuracy/measured/fsdp1-vs-cpu.json`` runs every case, each in
a process of its own, as :mod:`accuracy.trl_runs` and :mod:`accuracy.verl_runs` run theirs: torch's
own FSDP1 has tensors with data, and torch's allocator reports every byte. The other ranks of its
group are not there, so no collective brings data, and none makes a tensor that only gloo has.
FSDP1's flat weights do not run without data, so a dry run takes FSDP2 in their place: what both
make is written too, size by size. Takes ten minutes on one core, and no network.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
import torch.distributed as dist
from accelerate.utils import operations
from torch.distributed.fsdp import _init_utils
from torch.testing._internal.distributed.fake_pg import FakeStore

from accuracy import trainer_runs, trl_runs, verl_runs
from accuracy import trl_cases as trl
from accuracy import verl_cases as verl
from accuracy.real_runs import Peaks, code, digest
from planner.launch.huggingface.run.ranks import launched
from planner.trial.run.allocations import ALLOCATOR, LAST_STEP, PHASE, Allocations

MEASURED = Path(__file__).with_name("measured") / "fsdp1-vs-cpu.json"
ROOT = Path(__file__).parent.parent
RANKS = 4
LEAST_BYTES = 32 * 1024
"""Of the tensors that are counted: below are masks, norms and metrics."""
LIBRARIES = ("torch", "transformers", "trl", "accelerate", "verl", "tensordict")
Case = trl.Case | verl.Case
KEPT: dict[str, Any] = {"reshard_after_forward": False}
APART: dict[str, Any] = {
    **trl.ENGINE,
    "gpus": RANKS + 1,
    "gpus_per_node": RANKS + 1,
    "prompts_per_step": 2 * RANKS,
}
EACH: dict[str, Any] = {**verl.ONE, "prompts_per_step": 4 * RANKS}


def _trl(name: str, method: str, *changes: dict[str, Any], model: str = "qwen2") -> trl.Case:
    told: dict[str, Any] = {"gpus": RANKS, "sharding": "fsdp1", "prompts_per_step": 4 * RANKS}
    for each in (trl.AUTOCAST, *changes):
        told |= each
    return trl.Case(name, method, told, model, head="gpu")


def _verl(name: str, method: str, *changes: dict[str, Any], tied: bool = False) -> verl.Case:
    told: dict[str, Any] = {"gpus": RANKS, "sharding": "fsdp1", "prompts_per_step": 2 * RANKS}
    for each in changes:
        told |= each
    return verl.Case(name, method, told, verl.TIED if tied else verl.CONFIG)


CASES: tuple[Case, ...] = (
    _trl("TRL, SFT", "sft"),
    _trl("TRL, SFT, long, checkpointed", "sft", trl.CHECKPOINTED, trl.LONG),
    _trl("TRL, SFT, bf16 weights", "sft", trl.HALF),
    _trl("TRL, SFT, deep", "sft", model="qwen2, deep"),
    _trl("TRL, SFT, LoRA, checkpointed", "sft", trl.ADAPTERS, trl.CHECKPOINTED),
    _trl("TRL, SFT, not resharded", "sft", KEPT),
    _trl("TRL, DPO", "dpo", trl.PAIRS),
    _trl("TRL, DPO, not resharded", "dpo", trl.PAIRS, KEPT),
    _trl("TRL, GRPO", "grpo", APART, {"kl": "none"}),
    _trl("TRL, GRPO, KL", "grpo", APART, trl.KL),
    _trl("TRL, GRPO, KL, checkpointed", "grpo", APART, trl.KL, trl.CHECKPOINTED, trl.LONG),
    _verl("verl, GRPO", "grpo", verl.PACKED),
    _verl("verl, GRPO, KL", "grpo", verl.PACKED, verl.KL),
    _verl("verl, GRPO, tied, without checkpoints", "grpo", verl.PACKED, verl.KEPT, tied=True),
    _verl("verl, GRPO, not resharded", "grpo", verl.PACKED, KEPT),
    _verl("verl, PPO", "ppo", verl.PACKED, EACH),
)
"""Two micro-batches a step. verl's rows are packed: of padded ones a CPU's autocast leaves the
entropy narrow."""


def measured(case: Case) -> dict[str, Any]:
    """Of this rank's second step, by phase, as torch's allocator saw it.

    The most live bytes, and how many tensors of each size were made, small ones left out.
    """
    made: dict[str, Counter[int]] = {}
    runs: Any = verl_runs if isinstance(case, verl.Case) else trl_runs
    with _others_not_there(), patch.object(Allocations, "_take", _counting(made)):
        peaks: Peaks = runs.real_peaks(case)
    sizes = {name: {str(size): made[name][size] for size in sorted(made[name])} for name in peaks}
    return {"real_bytes": peaks, "made": sizes}


def _counting(made: dict[str, Counter[int]]) -> Callable[..., None]:
    take = Allocations._take

    def taken(watched: Allocations, events: Iterable[Any], outside: str) -> None:
        found = list(events)
        begins = max(one.start_ns() for one in found if one.name() == LAST_STEP)
        phases = [one for one in found if one.name().startswith(PHASE)]
        for phase in (one for one in phases if one.start_ns() >= begins):
            counted = made.setdefault(phase.name().removeprefix(PHASE), Counter())
            for one in found:
                inside = phase.start_ns() <= one.start_ns() <= phase.end_ns()
                if one.name() == ALLOCATOR and inside and one.nbytes() >= LEAST_BYTES:
                    counted[one.nbytes()] += 1
        take(watched, found, outside)

    return taken


@contextmanager
def _others_not_there() -> Iterator[None]:
    ranks = {name: str(RANKS) for name in ("WORLD_SIZE", "LOCAL_WORLD_SIZE")}
    first = {name: "0" for name in ("RANK", "LOCAL_RANK")}
    with ExitStack() as stack:
        enter = stack.enter_context
        enter(patch.dict(os.environ, {**ranks, **first}))
        for owner, name, value in _seams():
            enter(patch.object(owner, name, value))
        yield


def _seams() -> tuple[tuple[Any, str, Any], ...]:
    """What is ours: the group, and what a CPU or a missing rank would do otherwise."""
    norm = torch.linalg.vector_norm

    def narrow(tensor: torch.Tensor, *of: Any, dtype: Any = None, **more: Any) -> torch.Tensor:
        # A CPU widens a copy of half-precision gradients for it; a card's kernel reads them.
        return norm(tensor, *of, **more).to(dtype)

    return (
        (trainer_runs, "group", _launched),
        (verl_runs, "process_group", _group),
        (operations, "_gpu_gather_object", lambda objects: list(objects) * RANKS),
        # The first rank would hand out its weights, from a card; all have made their own.
        (_init_utils, "_sync_module_params_and_buffers", lambda *_, **__: None),
        (torch.Tensor, "pin_memory", lambda tensor, *_: tensor),
        (torch.linalg, "vector_norm", narrow),
    )


@contextmanager
def _group() -> Iterator[None]:
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=RANKS)
    try:
        yield
    finally:
        dist.destroy_process_group()


@contextmanager
def _launched(case: trl.Case, folder: Path, rank: int, _: Path) -> Iterator[None]:
    alone = {"FSDP_CPU_RAM_EFFICIENT_LOADING": "false", "FSDP_SYNC_MODULE_STATES": "false"}
    launch = launched(case.plan, folder, torch.device("cpu"), rank)
    with _group(), launch, patch.dict(os.environ, alone):
        yield


def key(case: Case) -> str:
    """A hash of all that decides a case's run: theirs of its framework, and what is ours here."""
    own = [code(one) for one in (measured, _counting, _others_not_there, _seams)]
    own += [code(one) for one in (_group, _launched)]
    runs: Any = verl_runs if isinstance(case, verl.Case) else trl_runs
    of_framework = runs.key(case)
    return digest([*own, RANKS, LEAST_BYTES, of_framework])


@cache
def stored() -> dict[str, dict[str, Any]]:
    """The committed rows by name."""
    return {row["name"]: row for row in json.loads(MEASURED.read_text("utf-8"))["cases"]}


def main(given: Sequence[str] | None = None) -> int:
    """Runs every case and writes what was found; or is one of them."""
    parser = argparse.ArgumentParser(prog="python -m accuracy.flat_runs", description=__doc__)
    parser.add_argument("--out", type=Path, help="JSON file to write")
    parser.add_argument("--one", default="", metavar="NAME", help="run it, print what it says")
    told = parser.parse_args(given)
    if told.one:
        torch.set_num_threads(1)
        (case,) = (case for case in CASES if case.name == told.one)
        print(json.dumps(measured(case)))
        return 0
    rows = [{"name": case.name, "key": key(case), **_apart(case)} for case in CASES]
    versions = {name: version(name) for name in LIBRARIES}
    told.out.write_text(json.dumps({"versions": versions, "cases": rows}, indent=1) + "\n", "utf-8")
    return 0


def _apart(case: Case) -> dict[str, Any]:
    command = [sys.executable, "-m", "accuracy.flat_runs", "--one", case.name]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    print(case, found["real_bytes"], flush=True)
    return found


if __name__ == "__main__":
    sys.exit(main())
