"""Chunks of tokens: one chunk's logits at a time, made again in the backward.

The way of verl's torch kernels (``verl/utils/experimental/torch_functional.py`` of 0.9.1): each
chunk is scored in fp32 and kept by name until the next one replaces it. A frozen head gets no
weight gradient here.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

from planner.formulas.logits import chunks as sizes
from planner.steps.stage import Stage
from planner.steps.vocabulary.head import pieces, squash_


def score(
    stage: Stage,
    hidden: torch.Tensor,
    weight: torch.Tensor,
    targets: torch.Tensor,
    *,
    entropy: bool,
    softcap: float,
    temperature: float,
    size: int | None = None,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Log-probabilities [N] in fp32 and, if asked, entropies [N], of ``hidden`` [N, h]."""
    taken, spread = ChunkedLogProbs.apply(  # type: ignore[no-untyped-call]
        hidden, weight, targets, (stage, softcap, temperature, size or sizes.TOKEN_CHUNK)
    )
    return taken, spread if entropy else None


class ChunkedLogProbs(torch.autograd.Function):
    """Scores and goes back chunk by chunk; keeps hidden states, weight and targets only."""

    @staticmethod
    def forward(
        ctx: Any, hidden: torch.Tensor, weight: torch.Tensor, targets: torch.Tensor, settings: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Log-probabilities [N] in fp32, entropies [N] in the dtype of ``hidden``."""
        ctx.set_materialize_grads(False)
        stage, softcap, temperature, size = settings
        tokens = hidden.shape[0]
        with stage.region(category="logits"):
            log_probs = torch.zeros(tokens, device=hidden.device)
            entropy = hidden.new_zeros(tokens)
            for places in pieces(stage, tokens, size):
                taken, spread = _scores(
                    hidden[places], weight, targets[places], softcap, temperature
                )
                log_probs[places] = taken
                entropy[places] = spread
        ctx.save_for_backward(hidden, weight, targets)
        ctx.settings = settings
        return log_probs, entropy

    @staticmethod
    def backward(ctx: Any, *upstream: torch.Tensor | None) -> Any:
        """Gradients of ``hidden`` and, if it trains, ``weight``, in their dtype."""
        hidden, weight, targets = ctx.saved_tensors
        stage, *_, size = ctx.settings
        trains = ctx.needs_input_grad[1]
        with stage.region(category="logits"):
            to_hidden = torch.zeros_like(hidden)
        to_weight = None
        if trains:
            with stage.region(category="gradients"):
                to_weight = torch.zeros_like(weight)
        for places in pieces(stage, hidden.shape[0], size):
            of_chunk = tuple(None if each is None else each[places] for each in upstream)
            with stage.region(category="logits"):
                back, own = _gradients(
                    of_chunk, hidden[places], weight, targets[places], ctx.settings, trains
                )
            to_hidden[places] += back
            if to_weight is not None and own is not None:
                to_weight += own
        return to_hidden, to_weight, None, None


def _logits(
    hidden: torch.Tensor, weight: torch.Tensor, softcap: float, temperature: float
) -> torch.Tensor:
    """fp32 logits [chunk, V], capped and divided in place."""
    return squash_((hidden @ weight.t()).float(), softcap, temperature)


def _entropy(logits: torch.Tensor, probs: torch.Tensor) -> torch.Tensor:
    return torch.logsumexp(logits, -1) - torch.sum(probs * logits, -1)


def _scores(
    hidden: torch.Tensor,
    weight: torch.Tensor,
    targets: torch.Tensor,
    softcap: float,
    temperature: float,
) -> tuple[torch.Tensor, torch.Tensor]:
    logits = _logits(hidden, weight, softcap, temperature)
    probs = logits.softmax(-1)
    entropy = _entropy(logits, probs)
    logs = F.log_softmax(logits, -1)
    taken = logs.gather(-1, targets.unsqueeze(-1)).squeeze(-1)
    return taken, entropy.to(hidden.dtype)


def _gradients(
    upstream: tuple[torch.Tensor | None, ...],
    hidden: torch.Tensor,
    weight: torch.Tensor,
    targets: torch.Tensor,
    settings: tuple[Stage, float, float, int],
    trains: bool,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """One chunk's gradients of the hidden states and of the weight."""
    stage, softcap, temperature, _ = settings
    of_log_probs, of_entropy = upstream
    logits = _logits(hidden, weight, softcap, temperature)
    probs = logits.softmax(-1)
    gradient = None
    if of_log_probs is not None:
        # d log p(taken) / dz = one-hot - p
        picked = torch.zeros_like(logits).scatter_(-1, targets.unsqueeze(-1), 1.0)
        gradient = (picked - probs) * of_log_probs.unsqueeze(-1)
    if of_entropy is not None:
        # dH / dz = -p (log p + H)
        logs = F.log_softmax(logits, -1)
        entropy = _entropy(logits, probs)
        share = probs * (logs + entropy.unsqueeze(-1))
        share = share * -of_entropy.unsqueeze(-1)
        gradient = share if gradient is None else gradient.add_(share)
        del share
    assert gradient is not None
    if temperature != 1.0:
        gradient.div_(temperature)
    if softcap:
        # With z = cap * tanh(y / cap) / temperature, the slope is 1 - (z * temperature / cap)^2.
        slope = logits.mul_(temperature / softcap).square_().neg_().add_(1.0)
        gradient.mul_(slope)
    gradient = gradient.to(hidden.dtype)
    back, own = gradient @ weight, None
    if trains:
        with stage.region(category="gradients"):
            own = gradient.t() @ hidden
    return back, own
