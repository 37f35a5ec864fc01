"""TRL's trainers under DeepSpeed's ZeRO for real on a CPU, beside the closed form.

``python -m accuracy.zero_runs --out accuracy/measured/zero-vs-cpu.json`` runs every case, each in
processes of its own over gloo. TRL's trainer, accelerate and DeepSpeed's engine are their own,
made from the two files that an export writes; torch's allocator reports every byte of rank 0.
DeepSpeed is in no requirements: it builds as it installs. Once, into an environment of its own::

    DS_BUILD_OPS=0 pip install --no-deps --no-build-isolation deepspeed==0.19.8
    pip install --no-deps hjson ninja py-cpuinfo msgpack einops psutil
"""

from __future__ import annotations

import argparse
import gc
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
import torch.distributed as dist

from accuracy.trainer_runs import saved
from accuracy.trl_cases import ADAPTERS, AUTOCAST, PAIRS, Case
from planner.frameworks.trl.own_step import arguments
from planner.frameworks.trl.run.made import fed, trainer_of
from planner.frameworks.trl.run.phases import Phases
from planner.frameworks.trl.run.seams import engine, kernels
from planner.launch.huggingface.accelerate import accelerate_files
from planner.launch.huggingface.deepspeed import DEEPSPEED
from planner.launch.huggingface.processes import training_gpus
from planner.launch.huggingface.run.batches import STEPS
from planner.launch.huggingface.run.phases import UPDATE
from planner.trial.run.allocations import Marks, peak_bytes
from planner.trial.run.collectives import settled

LIBRARIES = ("torch", "transformers", "trl", "accelerate", "deepspeed")
MEASURED = Path(__file__).with_name("measured") / "zero-vs-cpu.json"
GATHERS = ("all_gather_into_tensor", "reduce_scatter_tensor")
"""What stage 3 asks for besides; gloo's threads must have forgotten these, too."""
ROOT = Path(__file__).parent.parent
STAGE_3: dict[str, Any] = {"sharding": "zero3"}
HALVES: dict[str, Any] = {"gradient_dtype": "bf16"}


def _case(
    name: str, method: str, *changes: dict[str, Any], gpus: int = 2, model: str = "qwen2"
) -> Case:
    told: dict[str, Any] = {"gpus": gpus, "prompts_per_step": 4 * gpus, **AUTOCAST}
    for each in changes:
        told |= each
    return Case(name, method, told, model, head="gpu")


CASES = (
    *(
        _case(f"SFT, ZeRO-{stage}, {width} gradients", "sft", {"sharding": f"zero{stage}"}, more)
        for stage in (1, 2, 3)
        for width, more in (("fp32", {}), ("bf16", HALVES))
    ),
    _case("SFT, ZeRO-3, fp32 gradients, wide", "sft", STAGE_3, model="qwen2, wide"),
    _case("SFT, ZeRO-3, bf16 gradients, wide", "sft", STAGE_3, HALVES, model="qwen2, wide"),
    _case("SFT, ZeRO-3, bf16 gradients, deep", "sft", STAGE_3, HALVES, model="qwen2, deep"),
    _case("SFT, ZeRO-1, one GPU", "sft", {"sharding": "zero1"}, gpus=1),
    _case("SFT, ZeRO-2, one GPU", "sft", {"sharding": "zero2"}, gpus=1),
    _case("SFT, ZeRO-2, LoRA", "sft", {"sharding": "zero2"}, ADAPTERS),
    _case("DPO, ZeRO-2", "dpo", {"sharding": "zero2"}, PAIRS),
)
"""Two micro-batches a step, the GPU's branches of TRL's head."""


def key(case: Case) -> str:
    """A hash of what a case's run is told: TRL's arguments, DeepSpeed's file, the model."""
    files = [file.text for file in accelerate_files(case.plan)]
    told = [case.config, case.head, arguments(case.plan), *files]
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:16]


