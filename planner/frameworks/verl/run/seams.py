"""Where verl 0.9.1 meets tensors without data: everything of its that is replaced, and why.

Its engines' constructors, ``forward_step``, ``infer_batch``, ``train_batch``, losses, log-probs,
FSDP2 wrapping, clipping and optimizer steps are its own. ``docs/verl-step.md`` lists these seams
for readers; a test takes each away and sees what breaks.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from types import ModuleType
from typing import Any
from unittest.mock import patch

import torch
from tensordict import TensorDict  # type: ignore[import-untyped]
from torch._subclasses.fake_tensor import FakeTensor
from torch.distributed.fsdp import sharded_grad_scaler
from torch.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler
from torch.distributed.tensor import DTensor
from torch.nested._internal.nested_tensor import NestedTensor, _nt_view_dummy
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_leaves, tree_map_only
from transformers import AutoModelForCausalLM, AutoModelForTokenClassification
from verl.models.transformers import monkey_patch
from verl.plugin.platform import platform_manager
from verl.utils import torch_functional
from verl.utils.experimental import torch_functional as fused
from verl.workers.engine.fsdp import transformer_impl as engine
from verl.workers.engine.fsdp.utils import create_device_mesh

from planner.dryrun.run.sharded import Unpinned, two_memories
from planner.dryrun.run.stage import DryStage
from planner.dryrun.run.world import On
from planner.frameworks.verl import CRITIC_ATTENTION
from planner.frameworks.verl.run import kernels
from planner.frameworks.verl.run.offloading import offloading
from planner.plan import Plan
from planner.steps.stage import Stage

Answers = Mapping[Any, Callable[..., Any]]
Built = Callable[[str], AbstractContextManager[None]]
"""Inside, models that are made belong to a role."""


class Platform:
    """A CPU, as verl asks for its accelerator; it knows none itself."""

    device_name = "cpu"
    vendor_name = "cpu"
    device_module = torch.cpu

    def current_device(self) -> torch.device:
        """Where tensors are moved to."""
        return torch.device("cpu")

    def __getattr__(self, name: str) -> Any:
        """Nothing to synchronize, to seed or to empty."""
        return lambda *_, **__: None


def _eager(function: Callable[..., Any], **_: Any) -> Callable[..., Any]:
    return function


@contextmanager
def without_gpu(head: On) -> Iterator[None]:
    """What a CPU needs, whether its tensors have data or not.

    On a ``gpu`` flash-attn's cross entropy and Inductor's entropy meet the logits, and compute
    nothing here; on a ``cpu`` verl's own loop over rows and its entropy as written.
    """
    with _patches(), ExitStack() as stack:
        for target, name, value in (
            (platform_manager, "_current_platform", Platform()),
            # Nothing is pinned where there is no driver.
            (engine, "CPUOffloadPolicy", lambda pin_memory: Unpinned()),
            (engine, "device_name", "cpu"),
            (engine, "log_gpu_memory_usage", lambda *_, **__: None),
            (sharded_grad_scaler, "ShardedGradScaler", partial(ShardedGradScaler, "cpu")),
            (torch, "compile", kernels.compiled if head == "gpu" else _eager),
        ):
            stack.enter_context(patch.object(target, name, value))
        if head == "gpu":
            kernel: tuple[tuple[Any, str, Any], ...] = (
                (torch_functional, "FLAH_ATTN_CROSS_ENTROPY_LOSS_AVAILABLE", True),
                (torch_functional, "cross_entropy_loss", CROSS_ENTROPY),
                (fused, "_FLASH_ATTN_CROSS_ENTROPY_AVAILABLE", True),
                (fused, "cross_entropy_loss", CROSS_ENTROPY),
            )
            for module, name, value in kernel:
                stack.enter_context(patch.object(module, name, value, create=True))
        yield


CROSS_ENTROPY = kernels.cross_entropy_loss
"""verl takes flash-attn's cross entropy where the package is, as its export installs it."""


@contextmanager
def seams(plan: Plan, stage: DryStage, on: On, head: On) -> Iterator[Built]:
    """Inside, verl's engines can be made and run without data.

    Args:
        plan: what is run.
        stage: where.
        on: whose branches to take.
        head: whose kernels meet the vocabulary.
    """
    _nt_view_dummy()  # kept for the whole process, and must not be a fake
    with ExitStack() as stack:
        enter = stack.enter_context
        enter(without_gpu(head))
        role, built = _roles(stage)
        enter(_models(plan, stage, role))
        enter(patch.object(engine, "fsdp2_load_full_state_dict", lambda *_: None))
        enter(patch.object(ShardedGradScaler, "_maybe_opt_step", _stepped))
        known = _disable_current_modes()(create_device_mesh)  # ranks: on what is no fake
        enter(patch.object(engine, "create_device_mesh", known))
        if on == "gpu":
            enter(_transfers(stage))
            enter(offloading(plan, stage))
        if plan.liger:
            enter(_liger(stage))
        enter(Data())  # type: ignore[no-untyped-call]
        yield built


