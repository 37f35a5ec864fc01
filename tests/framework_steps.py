"""The frameworks' own losses on a head, as small as they can be.

Where a GPU would run Triton, a stand-in allocates what the wrapper around the kernel allocates and
nothing more.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import torch
import torch.nn.functional as F

from head_steps import Batch, ratio_loss, squash
from planner.formulas.logits import Head


@contextmanager
def gpu_kernels(monkeypatch: Any) -> Iterator[None]:
    """TRL's fused head as on a GPU: Triton writes in place, cuBLAS accumulates in fp32."""
    from trl.kernels import chunked_logprob
    from trl.trainer import utils

    with monkeypatch.context() as patch:
        patch.setattr(chunked_logprob, "_forward_tile", lambda *_, **__: None)
        patch.setattr(chunked_logprob, "_backward_tile", lambda *_, **__: None)
        patch.setattr(chunked_logprob, "_addmm_fp32", lambda *_: None)
        patch.setattr(utils, "_use_triton", lambda _: True)
        yield


class Backboneless(torch.nn.Module):
    """A causal model whose backbone hands out given hidden states."""

    def __init__(self, weight: torch.Tensor) -> None:
        super().__init__()
        self.lm_head = torch.nn.Linear(2, 2, bias=False)
        self.lm_head.weight = torch.nn.Parameter(weight, requires_grad=weight.requires_grad)
        text = SimpleNamespace(model_type="qwen2")
        self.config = SimpleNamespace(get_text_config=lambda: text)

    def forward(self, **_: Any) -> Any:
        raise NotImplementedError

    def base_model(self, hidden: torch.Tensor, **_: Any) -> Any:
        return SimpleNamespace(last_hidden_state=hidden)

    def get_output_embeddings(self) -> torch.nn.Module:
        return self.lm_head


def fused_trl(head: Head, objective: str) -> Callable[[Batch], Any]:
    from trl.trainer.utils import add_fused_lm_head

    outputs = ("log_probs", "entropy") + (("is_top1",) if objective == "cross-entropy" else ())

    def step(batch: Batch) -> Any:
        model = Backboneless(batch.weight.detach().requires_grad_(batch.trains))
        add_fused_lm_head(model, 1.0, False, outputs)
        scored = model(hidden=batch.hidden, labels=batch.ids, fused_lm_head=True)
        if objective == "cross-entropy":
            return -scored.log_probs.sum() / scored.label_mask.sum()
        return ratio_loss(scored.log_probs, batch, scored.entropy if head.entropy else None)

    return step


def verl_chunks() -> ModuleType:
    """verl's torch kernels, loaded alone: the package itself asks for ray and tensordict."""
    found = importlib.util.find_spec("verl")
    assert found is not None and found.submodule_search_locations is not None
    root = Path(next(iter(found.submodule_search_locations)))
    spec = importlib.util.spec_from_file_location(
        "verl_chunks", root / "utils" / "experimental" / "torch_functional.py"
    )
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def chunked(head: Head) -> Callable[[Batch], Any]:
    function = verl_chunks().FusedLinearForPPOFunction

    def step(batch: Batch) -> Any:
        taken, entropy = function.apply(batch.hidden, batch.weight, batch.ids, 0.9, 512)
        return ratio_loss(taken, batch, entropy if head.entropy else None)

    return step


def trl_loop(head: Head, *, gradient: bool = True) -> Callable[[Batch], Any]:
    """GRPO's scoring in TRL 1.9 to 1.13, on the functions that 1.16 still has for the CPU."""
    from trl.trainer.utils import entropy_from_logits, selective_log_softmax

    def scores(batch: Batch) -> Any:
        raw = squash(F.linear(batch.hidden, batch.weight), head)
        if head.upcasts:
            raw = raw.float()
        outputs = SimpleNamespace(logits=raw)
        del raw
        logits = outputs.logits[:, :-1, :]
        logits = logits[:, -(batch.length - 1) :, :]
        logits = logits / 0.9
        taken = [selective_log_softmax(logits, batch.ids[:, 1:])]
        if gradient:
            with torch.no_grad():
                entropy_from_logits(logits)
        return torch.cat(taken, dim=0)

    def step(batch: Batch) -> Any:
        if not gradient:
            with torch.no_grad():
                return scores(batch)
        return ratio_loss(scores(batch), batch)

    return step


