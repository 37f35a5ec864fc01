"""Kernels of a real layer, counted as torch dispatches them: how many, and bytes in and out.

Views move nothing; products and attention are counted apart, since they are limited by something
else, and so is the mask that attention turns into a bias (``where``). A layer is what two layers
have beyond one, and a token what twice the tokens have beyond once, so that weights' own casts fall
out. Several rows, since heads of a single one are laid out without a copy. On tensors without data.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from transformers import AutoModelForCausalLM, PretrainedConfig

MOVE_NOTHING = {
    *("view", "t", "transpose", "unsqueeze", "expand", "slice", "select", "detach", "alias"),
    *("_unsafe_view", "permute", "split", "empty", "empty_like", "new_empty", "scalar_tensor"),
    *("squeeze", "where"),
}
PRODUCTS = ("mm", "addmm", "bmm", "_grouped_mm")
TOKENS, ROWS = 256, 2


class Counted(NamedTuple):
    """Of one layer's forward or backward."""

    bytes_a_token: float
    kernels: float


class _Counter(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.moved, self.kernels = 0, 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        name = func.overloadpacket.__name__
        if func.namespace != "aten" or name in MOVE_NOTHING:
            return out
        # Zeros in the likeness of a tensor read nothing of it.
        given = () if name == "new_zeros" else (args, kwargs)
        tensors = [t for t in tree_leaves((given, out)) if isinstance(t, torch.Tensor)]
        self.kernels += 1
        if name not in PRODUCTS and "scaled_dot_product" not in name:
            self.moved += sum(map(_bytes, tensors))
        return out


def _bytes(tensor: torch.Tensor) -> int:
    """What is in memory of it: a broadcast dimension is read once."""
    count = 1
    for size, stride in zip(tensor.shape, tensor.stride(), strict=True):
        count *= size if stride else 1
    return count * tensor.element_size()


def _run(config: PretrainedConfig, tokens: int, attention: str, how: str) -> tuple[Any, Any]:
    config._attn_implementation = attention
    dtype = torch.float32 if how in ("fp32", "autocast") else torch.bfloat16
    with FakeTensorMode(allow_non_fake_inputs=True):
        body = AutoModelForCausalLM.from_config(config, dtype=dtype).base_model
        body.requires_grad_(how != "frozen")
        hidden = torch.zeros(ROWS, tokens, config.hidden_size, dtype=dtype, requires_grad=True)
        with (
            torch.autocast("cpu", dtype=torch.bfloat16, enabled=how == "autocast"),
            _Counter() as forward,
        ):
            out = body(inputs_embeds=hidden, use_cache=False).last_hidden_state
        with _Counter() as backward:
            out.sum().backward()
    return forward, backward


def layer(
    config: Callable[[int], PretrainedConfig], how: str, attention: str = "sdpa"
) -> tuple[Counted, Counted]:
    """One layer's forward and backward; ``config`` makes a model of so many layers."""
    found = {
        (layers, tokens): _run(config(layers), tokens, attention, how)
        for layers in (1, 2)
        for tokens in (TOKENS, 2 * TOKENS)
    }

    def counted(which: int) -> Counted:
        moved = {at: passes[which].moved for at, passes in found.items()}
        once, twice = (moved[2, at] - moved[1, at] for at in (TOKENS, 2 * TOKENS))
        kernels = found[2, TOKENS][which].kernels - found[1, TOKENS][which].kernels
        return Counted((twice - once) / (ROWS * TOKENS), kernels)

    return counted(0), counted(1)