@contextmanager
def _liger(stage: DryStage) -> Iterator[None]:
    """liger-kernel, of which verl asks for one function, told the model and which kernels."""
    applied: Any = ModuleType("monkey_patch")
    applied._apply_liger_kernel_to_instance = lambda model, **_: stage.liger(model)
    parts = ("liger_kernel", "transformers", "monkey_patch")
    names = [".".join(parts[: count + 1]) for count in range(len(parts))]
    with ExitStack() as stack:
        for name in names:
            if (there := sys.modules.get(name)) is not None:
                stack.callback(sys.modules.__setitem__, name, there)
            else:
                stack.callback(sys.modules.pop, name)
            sys.modules[name] = applied
        yield


def _stepped(_: Any, optimizer: Any, __: Any, *args: Any, **kwargs: Any) -> Any:
    """fp16's scaler reads whether any gradient is infinite; none is."""
    return optimizer.step(*args, **kwargs)


@contextmanager
def real(plan: Plan, stage: Stage, *, several: bool) -> Iterator[Built]:
    """Of the seams those that tensors with data need as well.

    Args:
        plan: what is run.
        stage: where.
        several: whether the other processes are there, to which the first hands out its weights.
    """
    on_card = stage.device.type == "cuda"
    with ExitStack() as stack:
        enter = stack.enter_context
        enter(_patches() if on_card else without_gpu("cpu"))
        if not several:
            enter(patch.object(engine, "fsdp2_load_full_state_dict", lambda *_: None))
        role, built = _roles(stage)
        enter(_models(plan, stage, role))
        yield built


@contextmanager
def _patches() -> Iterator[None]:
    """TRL is asked for a class that 1.16 has no more; fused kernels leave a class as it was."""
    patched = monkey_patch.patch_forward_with_backends
    forwards: dict[Any, Any] = {}

    def lent(model: Any, *given: Any, **named: Any) -> None:
        forwards.setdefault(type(model), type(model).forward)
        patched(model, *given, **named)

    with (
        patch.object(monkey_patch, "is_trl_available", lambda: False),
        patch.object(monkey_patch, "patch_forward_with_backends", lent),
    ):
        try:
            yield
        finally:
            for kind, forward in forwards.items():
                kind.forward = forward


def _roles(stage: Stage) -> tuple[list[str], Built]:
    """Whose model is being made, and what says so."""
    role = [""]

    @contextmanager
    def built(name: str) -> Iterator[None]:
        role[0] = name
        with stage.region(role=name, category="parameters"):
            yield

    return role, built


@contextmanager
def _models(plan: Plan, stage: Stage, role: list[str]) -> Iterator[None]:
    """There is no checkpoint to load: a model from its config, in the dtype asked for."""

    def loading(kind: Any) -> Any:
        def loaded(*_: Any, config: Any, torch_dtype: torch.dtype, **__: Any) -> Any:
            config._attn_implementation = stage.attention(
                CRITIC_ATTENTION if role[0] == "critic" else plan.attention
            )
            config.use_cache = False
            with torch.device(stage.device):
                model = kind.from_config(config, dtype=torch_dtype)
            model.tie_weights()
            stage.labelled(role[0], model)
            return model.eval()

        return loaded

    with ExitStack() as stack:
        for kind in (AutoModelForCausalLM, AutoModelForTokenClassification):
            stack.enter_context(patch.object(kind, "from_pretrained", loading(kind)))
        yield


@contextmanager
def _transfers(stage: DryStage) -> Iterator[None]:
    """Tensors in host RAM are on the device of the fakes too: what is moved is a copy."""

    def copied(data: TensorDict, *_: Any, **__: Any) -> TensorDict:
        return data.clone()

    with two_memories(stage.tracker.on_host), patch.object(TensorDict, "to", copied):
        yield


class Data(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """What is known without data stays known: ids, lengths and places are computed as they are.

    Rows are cut, joined and counted by Python, which reads lengths. Operators on nothing but real
    tensors are therefore carried out; where a fake one is among them the result is a fake.
    """

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if NestedTensor in types or DTensor in types:
            return NotImplemented
        kwargs = kwargs or {}
        tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
        known = tensors and not any(isinstance(tensor, FakeTensor) for tensor in tensors)
        counts = not tensors and kwargs.get("dtype") in (torch.int64, torch.int32)
        if known or counts:
            with _disable_current_modes():
                return func(*args, **kwargs)
        if any(map(_is_real_view, tensors)):
            args, kwargs = tree_map_only(torch.Tensor, _alone, (args, kwargs))
        return func(*args, **kwargs)


def _is_real_view(tensor: torch.Tensor) -> bool:
    return not isinstance(tensor, FakeTensor) and tensor._is_view()


def _alone(tensor: torch.Tensor) -> torch.Tensor:
    """A real tensor that is no view of a nested one, of which no fake is made."""
    if not _is_real_view(tensor):
        return tensor
    with _disable_current_modes():
        place = tensor.storage_offset(), tensor.shape, tensor.stride()
        return tensor.new_empty(0).set_(tensor.untyped_storage(), *place)


def answers() -> Answers:
    """What operators give whose answer depends on data: metrics are 1, conditions true."""
    read = torch.ops.aten._local_scalar_dense.default

    def number(tensor: torch.Tensor) -> bool | int | float:
        if not isinstance(tensor, FakeTensor):
            with _disable_current_modes():
                return tensor.item()
        if tensor.dtype == torch.bool:
            return True
        return 1.0 if tensor.dtype.is_floating_point else 1

    return {read: number}
