"""TRL's trainers under DeepSpeed's ZeRO for real on a CPU, beside the closed form.

``python -m accuracy.zero_runs --out accuracy/measured/zero-vs-cpu.json`` runs every case that the
file does not have, each in processes of its own over gloo. TRL's trainer, accelerate and
DeepSpeed's engine are their own, made from the two files that an export writes; torch's allocator
reports every byte of the rank that takes most. Some cases tell DeepSpeed sizes as small as their
models are, so that a bucket is smaller than an embedding, and fewer weights are live than there
are. DeepSpeed is in no requirements: it builds as it installs. Once, into an environment of its
own::

    pip install wheel
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
from contextlib import ExitStack
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
import torch.distributed as dist

from accuracy.trainer_runs import saved
from accuracy.trl_cases import ADAPTERS, AUTOCAST, CHECKPOINTED, PAIRS, Case
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
from planner.values.zero import ZERO, ZeroDefaults

LIBRARIES = ("torch", "transformers", "trl", "accelerate", "deepspeed")
MEASURED = Path(__file__).with_name("measured") / "zero-vs-cpu.json"
ROOT = Path(__file__).parent.parent
ZERO1, ZERO2, ZERO3 = ({"sharding": f"zero{stage}"} for stage in (1, 2, 3))
BROAD, DEEP = "qwen2, wide", "qwen2, deep"
ROWS: dict[str, Any] = {"prompt_tokens": 4, "response_tokens": 4}
"""So short that no loss hides what DeepSpeed makes."""
ONCE: dict[str, Any] = {"prompts_per_step": 4}
WIDE_SENT: dict[str, Any] = {"reduce_dtype": "fp32"}
HALVES: dict[str, Any] = {"gradient_dtype": "bf16"}


@dataclass(frozen=True, slots=True)
class ZeroCase(Case):
    """A case with sizes of DeepSpeed's that are as small as its model."""

    sizes: ZeroDefaults = ZERO

    @property
    def told(self) -> dict[str, int]:
        """The sizes that are not DeepSpeed's own, by their names."""
        pairs = zip(ZERO._asdict().items(), self.sizes, strict=True)
        return {name: size for (name, own), size in pairs if size != own}


def _case(
    name: str,
    method: str,
    *changes: dict[str, Any],
    gpus: int = 2,
    model: str = "qwen2",
    sizes: ZeroDefaults = ZERO,
) -> ZeroCase:
    told: dict[str, Any] = {"gpus": gpus, "prompts_per_step": 4 * gpus, **AUTOCAST}
    for each in changes:
        told |= each
    return ZeroCase(name, method, told, model, head="gpu", sizes=sizes)


FEW = ZeroDefaults(reduce_bucket_size=1_000_000)
"""Less than an embedding has weights, as it is of a model of 7 B with DeepSpeed's own sizes."""
FEW_LIVE = ZeroDefaults(
    reduce_bucket_size=2_000_000,
    sub_group_size=4_000_000,
    stage3_max_live_parameters=4_000_000,
    stage3_max_reuse_distance=4_000_000,
    stage3_prefetch_bucket_size=200_000,
    stage3_param_persistence_threshold=1_000,
)
"""DeepSpeed's own divided by 250 and less, as the wide model's weights are those of a 7 B."""


CASES = (
    *(
        _case(f"SFT, ZeRO-{stage}, {width} gradients", "sft", {"sharding": f"zero{stage}"}, more)
        for stage in (1, 2, 3)
        for width, more in (("fp32", {}), ("bf16", HALVES))
    ),
    _case("SFT, ZeRO-3, fp32 gradients, wide", "sft", ZERO3, model=BROAD),
    _case("SFT, ZeRO-3, bf16 gradients, wide", "sft", ZERO3, HALVES, model=BROAD),
    _case("SFT, ZeRO-3, bf16 gradients, deep", "sft", ZERO3, HALVES, model=DEEP),
    _case("SFT, ZeRO-1, one GPU", "sft", ZERO1, gpus=1),
    _case("SFT, ZeRO-2, one GPU", "sft", ZERO2, gpus=1),
    _case("SFT, ZeRO-2, LoRA", "sft", ZERO2, ADAPTERS),
    _case("DPO, ZeRO-2", "dpo", ZERO2, PAIRS),
    _case("SFT, ZeRO-1, few in a bucket", "sft", ZERO1, HALVES, ROWS, model=DEEP, sizes=FEW),
    _case("SFT, ZeRO-1, fp32 gradients, few", "sft", ZERO1, ROWS),
    _case("SFT, ZeRO-2, few in a bucket", "sft", ZERO2, HALVES, ROWS, sizes=FEW),
    _case("SFT, ZeRO-2, few, one micro-batch", "sft", ZERO2, HALVES, ROWS, ONCE, sizes=FEW),
    _case("SFT, ZeRO-2, few, tied", "sft", ZERO2, HALVES, ROWS, model="qwen2, tied", sizes=FEW),
    _case("SFT, ZeRO-2, fp32 gradients, few", "sft", ZERO2, ROWS, sizes=FEW),
    _case("SFT, ZeRO-2, few, sent in fp32", "sft", ZERO2, HALVES, ROWS, WIDE_SENT, sizes=FEW),
    *(
        _case(f"SFT, ZeRO-3, few live{told}", "sft", ZERO3, *more, model=model, sizes=FEW_LIVE)
        for told, model, more in (
            ("", BROAD, (HALVES, ROWS)),
            (", one micro-batch", BROAD, (ROWS, ONCE)),
            (", deep, checkpointed", DEEP, (HALVES, ROWS, CHECKPOINTED, WIDE_SENT)),
        )
    ),
)
"""Two micro-batches a step, the GPU's branches of TRL's head."""


