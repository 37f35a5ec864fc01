"""The plain step's code whose live bytes the formulas claim to know, and how to watch it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

import torch
import torch.nn.functional as F

from live_bytes import LiveBytes
from planner.formulas.logits import (
    Head,
    backward_instants,
    certainty_instants,
    forward_instants,
    logprob_instants,
)
from planner.numeric import Num, where
from planner.numeric import total as added
from planner.plan.frameworks import framework_named
from planner.steps.stage import DTYPES, Stage
from planner.steps.vocabulary import (
    LogProbs,
    log_probs,
    self_certainty,
    sft,
    sft_loss,
    token_log_probs,
)
from planner.steps.vocabulary.head import capped_logits
from planner.term import Instant, Term

LOSS_DTYPES = [("bf16", "bf16"), ("bf16", "fp32"), ("fp32", "fp32")]
HIDDEN_IN_KERNEL = "exponentials inside logsumexp"
SIZES = [(1, 77, 501, 32), (8, 13, 701, 33), (1, 11, 501, 128), (8, 9, 31, 128), (1, 64, 3001, 90)]


class HeadModule(torch.nn.Module):
    """A batch's head as a model has it."""

    def __init__(self, weight: torch.Tensor) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(weight, requires_grad=weight.requires_grad)
        self.bias = None

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        return F.linear(hidden, self.weight)


@dataclass
class Batch:
    """Random inputs of a head and a loss."""

    rows: int
    length: int
    vocab: int
    hidden_size: int
    dtype: torch.dtype
    trains: bool = True
    device: str = "cpu"
    hidden: torch.Tensor = field(init=False)
    module: HeadModule = field(init=False)
    weight: torch.Tensor = field(init=False)
    ids: torch.Tensor = field(init=False)
    old: torch.Tensor = field(init=False)
    reference: torch.Tensor = field(init=False)
    advantages: torch.Tensor = field(init=False)

    def __post_init__(self) -> None:
        torch.manual_seed(0)
        shape, like = (self.rows, self.length), {"dtype": self.dtype, "device": self.device}
        self.hidden = torch.randn(*shape, self.hidden_size, **like).requires_grad_()
        weight = torch.randn(self.vocab, self.hidden_size, **like)
        self.module = HeadModule(weight.requires_grad_(self.trains))
        self.weight = self.module.weight
        self.ids = torch.randint(0, self.vocab, shape, device=self.device)
        self.old, self.reference, self.advantages = torch.randn(
            3, *shape, device=self.device
        ).unbind()

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


SOFTCAP = 30.0
TEMPERATURE = 0.7


def squash(logits: torch.Tensor, head: Head) -> torch.Tensor:
    """Gemma 2's soft cap, as transformers writes it."""
    if head.softcap:
        logits = logits / SOFTCAP
        logits = torch.tanh(logits)
        logits = logits * SOFTCAP
    return logits


@contextmanager
def logits_kept(there: bool) -> Iterator[list[torch.Tensor]]:
    """Someone else also names the (capped) logits, as an output object of a model does."""
    kept: list[torch.Tensor] = []

    def keeping(*given: Any) -> torch.Tensor:
        kept.append(capped_logits(*given))
        return kept[0]

    if not there:
        yield kept
        return
    with (
        patch.object(log_probs, "capped_logits", keeping),
        patch.object(sft, "capped_logits", keeping),
    ):
        yield kept


def scored(head: Head, batch: Batch, *, entropy: bool, certainty: bool = False) -> LogProbs:
    """The product's log-probabilities of a batch."""
    return token_log_probs(
        Stage(batch.hidden.device),
        batch.hidden,
        batch.module,
        batch.ids,
        how=head.logits,
        logits_dtype=DTYPES[head.logits_dtype],
        entropy=entropy,
        certainty=certainty,
        softcap=SOFTCAP * head.softcap,
        temperature=TEMPERATURE if head.temperature_scaled else 1.0,
    )


def plain_policy(head: Head) -> Callable[[Batch], Any]:
    """The plain step's policy loss, whichever way its head meets the vocabulary."""

    def step(batch: Batch) -> Any:
        with logits_kept(head.logits_held) as kept:
            found = scored(head, batch, entropy=head.entropy)
            return ratio_loss(found.log_probs, batch, found.entropy), kept

    return step