def real_peaks(case: Case) -> dict[str, int]:
    """Most live bytes by phase of this process's second step; torchrun has started it."""
    from accelerate.state import PartialState
    from accelerate.utils import DistributedType

    run: Any = import_module("deepspeed.runtime.engine").DeepSpeedEngine
    by_deepspeed = lambda *_, **__: ("gloo", DistributedType.DEEPSPEED)  # noqa: E731
    with warnings.catch_warnings(), tempfile.TemporaryDirectory() as name:
        warnings.simplefilter("ignore")
        folder = Path(name)
        checkpoint = saved(case, str(arguments(case.plan)["dtype"]), folder / "model")
        dist.init_process_group("gloo")

        def two_steps(marks: Marks) -> Any:
            trainer = trainer_of(case.plan, folder, str(checkpoint))
            fed(trainer, [case.plan])
            steps, last = iter(range(STEPS)), marks.last_step()

            def begins() -> None:
                if next(steps) == STEPS - 1:
                    last.__enter__()

            phases, update = Phases(trainer, marks.phase, begins), run._take_model_step

            def updated(*given: Any, **named: Any) -> Any:
                with phases._phase(UPDATE):  # which accelerate's backward calls
                    return update(*given, **named)

            gc.collect()
            with patch.object(run, "_take_model_step", updated):
                trainer.train()
            last.__exit__(None, None, None)
            return trainer

        inside = (
            patch.dict(os.environ, _environment(case, folder)),
            patch.object(PartialState, "_prepare_backend", by_deepspeed),
        )
        flags = torch.backends.mkldnn.flags(enabled=False)
        with inside[0], inside[1], engine(), kernels(), flags, settled(*GATHERS):
            return peak_bytes(two_steps)


def _environment(case: Case, folder: Path) -> dict[str, str]:
    """As ``accelerate launch`` tells its processes of DeepSpeed, but for the device."""
    (settings,) = (file for file in accelerate_files(case.plan) if file.name == DEEPSPEED)
    (folder / DEEPSPEED).write_text(settings.text, "utf-8")
    return {
        "DS_ACCELERATOR": "cpu",
        "HF_DEACTIVATE_ASYNC_LOAD": "1",
        "ACCELERATE_USE_DEEPSPEED": "true",
        "ACCELERATE_DEEPSPEED_CONFIG_FILE": str(folder / DEEPSPEED),
        "ACCELERATE_DEEPSPEED_ZERO3_INIT": "false",
        "ACCELERATE_TORCH_DEVICE": "cpu",
        "ACCELERATE_BYPASS_DEVICE_MAP": "true",
        "ACCELERATE_MIXED_PRECISION": "no",
    }


def main(given: Sequence[str] | None = None) -> int:
    """Runs every case and writes what was found; or is one of a case's processes."""
    parser = argparse.ArgumentParser(prog="python -m accuracy.zero_runs", description=__doc__)
    parser.add_argument("--out", type=Path, help="JSON file to write")
    parser.add_argument("--case", help="one of the processes of this case")
    told = parser.parse_args(given)
    if told.case:
        torch.set_num_threads(1)
        (case,) = (case for case in CASES if case.name == told.case)
        found = real_peaks(case)
        if dist.get_rank() == 0:
            told.out.write_text(json.dumps(found), "utf-8")
        return 0
    rows = [{"name": case.name, "key": key(case), "real_bytes": _run(case)} for case in CASES]
    versions = {name: version(name) for name in LIBRARIES}
    told.out.write_text(json.dumps({"versions": versions, "cases": rows}, indent=1) + "\n", "utf-8")
    return 0


def _run(case: Case) -> dict[str, int]:
    torchrun = ["-m", "torch.distributed.run", "--standalone"]
    count = f"--nproc-per-node={training_gpus(case.plan)}"
    with tempfile.TemporaryDirectory() as name:
        out = Path(name) / "peaks.json"
        own = ["-m", "accuracy.zero_runs", "--case", case.name, "--out", str(out)]
        subprocess.run([sys.executable, *torchrun, count, *own], cwd=ROOT, check=True)
        found: dict[str, int] = json.loads(out.read_text("utf-8"))
    print(case, found, flush=True)
    return found


if __name__ == "__main__":
    sys.exit(main())
