"""What a case of TRL's asks of packages that compute on cards, in its real run on a CPU.

The packages' own code around their kernels runs, the kernels compute nothing. flash-attn's are
torch's flash operators, which keep and return the same tensors; the others have to be there
(``pip install --no-deps bitsandbytes==0.50.2 liger-kernel==0.8.5 triton==3.7.1``), for no test.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from importlib import import_module
from typing import Any
from unittest.mock import patch

import torch
import transformers.modeling_flash_attention_utils as flash_code
from torch.utils._pytree import tree_map_only
from transformers import PreTrainedModel

from planner.dryrun.run.branches.flash import flash_attention
from planner.formulas.activations.liger import DERIVED, VERSION
from planner.frameworks.trl.run.packages import cached
from planner.launch.huggingface.run.packages import scaled
from planner.plan import Plan
from planner.plan.fields import EIGHT_BIT

VERSIONS = {"eight_bit": "bitsandbytes 0.50.2", "liger": f"liger-kernel {VERSION}, triton 3.7.1"}
"""What ran."""


@contextmanager
def packages(plan: Plan) -> Iterator[None]:
    """Inside, a plan's trainer runs for real on a CPU."""
    with ExitStack() as stack:
        for one in _asked(plan):
            stack.enter_context(one())
        yield


def told(plan: Plan) -> list[str]:
    """What of this decides a real run, as text; nothing where it asks for no package."""
    asked = _asked(plan)
    code = [ast.unparse(ast.parse(inspect.getsource(inspect.unwrap(one)))) for one in asked]
    return [*code, *(VERSIONS[one.__name__] for one in asked if one.__name__ in VERSIONS)]


@contextmanager
def liger() -> Iterator[None]:
    """Liger's own modules, whose Triton kernels are launched and do nothing."""
    jit = import_module("triton.runtime.jit")
    families = [import_module(f"transformers.models.{one}.modeling_{one}") for one in DERIVED]
    launched = lambda *_, **__: lambda *_, **__: None  # noqa: E731
    with ExitStack() as stack:
        for family in families:
            stack.enter_context(patch.dict(vars(family)))  # Liger never takes itself out
        stack.enter_context(patch.object(jit.JITFunction, "__getitem__", launched))
        name = "transformers.integrations.liger.is_liger_kernel_available"
        stack.enter_context(patch(name, lambda: True))
        yield


def _asked(plan: Plan) -> list[Callable[[], AbstractContextManager[None]]]:
    kinds = (
        (plan.attention == "flash", flash),
        (plan.optimizer in EIGHT_BIT, eight_bit),
        (plan.dtype == "fp16", scaled),
        (plan.reference == "cached-logprobs", cached),
        (plan.liger, liger),
    )
    return [kind for needed, kind in kinds if needed]


@contextmanager
def flash() -> Iterator[None]:
    """Transformers' own code around flash-attn, on a CPU."""
    functions = (flash_attention, flash_attention, None, flash_code._pad_input, None)
    keywords = flash_code._lazy_define_process_function(flash_attention)
    loaded = lambda *_, **__: (functions, (keywords, dict))  # noqa: E731
    kernels: Any = torch.library.Library("aten", "IMPL")
    for name in ("_flash_attention_forward", "_flash_attention_backward"):
        kernels.impl(name, _declared(getattr(torch.ops.aten, name).default), "CPU")
    try:
        with (
            patch.object(flash_code, "lazy_import_flash_attention", loaded),
            patch("transformers.modeling_utils.lazy_import_flash_attention", loaded),
            patch.object(PreTrainedModel, "_flash_attn_can_dispatch", lambda *_, **__: True),
        ):
            yield
    finally:
        kernels._destroy()


def _declared(operator: Any) -> Callable[..., Any]:
    """A kernel that makes what torch declares the operator to make, of zeros: a norm is finite."""

    def made(*args: Any, **kwargs: Any) -> Any:
        told = tree_map_only(torch.Tensor, lambda one: one.to("meta"), (args, kwargs))
        found = operator(*told[0], **told[1])
        return tree_map_only(torch.Tensor, lambda one: torch.zeros_like(one, device="cpu"), found)

    return made


@contextmanager
def eight_bit() -> Iterator[None]:
    """Bitsandbytes' own optimizer; on a CPU its kernels would widen what a card's do not."""
    functional = import_module("bitsandbytes.functional")
    nothing = lambda *_, **__: None  # noqa: E731
    with (
        patch.object(functional, "optimizer_update_32bit", nothing),
        patch.object(functional, "optimizer_update_8bit_blockwise", nothing),
    ):
        yield
