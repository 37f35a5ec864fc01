"""The loss of supervised fine-tuning: every position predicts the next label."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn
from transformers.loss.loss_utils import ForCausalLMLoss

from planner.steps.stage import Stage
from planner.steps.vocabulary.head import capped_logits
from planner.steps.vocabulary.log_probs import token_log_probs

IGNORED = -100
"""The label of a position that is not learned from."""


def sft_loss(
    stage: Stage,
    hidden: torch.Tensor,
    head: nn.Module,
    labels: torch.Tensor,
    *,
    how: str,
    logits_dtype: torch.dtype,
    softcap: float = 0.0,
    chunk_tokens: int | None = None,
) -> torch.Tensor:
    """Cross entropy of the next labels.

    Args:
        stage: where the step runs.
        hidden: ``[rows, T, h]`` of whole rows.
        head: the language-model head.
        labels: ``[rows, T]`` int64, not shifted; -100 where nothing is learned.
        how: ``full`` and ``response`` are transformers' own loss on all logits; ``chunked`` and
            ``fused`` as in :func:`token_log_probs`.
        logits_dtype: for :func:`token_log_probs`; transformers always computes in fp32.
        softcap: the model's ``final_logit_softcapping``; 0 for none.
        chunk_tokens: rows of a chunk of ``chunked``.

    Returns:
        A scalar in fp32.
    """
    if how in ("full", "response"):
        logits = capped_logits(stage, hidden, head, softcap)
        vocab = logits.shape[-1]
        with stage.region(category="logits"):
            # The only reference is the argument's own, which the callee replaces when it upcasts.
            only = [logits]
            del logits
            loss: torch.Tensor = ForCausalLMLoss(only.pop(), labels, vocab)
            return loss
    # Any valid id stands where nothing is learned; the mask takes its log-probability out.
    targets = _shifted(labels).clamp(min=0)
    taken = token_log_probs(
        stage,
        hidden,
        head,
        targets,
        how=how,
        logits_dtype=logits_dtype,
        softcap=softcap,
        chunk_tokens=chunk_tokens,
    ).log_probs
    learned = _shifted(labels) != IGNORED
    total = (taken * learned).sum()
    return -total / learned.sum()


def _shifted(labels: torch.Tensor) -> torch.Tensor:
    """The label after each position; nothing after the last."""
    return F.pad(labels, (0, 1), value=IGNORED)[:, 1:]