def plain_scores(head: Head, entropy: bool, certainty: bool = False) -> Callable[[Batch], Any]:
    """Log-probabilities (entropy, self-certainty) of the plain step, no loss after them."""
    return lambda batch: scored(head, batch, entropy=entropy, certainty=certainty)


def plain_certainty(head: Head, how: str, *, with_gradient: bool) -> Callable[[Batch], Any]:
    """Self-certainty of the plain step."""

    def step(batch: Batch) -> torch.Tensor:
        return self_certainty(
            Stage(batch.hidden.device),
            batch.hidden,
            batch.module,
            how=how,
            logits_dtype=DTYPES[head.logits_dtype],
            with_gradient=with_gradient,
            softcap=SOFTCAP * head.softcap,
            temperature=TEMPERATURE if head.temperature_scaled else 1.0,
        )

    return step


def plain_sft(head: Head) -> Callable[[Batch], Any]:
    """The plain step's supervised loss."""

    def step(batch: Batch) -> Any:
        with logits_kept(head.logits_held) as kept:
            loss = sft_loss(
                Stage(batch.hidden.device),
                batch.hidden,
                batch.module,
                batch.ids,
                how=head.logits,
                logits_dtype=DTYPES[head.logits_dtype],
                softcap=SOFTCAP * head.softcap,
            )
            return loss, kept

    return step


def total(terms: tuple[Term, ...]) -> int:
    return sum(term.bytes for term in terms)


def head_of(batch: Batch, logits: str = "full", **changes: Any) -> Head:
    dtype = next(name for name, found in DTYPES.items() if found == batch.dtype)
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
    return Head(**with_loss({**given, **changes}))


def with_loss(given: dict[str, Any]) -> dict[str, Any]:
    """The head's values with the way of the framework and version among them."""
    code = framework_named(given.pop("framework")).loss_code(given.pop("framework_version"))
    return {"way": code.way("policy", given.pop("logits")), **given}


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


def highest(*instants: Instant) -> Instant:
    """The instant with most bytes; for arrays, at every element the terms of the highest one.

    Terms of an instant that is not the highest at an element carry 0 bytes there.
    """
    best = instants[0]
    for other in instants[1:]:
        rises = instant_bytes(other) > instant_bytes(best)
        if isinstance(rises, bool):
            best = other if rises else best
            continue
        best = Instant(
            name=f"{best.name} or {other.name}",
            terms=tuple(masked(term, ~rises) for term in best.terms)
            + tuple(masked(term, rises) for term in other.terms),
        )
    return best


def instant_bytes(instant: Instant) -> Num:
    """Sum of an instant's terms."""
    return added([term.bytes for term in instant.terms])


def masked(term: Term, there: Num) -> Term:
    """The term where ``there`` holds, 0 bytes elsewhere."""
    return term._replace(bytes=where(there, term.bytes, 0), tensors=where(there, term.tensors, 0))


def certain(head: Head, *, how: str, role: str, **options: bool) -> tuple[Term, ...]:
    """Terms at the highest instant of self-certainty."""
    return highest(*certainty_instants(head, how=how, role=role, **options)).terms


def loss_forward(head: Head, *, objective: str, role: str) -> tuple[Term, ...]:
    """Terms alive at the highest instant of the forward through head and loss."""
    return highest(*forward_instants(head, objective=objective, role=role)).terms


def loss_backward(head: Head, *, objective: str, role: str) -> tuple[Term, ...]:
    """Terms alive at the highest instant of the loss's backward, gradients included."""
    return highest(*backward_instants(head, objective=objective, role=role)).terms


def logprob_forward(head: Head, *, with_entropy: bool, role: str) -> tuple[Term, ...]:
    """Terms at the highest instant of a pass without gradient."""
    return highest(*logprob_instants(head, with_entropy=with_entropy, role=role)).terms


BIG = {"tokens": 8192, "vocab": 50_000, "hidden": 16, "dtype": "bf16", "framework_version": "1"}


def big(rows: int = 1, **changes: Any) -> Head:
    given = {"rows": rows, "logits": "full", "weight_trains": True, "framework": "plain", **BIG}
    return Head(**with_loss({"logits_dtype": "bf16", **given, **changes}))
