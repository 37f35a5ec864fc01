"""Self-certainty, logsumexp(z) - mean(z) over the vocabulary, in three forms that agree.

Sizes of chunks and what each form holds: :mod:`planner.formulas.logits.certainty`.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from planner.formulas.logits import certainty as sizes
from planner.steps.stage import Stage
from planner.steps.vocabulary.head import (
    bare_weight,
    capped_logits,
    in_compute_dtype,
    pieces,
    squash_,
)


def self_certainty(
    stage: Stage,
    hidden: torch.Tensor,
    head: nn.Module,
    *,
    how: str,
    logits_dtype: torch.dtype,
    with_gradient: bool,
    softcap: float = 0.0,
    temperature: float = 1.0,
) -> torch.Tensor:
    """How far each position's distribution is from uniform, up to the constant log V.

    Args:
        stage: where the step runs.
        hidden: ``[rows, T, h]``, cut to the scored positions.
        head: the language-model head.
        how: ``full`` on all logits at once, ``chunked-tokens`` on 2048 of their rows at a time,
            ``chunked-vocabulary`` on one slice of the vocabulary for all tokens.
        logits_dtype: what ``full`` computes in; the chunked forms use fp32.
        with_gradient: False for what Intuitor does, a reward; True for a term of the loss.
        softcap: the model's ``final_logit_softcapping``; 0 for none.
        temperature: of sampling.

    Returns:
        ``[rows, T]``, in ``logits_dtype`` or wider for ``full``, else fp32.

    Raises:
        ValueError: for another ``how``.
    """
    sizes.check_way(how)
    shape = hidden.shape[:-1]
    with nullcontext() if with_gradient else torch.no_grad():
        if how == "chunked-vocabulary":
            found: torch.Tensor = CertaintyOfSlices.apply(  # type: ignore[no-untyped-call]
                in_compute_dtype(hidden).reshape(-1, hidden.shape[-1]),
                in_compute_dtype(bare_weight(head)),
                (stage, softcap, temperature),
            )
            return found.view(shape)
        logits = capped_logits(stage, hidden, head, softcap)
        if how == "chunked-tokens":
            if temperature != 1.0:
                logits = logits.div_(temperature)
            scores: torch.Tensor = CertaintyOfRows.apply(  # type: ignore[no-untyped-call]
                logits.flatten(0, -2), stage
            )
            return scores.view(shape)
        with stage.region(category="logits"):
            if logits_dtype.itemsize > logits.dtype.itemsize:
                logits = logits.to(logits_dtype)
            if temperature != 1.0:
                logits = logits / temperature
            return torch.logsumexp(logits, -1) - logits.mean(-1)


class CertaintyOfRows(torch.autograd.Function):
    """Rows [N, V] of materialised logits, some at a time in fp32; the backward does so again."""

    @staticmethod
    def forward(ctx: Any, logits: torch.Tensor, stage: Stage) -> torch.Tensor:
        """Self-certainty [N] in fp32."""
        log_z = torch.zeros(logits.shape[0], device=logits.device)
        scores = torch.zeros(logits.shape[0], device=logits.device)
        with stage.region(category="logits"):
            for rows in pieces(stage, logits.shape[0], sizes.TOKEN_CHUNK):
                chunk = logits[rows].float()
                torch.logsumexp(chunk, -1, out=log_z[rows])
                torch.sum(chunk, -1, out=scores[rows])
                del chunk
        scores.div_(-logits.shape[1]).add_(log_z)
        ctx.save_for_backward(logits, log_z)
        ctx.stage = stage
        return scores

    @staticmethod
    def backward(ctx: Any, *upstream: torch.Tensor) -> Any:
        """Gradient of the logits: softmax less 1 / V."""
        logits, log_z = ctx.saved_tensors
        (given,) = upstream
        with ctx.stage.region(category="logits"):
            result = torch.empty_like(logits)
            for rows in pieces(ctx.stage, logits.shape[0], sizes.TOKEN_CHUNK):
                chunk = log_z.new_empty(logits[rows].shape)
                chunk.copy_(logits[rows]).sub_(log_z[rows, None]).exp_()
                chunk.sub_(1 / logits.shape[1]).mul_(given[rows, None])
                result[rows].copy_(chunk)
                del chunk
        return result, None


class CertaintyOfSlices(torch.autograd.Function):
    """A slice of the vocabulary at a time; the running log-sum-exp keeps the sum over all exact."""

    @staticmethod
    def forward(
        ctx: Any, hidden: torch.Tensor, weight: torch.Tensor, settings: Any
    ) -> torch.Tensor:
        """Self-certainty [N] in fp32 of hidden states [N, h]."""
        stage, softcap, temperature = settings
        log_z = torch.full(hidden.shape[:1], -torch.inf, device=hidden.device)
        scores = torch.zeros(hidden.shape[:1], device=hidden.device)
        with stage.region(category="logits"):
            for part in pieces(stage, weight.shape[0], sizes.VOCABULARY_CHUNK):
                chunk = _slice(hidden, weight[part], softcap, temperature)
                torch.logaddexp(log_z, torch.logsumexp(chunk, -1), out=log_z)
                scores.add_(chunk.sum(-1))
                del chunk
        scores.div_(-weight.shape[0]).add_(log_z)
        ctx.save_for_backward(hidden, weight, log_z)
        ctx.settings = settings
        return scores

    @staticmethod
    def backward(ctx: Any, *upstream: torch.Tensor) -> Any:
        """Gradients of hidden states and, if it trains, weight, in their dtype."""
        hidden, weight, log_z = ctx.saved_tensors
        stage, softcap, temperature = ctx.settings
        (given,) = upstream
        with stage.region(category="logits"):
            to_hidden = torch.zeros_like(hidden)
        to_weight = None
        if ctx.needs_input_grad[1]:
            with stage.region(category="gradients"):
                to_weight = torch.zeros_like(weight)
        for part in pieces(stage, weight.shape[0], sizes.VOCABULARY_CHUNK):
            rows = weight[part]
            with stage.region(category="logits"):
                chunk = _slice(hidden, rows, softcap, temperature)
                slope = None
                if softcap:
                    slope = (chunk * (temperature / softcap)).square_().neg_().add_(1.0)
                chunk.sub_(log_z[:, None]).exp_().sub_(1 / weight.shape[0]).mul_(given[:, None])
                if slope is not None:
                    chunk.mul_(slope)
                    del slope
                if temperature != 1.0:
                    chunk.div_(temperature)
                narrow = chunk.to(hidden.dtype)
                del chunk
            to_hidden.addmm_(narrow, rows)
            if to_weight is not None:
                torch.mm(narrow.t(), hidden, out=to_weight[part])
            del narrow
        return to_hidden, to_weight, None


def _slice(
    hidden: torch.Tensor, rows: torch.Tensor, softcap: float, temperature: float
) -> torch.Tensor:
    """fp32 logits of all tokens and some of the vocabulary, capped and divided in place."""
    return squash_(F.linear(hidden, rows).float(), softcap, temperature)
