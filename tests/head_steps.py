"""The plain steps whose live bytes the logits formulas claim to know, and how to watch one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F

from live_bytes import LiveBytes
from planner.footprint import Instant, Term
from planner.formulas.logits import Head

LOSS_DTYPES = [("bf16", "bf16"), ("bf16", "fp32"), ("fp32", "fp32")]
HIDDEN_IN_KERNEL = "exponentials inside logsumexp"
SIZES = [(1, 77, 501, 32), (8, 13, 701, 33), (1, 11, 501, 128), (8, 9, 31, 128), (1, 64, 3001, 90)]

DTYPES = {"bf16": torch.bfloat16, "fp32": torch.float32}


@dataclass
class Batch:
    """Random inputs of a head and a loss."""

    rows: int
    length: int
    vocab: int
    hidden_size: int
    dtype: torch.dtype
    trains: bool = True
    hidden: torch.Tensor = field(init=False)
    weight: torch.Tensor = field(init=False)
    ids: torch.Tensor = field(init=False)
    old: torch.Tensor = field(init=False)
    reference: torch.Tensor = field(init=False)
    advantages: torch.Tensor = field(init=False)

    def __post_init__(self) -> None:
        torch.manual_seed(0)
        shape = (self.rows, self.length)
        self.hidden = torch.randn(*shape, self.hidden_size, dtype=self.dtype).requires_grad_()
        self.weight = torch.randn(self.vocab, self.hidden_size, dtype=self.dtype)
        self.weight.requires_grad_(self.trains)
        self.ids = torch.randint(0, self.vocab, shape)
        self.old, self.reference, self.advantages = torch.randn(3, *shape).unbind()

    def tensors(self) -> list[torch.Tensor]:
        return [self.hidden, self.weight, self.ids, self.old, self.reference, self.advantages]


@dataclass(frozen=True)
class Seen:
    """Highest live bytes of a forward and of the backward after it."""

    forward: int
    backward: int


def watch(batch: Batch, step: Callable[[Batch], Any], *, backward: bool = True) -> Seen:
    """Live bytes of one forward and backward, the batch itself left out."""
    with LiveBytes(batch.tensors()) as live:
        result = step(batch)
        forward = live.peak
        live.reset_peak()
        if backward:
            (result[0] if isinstance(result, tuple) else result).backward()
        return Seen(forward, live.peak)


def ratio_loss(log_probs: torch.Tensor, batch: Batch, entropy: Any = None) -> torch.Tensor:
    """Clipped ratio with a k3 KL to reference log-probabilities, and an entropy bonus."""
    old, reference, advantages = (
        each[:, -log_probs.shape[1] :] for each in (batch.old, batch.reference, batch.advantages)
    )
    ratio = torch.exp(log_probs - old)
    loss = -torch.minimum(ratio * advantages, ratio.clamp(0.8, 1.2) * advantages)
    loss = loss + 0.01 * (torch.exp(reference - log_probs) - (reference - log_probs) - 1)
    mean = loss.mean()
    return mean if entropy is None else mean - 0.01 * entropy.mean()


def squash(logits: torch.Tensor, head: Head) -> torch.Tensor:
    """Gemma 2's soft cap, as transformers writes it."""
    if head.softcap:
        logits = logits / 30.0
        logits = torch.tanh(logits)
        logits = logits * 30.0
    return logits


def plain_policy(head: Head) -> Callable[[Batch], Any]:
    def step(batch: Batch) -> Any:
        logits = squash(F.linear(batch.hidden, batch.weight), head)
        named = logits if head.logits_held else None
        if head.logits_dtype == "fp32":
            logits = logits.float()
        if head.temperature_scaled:
            logits = logits / 0.7
        logs = F.log_softmax(logits, -1)
        del logits
        index = batch.ids.unsqueeze(-1)
        if not head.entropy:
            taken = logs.gather(-1, index).squeeze(-1)
            del logs
            return ratio_loss(taken, batch), named
        taken = logs.gather(-1, index).squeeze(-1)
        entropy = -(logs.exp() * logs).sum(-1)
        del logs
        return ratio_loss(taken, batch, entropy), named

    return step


def plain_sft(head: Head) -> Callable[[Batch], Any]:
    from transformers.loss.loss_utils import ForCausalLMLoss

    def step(batch: Batch) -> Any:
        logits = squash(F.linear(batch.hidden, batch.weight), head)
        named = logits if head.logits_held else None
        if named is not None:
            return ForCausalLMLoss(logits, batch.ids, batch.vocab), named
        holder = [logits]
        del logits
        return ForCausalLMLoss(holder.pop(), batch.ids, batch.vocab)

    return step


def total(terms: tuple[Term, ...]) -> int:
    return sum(term.bytes for term in terms)


def head_of(batch: Batch, logits: str = "full", **changes: Any) -> Head:
    dtype = next(name for name, torch_dtype in DTYPES.items() if torch_dtype == batch.dtype)
    given: dict[str, Any] = {
        "tokens": batch.rows * batch.length,
        "rows": batch.rows,
        "vocab": batch.vocab,
        "hidden": batch.hidden_size,
        "logits": logits,
        "logits_dtype": "fp32" if dtype == "fp32" else "bf16",
        "weight_trains": batch.trains,
        "framework": "plain",
        "framework_version": "1",
        "dtype": dtype,
    }
    return Head(**{**given, **changes})


def visible(instants: tuple[Instant, ...]) -> int:
    """Highest instant without the tensor that lives inside one operator."""
    return max(
        sum(term.bytes for term in instant.terms if term.name != HIDDEN_IN_KERNEL)
        for instant in instants
    )


def silent(step: Callable[[Batch], Any]) -> Callable[[Batch], Any]:
    """The step without gradient."""

    def run(batch: Batch) -> Any:
        with torch.no_grad():
            return step(batch)

    return run


def whole_step(step: Callable[[Batch], Any], batch: Batch) -> Callable[[], None]:
    """Forward and backward in one call."""

    def run() -> None:
        result = step(batch)
        (result[0] if isinstance(result, tuple) else result).backward()

    return run


BIG = {"tokens": 8192, "vocab": 50_000, "hidden": 16, "dtype": "bf16", "framework_version": "1"}


def big(rows: int = 1, **changes: Any) -> Head:
    given = {"rows": rows, "logits": "full", "weight_trains": True, "framework": "plain", **BIG}
    return Head(**{"logits_dtype": "bf16", **given, **changes})
