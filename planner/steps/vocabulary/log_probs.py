"""Log-probabilities of given tokens, by each way of meeting the vocabulary."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from planner.steps.stage import Stage
from planner.steps.vocabulary import chunks, tiles
from planner.steps.vocabulary.head import bare_weight, capped_logits, in_compute_dtype

WAYS = ("full", "response", "chunked", "fused")


@dataclass(frozen=True, slots=True)
class LogProbs:
    """``log_probs [rows, T]`` of the targets; the others are of each position, if asked."""

    log_probs: torch.Tensor
    entropy: torch.Tensor | None
    certainty: torch.Tensor | None = None


def token_log_probs(
    stage: Stage,
    hidden: torch.Tensor,
    head: nn.Module,
    targets: torch.Tensor,
    *,
    how: str,
    logits_dtype: torch.dtype,
    entropy: bool = False,
    certainty: bool = False,
    softcap: float = 0.0,
    temperature: float = 1.0,
    chunk_tokens: int | None = None,
) -> LogProbs:
    """Log-probability of every target under softmax(logits / temperature).

    Gradients flow to ``hidden`` and to the head's weight if it trains; under ``no_grad`` the
    same code scores for old and reference log-probabilities.

    Args:
        stage: where the step runs.
        hidden: ``[rows, T, h]``, cut to the scored positions.
        head: the language-model head. ``full`` and ``response`` call it; ``chunked`` and
            ``fused`` multiply its weight piece by piece.
        targets: ``[rows, T]`` int64, every one a valid token id.
        how: ``full`` and ``response`` hold all logits, ``chunked`` a chunk of tokens' at a time,
            ``fused`` one tile of tokens by vocabulary.
        logits_dtype: what a materialised log-softmax computes in; the other two use fp32.
        entropy: also return the entropy, with gradient.
        certainty: also return self-certainty, without gradient; ``fused`` alone has it.
        softcap: the model's ``final_logit_softcapping``; 0 for none.
        temperature: of sampling.
        chunk_tokens: rows of a chunk of ``chunked``; verl's 512 where not told.

    Returns:
        Log-probabilities in ``logits_dtype`` or wider when materialised, else in fp32.

    Raises:
        ValueError: for another ``how``, a certainty of another than ``fused``, or a head that has
            no bare weight where one is needed.
    """
    if certainty and how != "fused":
        raise ValueError(f"only fused logits give self-certainty beside log-probs, not {how!r}")
    if how in ("full", "response"):
        logits = capped_logits(stage, hidden, head, softcap)
        with stage.region(category="logits"):
            if logits_dtype.itemsize > logits.dtype.itemsize:
                logits = logits.to(logits_dtype)
            if temperature != 1.0:
                logits = logits / temperature
            logs = F.log_softmax(logits, -1)
            del logits
            taken = logs.gather(-1, targets.unsqueeze(-1)).squeeze(-1)
            spread = -(logs.exp() * logs).sum(-1) if entropy else None
        return LogProbs(taken, spread)
    if how not in WAYS:
        raise ValueError(f"logits must be one of {', '.join(WAYS)}, not {how!r}")
    score: Any = partial(tiles.score, certainty=certainty)
    if how == "chunked":
        score = partial(chunks.score, size=chunk_tokens)
    found = score(
        stage,
        in_compute_dtype(hidden).reshape(-1, hidden.shape[-1]),
        in_compute_dtype(bare_weight(head)),
        targets.reshape(-1),
        entropy=entropy,
        softcap=softcap,
        temperature=temperature,
    )
    first, *others = (each if each is None else each.view(targets.shape) for each in found)
    assert first is not None
    return LogProbs(first, *others)
