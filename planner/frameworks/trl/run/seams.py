"""Where TRL 1.16.0 meets tensors without data: everything of its that is replaced, and why.

Its constructors, ``train``, losses, log-probs, reference passes and optimizer steps are its own.
``docs/trl-step.md`` lists these seams for readers; a test takes each away and sees what breaks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from types import SimpleNamespace
from typing import Any, Literal
from unittest.mock import patch

import torch
from torch._subclasses.fake_tensor import FakeTensor
from trl.kernels import chunked_logprob
from trl.trainer import dpo_trainer, grpo_trainer, rloo_trainer, sft_trainer
from trl.trainer import utils as trl_utils

from planner.launch.huggingface.run.seams import (
    ANSWERS,
    Answers,
    devices,
    empties,
    environment,
    in_lists,
)
from planner.values.dtypes import TORCH_NAMES

Head = Literal["gpu", "cpu"]
"""Which branch of TRL's fused head runs."""
DTYPES = {name: getattr(torch, name) for name in TORCH_NAMES.values()}
TRAINERS = (sft_trainer, dpo_trainer, grpo_trainer, rloo_trainer)


@contextmanager
def seams(
    device: torch.device,
    head: Head,
    model: Callable[[torch.dtype], Any],
    empty_cache: Callable[[], None],
) -> Iterator[None]:
    """Inside, TRL's trainers can be made and trained on ``device`` without data.

    Args:
        device: ``meta``, or ``cpu`` for fake tensors.
        head: the branch of the fused head.
        model: an empty model in a dtype, in place of a checkpoint.
        empty_cache: what to do where TRL gives cached memory back.
    """
    with ExitStack() as stack:
        inside = (real(device, model), _autocast(), _lists(), _padded(), empties(empty_cache))
        for each in inside:
            stack.enter_context(each)
        if head == "gpu":
            stack.enter_context(kernels())
        yield


@contextmanager
def real(device: torch.device, model: Callable[[torch.dtype], Any]) -> Iterator[None]:
    """Of the seams those that tensors with data need as well: device, model, no engine."""
    with environment(), devices(device), _models(model), engine():
        yield


@contextmanager
def _models(model: Callable[[torch.dtype], Any]) -> Iterator[None]:
    """There is no checkpoint to load: the model comes from its config, in the dtype asked for.

    As TRL's loader leaves it: in evaluation mode, every weight with ``requires_grad``.
    """

    def created(path: str, **asked: Any) -> Any:
        dtype = asked.get("dtype") or "float32"
        return model(dtype if isinstance(dtype, torch.dtype) else DTYPES[dtype]).eval()

    with ExitStack() as stack:
        for module in TRAINERS:
            stack.enter_context(patch.object(module, "create_model_from_path", created))
        yield


@contextmanager
def unquantised() -> Iterator[None]:
    """Settings of 4-bit weights ask for bitsandbytes' version; who makes the model knows them."""
    with patch("trl.get_quantization_config", lambda _: None):
        yield


@contextmanager
def _autocast() -> Iterator[None]:
    """The fused head asks whether its device's autocast is on; torch knows none of ``meta``."""
    enabled = torch.is_autocast_enabled

    def asked(*device: str) -> bool:
        return False if device == ("meta",) else bool(enabled(*device))

    with patch.object(torch, "is_autocast_enabled", asked):
        yield


@contextmanager
def _lists() -> Iterator[None]:
    """Rewards and advantages are logged as lists; tensors without data have no values to list."""
    values = torch.Tensor.tolist

    def zeros(sizes: Sequence[int]) -> Any:
        return [zeros(sizes[1:]) for _ in range(sizes[0])] if sizes else 0.0

    def listed(tensor: torch.Tensor) -> Any:
        without = tensor.is_meta or isinstance(tensor, FakeTensor)
        return zeros(tensor.shape) if without else values(tensor)

    with patch.object(torch.Tensor, "tolist", listed):
        yield


@contextmanager
def _padded() -> Iterator[None]:
    """Rows are not copied into their batch one by one, which takes seconds and makes nothing."""

    def pad(tensors: list[torch.Tensor], padding_value: int = 0, **_: Any) -> torch.Tensor:
        longest = max(len(tensor) for tensor in tensors)
        return tensors[0].new_full((len(tensors), longest), padding_value)

    with patch.object(grpo_trainer, "pad", pad), patch.object(rloo_trainer, "pad", pad):
        yield


@contextmanager
def engine() -> Iterator[None]:
    """No vLLM is started: responses come with the batch, and nothing asks it for any."""
    told = {"model_config": {"logprobs_mode": "processed_logprobs"}}
    client = SimpleNamespace(get_server_info=lambda: told)
    with ExitStack() as stack:
        for module in (grpo_trainer, rloo_trainer):
            made = lambda **_: SimpleNamespace(vllm_client=client)  # noqa: E731
            stack.enter_context(patch.object(module, "VLLMGeneration", made))
        yield


@contextmanager
def kernels() -> Iterator[None]:
    """A GPU's branches: those of the fused head, and tensors of optimizers in lists.

    Triton writes in place and cuBLAS adds in fp32: both work on what they are given and make
    nothing, so nothing is what they do here. Optimizers and clipping that are not told otherwise
    take all tensors at once on a GPU, and one after the other on a CPU or without data.
    """
    add = chunked_logprob._addmm_fp32

    def added(into: Any, left: Any, right: Any) -> None:
        if left.dtype == torch.float32:
            add(into, left, right)

    kernel = SimpleNamespace(cdiv=lambda count, size: -(-count // size))
    launched = _Launched()
    with (
        in_lists(),
        patch.object(trl_utils, "_use_triton", lambda _: True),
        patch.object(chunked_logprob, "_use_triton", lambda _: True),
        patch.object(chunked_logprob, "_forward_kernel", launched),
        patch.object(chunked_logprob, "_backward_kernel", launched),
        patch.object(chunked_logprob, "triton", kernel, create=True),
        patch.object(chunked_logprob, "_addmm_fp32", added),
    ):
        yield


class _Launched:
    """A Triton kernel: given a grid, then called."""

    def __getitem__(self, grid: Any) -> Callable[..., None]:
        return lambda *_, **__: None


def answers(scored_tokens: int) -> Answers:
    """What operators give whose answer depends on data, for the tracker.

    Args:
        scored_tokens: how many tokens of a row carry a label.

    Rows that a mask picks are counted by the plan: ``hidden[mask]`` of the fused head meets as
    many rows as are scored. Other masks pick everything. Numbers that are read for metrics are 1,
    conditions (is it NaN?) false.
    """
    aten = torch.ops.aten

    def count(mask: torch.Tensor) -> int:
        return mask.shape[0] * scored_tokens if mask.dim() == 2 else mask.numel()

    def indexed(tensor: torch.Tensor, indices: Any) -> torch.Tensor:
        mask = indices[0] if indices else None
        if mask is None or mask.dtype != torch.bool or len(indices) > 1:
            return aten.index.Tensor(tensor, indices)  # type: ignore[no-any-return]
        return tensor.new_empty((count(mask), *tensor.shape[mask.dim() :]))

    return {**ANSWERS, aten.index.Tensor: indexed}