def key(case: ZeroCase) -> str:
    """A hash of what a case's run is told: TRL's arguments, DeepSpeed's file, the model."""
    files = [file.text for file in accelerate_files(case.plan)]
    told = [case.config, case.head, arguments(case.plan), *files]
    if case.told:
        told.append(case.told)
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:16]


def real_peaks(case: ZeroCase) -> dict[str, int]:
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
            patch.object(dist, "all_gather_into_tensor", _all_gather_in_place),
            patch.object(dist, "reduce_scatter_tensor", _reduce_scatter_in_place),
        )
        flags = torch.backends.mkldnn.flags(enabled=False)
        with ExitStack() as stack:
            for each in (*inside, engine(), kernels(), flags, settled("reduce")):
                stack.enter_context(each)
            return peak_bytes(two_steps)


def _all_gather_in_place(
    output_tensor: Any, input_tensor: Any, group: Any = None, async_op: bool = False
) -> Any:
    """As NCCL gathers; gloo's own copies all of it once more, which no GPU does."""
    parts = output_tensor.chunk(dist.get_world_size(group))
    parts[dist.get_rank(group)].copy_(input_tensor.view(-1))
    works = [dist.broadcast(one, at, group, async_op=async_op) for at, one in enumerate(parts)]
    return works[-1]


def _reduce_scatter_in_place(
    output: Any, input: Any, op: Any = None, group: Any = None, async_op: bool = False
) -> Any:
    """As NCCL reduces, likewise."""
    parts = input.chunk(dist.get_world_size(group))
    works = [dist.reduce(one, at, op, group, async_op=async_op) for at, one in enumerate(parts)]
    output.copy_(parts[dist.get_rank(group)])
    return works[-1]


def _environment(case: ZeroCase, folder: Path) -> dict[str, str]:
    """As ``accelerate launch`` tells its processes of DeepSpeed, but for the device."""
    (settings,) = (file for file in accelerate_files(case.plan) if file.name == DEEPSPEED)
    told = json.loads(settings.text)
    told["zero_optimization"] |= case.told
    (folder / DEEPSPEED).write_text(json.dumps(told), "utf-8")
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
        told.out.with_suffix(f".{dist.get_rank()}").write_text(json.dumps(found), "utf-8")
        return 0
    versions = {name: version(name) for name in LIBRARIES}
    stored = json.loads(told.out.read_text("utf-8")) if told.out.exists() else {}
    same = stored.get("cases", ()) if stored.get("versions") == versions else ()
    known = {(row["name"], row["key"]): row["real_bytes"] for row in same}
    rows = [
        {
            "name": case.name,
            "key": key(case),
            "real_bytes": known.get((case.name, key(case))) or _run(case),
        }
        for case in CASES
    ]
    told.out.write_text(json.dumps({"versions": versions, "cases": rows}, indent=1) + "\n", "utf-8")
    return 0


def _run(case: ZeroCase) -> dict[str, int]:
    torchrun = ["-m", "torch.distributed.run", "--standalone"]
    count = f"--nproc-per-node={training_gpus(case.plan)}"
    with tempfile.TemporaryDirectory() as name:
        out = Path(name) / "peaks"
        own = ["-m", "accuracy.zero_runs", "--case", case.name, "--out", str(out)]
        subprocess.run([sys.executable, *torchrun, count, *own], cwd=ROOT, check=True)
        ranks = [json.loads(each.read_text("utf-8")) for each in Path(name).iterdir()]
    found: dict[str, int] = {phase: max(each[phase] for each in ranks) for phase in ranks[0]}
    print(case, found, flush=True)
    return found


if __name__ == "__main__":
    sys.exit(main())
