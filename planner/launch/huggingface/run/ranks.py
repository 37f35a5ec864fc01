"""Processes of a sharded plan: as accelerate's launcher starts them, and as one without data.

What an export writes for ``accelerate launch`` is read by accelerate's own launcher. On tensors
without data this process is the first of a group whose others are not there.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from functools import wraps
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
import torch.distributed as dist
from accelerate.commands.launch import _validate_launch_command, launch_command_parser
from accelerate.parallelism_config import ParallelismConfig
from accelerate.state import AcceleratorState, PartialState
from accelerate.utils import DistributedType, operations
from accelerate.utils.launch import prepare_multi_gpu_env
from torch.distributed.fsdp._fully_shard import _fully_shard
from torch.nn.parallel import DistributedDataParallel, distributed
from torch.testing._internal.distributed.fake_pg import FakeStore
from torch.utils._python_dispatch import _disable_current_modes

from planner.dryrun.run.stage import DryStage
from planner.dryrun.run.tracker import Tracker
from planner.launch.huggingface.accelerate import accelerate_files
from planner.launch.huggingface.processes import training_gpus
from planner.plan import Plan
from planner.values.sharding import sharding_of

DIST: Any = dist  # not all of it is typed
PORT = 29500
"""accelerate's own; nobody listens, for the group is there already."""


@contextmanager
def launched(plan: Plan, folder: Path, device: torch.device, rank: int = 0) -> Iterator[None]:
    """Inside, accelerate finds a plan's launch and, where it asks, its processes' group.

    It takes a GPU's way whatever ``device`` is: of a CPU it knows no FSDP, and only a GPU's way
    shards as the plan's launch does. DDP is told no card.

    Args:
        plan: what is launched; nothing is done where one process trains unsharded.
        folder: where accelerate's YAML is written.
        device: where tensors are.
        rank: this process among all.
    """
    if sharding_of(plan).alone:
        yield
        return
    processes = str(training_gpus(plan))
    ranks = {"RANK": str(rank), "LOCAL_RANK": str(rank)}
    ranks |= dict.fromkeys(("WORLD_SIZE", "LOCAL_WORLD_SIZE"), processes)
    environment = _environment(plan, folder) | {
        # torchrun has said so already, where it has started several.
        **{name: os.environ.get(name, told) for name, told in ranks.items()},
        "ACCELERATE_TORCH_DEVICE": device.type,
        "ACCELERATE_BYPASS_DEVICE_MAP": "true",
    }

    def as_gpus(*_: object, **__: object) -> tuple[str, DistributedType]:
        return "gloo", DistributedType.MULTI_GPU

    with (
        patch.dict(os.environ, environment),
        patch.object(PartialState, "_prepare_backend", as_gpus),
    ):
        try:
            yield
        finally:
            AcceleratorState._reset_state(reset_partial_state=True)


def _environment(plan: Plan, folder: Path) -> dict[str, str]:
    """What ``accelerate launch`` hands to its processes."""
    given = folder / "accelerate.yaml"
    given.write_text(accelerate_files(plan)[0].text, "utf-8")
    told = launch_command_parser().parse_args(["--config_file", str(given), "train.py"])
    told, _, _ = _validate_launch_command(told)
    told.main_process_port = PORT
    return dict(prepare_multi_gpu_env(told))


@contextmanager
def alone(plan: Plan, stage: DryStage) -> Iterator[None]:
    """Inside, a sharded plan's first process runs without data, and without the others."""
    if sharding_of(plan).alone:
        yield
        return
    processes = training_gpus(plan)

    def gathered(objects: list[Any]) -> list[Any]:
        return list(objects) * processes

    kind = _ddp(processes, stage) if sharding_of(plan).ddp else _fsdp2()
    with patch.object(operations, "_gpu_gather_object", gathered), kind:
        yield


@contextmanager
def played(plan: Plan) -> Iterator[None]:
    """Inside, one process with data is the first of a sharded plan's, and its others are not there.

    A group of them is there where the plan is FSDP2's. Collectives bring this one's own again.
    """
    if sharding_of(plan).alone:
        yield
        return
    processes = training_gpus(plan)
    gathered = lambda objects: list(objects) * processes  # noqa: E731
    # No other process waits for what this one has loaded.
    loading = patch.dict(os.environ, {"FSDP_CPU_RAM_EFFICIENT_LOADING": "false"})
    with ExitStack() as stack:
        stack.enter_context(patch.object(operations, "_gpu_gather_object", gathered))
        stack.enter_context(loading)
        if sharding_of(plan).ddp:
            stack.enter_context(patch.object(DistributedDataParallel, "__init__", _hooked(_over)))
            stack.enter_context(_group(processes))
        yield


@contextmanager
def waited_for(plan: Plan) -> Iterator[None]:
    """Inside, DDP's all-reduce between CPUs is one that whoever counts frees can wait for.

    The reducer's own is let go of by gloo's threads, whenever they are done with it; so are the
    flat weights that the first process would hand out, and does not: all have made their own.
    """
    made = _hooked(_summed, init_sync=False)
    waits = patch.object(DistributedDataParallel, "__init__", made)
    with waits if sharding_of(plan).ddp else nullcontext():
        yield