class ScoringKernel(torch.autograd.Function):
    """What TRL 1.14's Triton scoring allocates; its numbers are not computed."""

    @staticmethod
    def forward(ctx: Any, logits: torch.Tensor) -> Any:
        taken, entropy, log_z, expected = (torch.empty(logits.shape[:-1]) for _ in range(4))
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(logits, log_z, expected)
        return taken, entropy

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor | None) -> Any:
        logits, *_ = ctx.saved_tensors
        kept = [each.contiguous() for each in gradients if each is not None]
        out = torch.empty_like(logits, memory_format=torch.contiguous_format)
        del kept
        return out


def trl_kernel(head: Head) -> Callable[[Batch], Any]:
    """GRPO's scoring in TRL 1.14 as on a GPU."""

    def scores(batch: Batch) -> Any:
        raw = squash(F.linear(batch.hidden, batch.weight), head)
        if head.upcasts:
            raw = raw.float()
        outputs = SimpleNamespace(logits=raw)
        del raw
        logits = outputs.logits[:, :-1, :][:, -(batch.length - 1) :, :]
        return ScoringKernel.apply(logits)

    def step(batch: Batch) -> Any:
        taken, entropy = scores(batch)
        return ratio_loss(taken, batch, entropy if head.entropy else None)

    return step


class CrossEntropyKernel(torch.autograd.Function):
    """What flash-attn's Triton cross entropy allocates; its numbers are not computed."""

    @staticmethod
    def forward(ctx: Any, logits: torch.Tensor, labels: torch.Tensor, in_place: bool) -> Any:
        losses, log_z, squares = (torch.empty(logits.shape[0]) for _ in range(3))
        ctx.save_for_backward(logits, log_z, labels)
        ctx.mark_non_differentiable(squares)
        ctx.in_place = in_place
        return losses, squares

    @staticmethod
    def backward(ctx: Any, *_: Any) -> Any:
        logits, *_rest = ctx.saved_tensors
        return logits if ctx.in_place else torch.empty_like(logits), None, None


def verl_entropy(logits: torch.Tensor, autocast: bool) -> torch.Tensor:
    """verl's eager entropy, with the casts that CUDA's bf16 autocast puts in."""
    probs = F.softmax(logits, dim=-1, dtype=torch.float32 if autocast else None)
    log_z = torch.logsumexp(logits.float() if autocast else logits, dim=-1)
    return log_z - torch.sum(probs * logits, dim=-1)


def verl_outputs(head: Head, batch: Batch, temperature: torch.Tensor, *, entropy: bool) -> Any:
    """verl's ``forward_step``: the raw output keeps its name until the loss exists."""
    raw = squash(F.linear(batch.hidden, batch.weight), head)

    def prepare() -> Any:
        logits = raw.squeeze(0)
        if head.temperature_scaled:
            logits = logits / temperature.to(logits.dtype)
        spread = verl_entropy(logits, head.upcasts) if entropy else None
        taken = -CrossEntropyKernel.apply(logits, batch.ids.squeeze(0), not entropy)[0]
        return taken.unsqueeze(0), spread

    taken, spread = prepare()
    return ratio_loss(taken, batch, spread if head.entropy else None)


def verl_packed(head: Head) -> Callable[[Batch], Any]:
    temperature = torch.full((int(head.tokens), 1), 0.9)
    return lambda batch: verl_outputs(head, batch, temperature, entropy=head.entropy)