@contextmanager
def _group(processes: int) -> Iterator[None]:
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=processes)
    try:
        yield
    finally:
        dist.destroy_process_group()


@contextmanager
def _ddp(processes: int, stage: DryStage) -> Iterator[None]:
    """DDP's reducer fills its buckets, and nobody reduces them.

    Shapes are compared and buckets made anew (in the order in which gradients came) by reading
    data. The new ones would be as many bytes.
    """
    with ExitStack() as patched:
        for owner, name, value in ddp_seams(stage):
            patched.enter_context(patch.object(owner, name, value))
        with _group(processes):
            yield


def ddp_seams(stage: DryStage) -> tuple[tuple[Any, str, Any], ...]:
    """What of DDP is replaced: where, its name, by what."""
    reduced = lambda bucket: _reduced(bucket, stage.tracker)  # noqa: E731
    labelled = lambda model: stage.labelled("policy", model)  # noqa: E731
    return (
        (distributed, "_verify_param_shape_across_processes", _nothing),
        (DistributedDataParallel, "__init__", _hooked(reduced, labelled)),
        (DIST, "_compute_bucket_assignment_by_size", _by_layer(stage.tracker)),
        (DIST.Reducer, "_rebuild_buckets", lambda _: False),
    )


def _hooked(
    reduced: Callable[[Any], Any],
    before: Callable[[torch.nn.Module], None] = lambda _: None,
    **more: Any,
) -> Callable[..., None]:
    """A constructor of DDP's with a hook in place of its all-reduce, and ``more`` arguments."""
    make: Callable[..., None] = DistributedDataParallel.__init__

    @wraps(make)
    def made(wrapper: Any, model: torch.nn.Module, **kwargs: Any) -> None:
        before(model)
        make(wrapper, model, **{**kwargs, **more})
        wrapper.register_comm_hook(None, lambda _, bucket: reduced(bucket))

    return made


def _by_layer(tracker: Tracker) -> Callable[..., tuple[list[list[int]], list[int]]]:
    """Torch's own division into buckets, but none goes on where a layer ends.

    Otherwise they would not repeat with the layers, as a shallow run needs; nor if those of the
    last one were made right after its weights, as the last to get gradients would be first.
    """
    divide: Any = DIST._compute_bucket_assignment_by_size

    def divided(
        weights: list[torch.Tensor], caps: list[int], sparse: list[bool]
    ) -> tuple[list[list[int]], list[int]]:
        places: dict[int, list[int]] = {}
        for place, weight in enumerate(weights):
            places.setdefault(tracker.block_of(weight), []).append(place)
        buckets: list[list[int]] = []
        limits: list[int] = []
        for own in places.values():
            told = [weights[place] for place in own], caps[-1:], [False] * len(own)
            found, limited = divide(*told)
            buckets += [[own[place] for place in bucket] for bucket in found]
            limits += limited
        return buckets[::-1], limits[::-1]

    return divided


def _reduced(bucket: Any, tracker: Tracker) -> Any:
    block = tracker.block_of(bucket.parameters()[0])
    told = {"role": "policy", "category": "gradients", "module": "DDP bucket", "block": block}
    tracker.describe(bucket.buffer(), **told)
    return _over(bucket)


def _summed(bucket: Any) -> Any:
    dist.all_reduce(bucket.buffer().div_(dist.get_world_size()))
    return _over(bucket)


def _over(bucket: Any) -> Any:
    """In place of the all-reduce, which works in the bucket as well."""
    future: Any = torch.futures.Future()
    future.set_result(bucket.buffer())
    return future


@contextmanager
def _fsdp2() -> Iterator[None]:
    """Accelerate shards what there is; ranks are counted on real tensors.

    Weights that have no data are not loaded by one process for all, and are told apart by their
    storage: they have no address.
    """
    with ExitStack() as patched:
        for owner, name, value in fsdp2_seams():
            patched.enter_context(patch.object(owner, name, value))
        patched.enter_context(patch.dict(os.environ, {"FSDP_CPU_RAM_EFFICIENT_LOADING": "false"}))
        yield


def fsdp2_seams() -> tuple[tuple[Any, str, Any], ...]:
    """What of FSDP2's preparation is replaced: where, its name, by what."""

    def address(tensor: torch.Tensor) -> int:
        return int(tensor.untyped_storage()._cdata)

    mesh, groups = "_init_default_mesh", "build_device_mesh"
    known = _disable_current_modes()  # as a decorator: on what is known without data
    return (
        (_fully_shard, mesh, known(getattr(_fully_shard, mesh))),
        (ParallelismConfig, groups, known(getattr(ParallelismConfig, groups))),
        (torch.Tensor, "data_ptr", address),
    )


def _nothing(*_: Any, **__: Any) -> None:
    return None
