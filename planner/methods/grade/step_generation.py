"""Soft generation: every token of the response is a mixture that gradients flow through.

As in the original each step runs the whole row so far, without a KV cache, and the graph of
every step stays alive until the backward.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from planner.methods.grade.options import GradeOptions
from planner.methods.grade.step_embedding import mixed
from planner.methods.grade.step_kl import batch_kl, kl_divergence
from planner.methods.grade.step_reference import Reference
from planner.methods.grade.step_sampling import (
    Noise,
    SoftToken,
    gumbel_noise,
    hard_ids,
    soft_token,
)
from planner.steps.stage import Stage


@dataclass(frozen=True, slots=True)
class SoftRollout:
    """What a soft generation leaves: its tokens, and the mean KL [] in nats when there is one."""

    tokens: list[SoftToken]
    kl: torch.Tensor | None


def soft_generate(
    stage: Stage,
    policy: nn.Module,
    ids: torch.Tensor,
    attention_mask: torch.Tensor | None,
    tokens: int,
    options: GradeOptions,
    *,
    reference: Reference | None = None,
    generator: torch.Generator | None = None,
    noise: Noise | None = None,
) -> SoftRollout:
    """Unroll ``tokens`` soft tokens after the prompts.

    Args:
        stage: where it runs.
        policy: a causal language model, with or without adapters.
        ids: prompts [rows, prompt].
        attention_mask: of the same shape; None when no row is padded.
        tokens: soft tokens to generate, at least 1.
        options: the switches.
        reference: next-token logits of the reference; needed for a KL term.
        generator: draws the noise.
        noise: replaces the noise, for comparisons under the same draws.

    Raises:
        ValueError: naming the field, when a KL term has no reference.
    """
    if options.kl != "none" and reference is None:
        raise ValueError("grade_kl: a KL term needs a reference; pass one, or set it to none.")
    draw = noise or gumbel_noise(generator)
    model: Any = policy
    embedding = model.get_input_embeddings()
    embeds, mask, hard = embedding(ids), attention_mask, ids
    found: list[SoftToken] = []
    kept: list[torch.Tensor] = []
    kl: torch.Tensor | None = None
    for step in stage.unrolled(tokens):
        if found:
            skipped = step - len(found)
            embeds = _longer(embeds, mixed(embedding, found[-1]), skipped)
            if options.kl != "none":
                hard = _longer(hard, hard_ids(found[-1]), skipped)
            if mask is not None:
                mask = _longer(mask, mask.new_ones(mask.shape[0], 1), skipped)
            if skipped:
                found += [found[-1].without_gradient()] * skipped
                kept += [each.detach() for each in kept[-1:]] * skipped
                if options.kl == "online" and reference is not None:
                    reference.skip(skipped)
        logits = _next_logits(model, embeds, mask, options)
        stage.turning(logits, step)
        if options.kl == "online" and reference is not None:
            here = kl_divergence(logits, reference(hard, mask))
            kl = here if kl is None else kl + here
            del here
        if options.kl == "batch":
            kept.append(logits)
        found.append(soft_token(logits, options, draw))
        del logits
    del embeds
    if kl is not None:
        return SoftRollout(found, kl.mean() / tokens)
    if options.kl == "batch" and reference is not None:
        return SoftRollout(found, batch_kl(stage, kept, reference, hard, mask))
    return SoftRollout(found, None)


def _longer(row: Tensor, last: Tensor, skipped: int) -> Tensor:
    """What a row [rows, tokens, ...] holds, and ``last`` behind it.

    Between them stands for ``skipped`` tokens what needs no memory of its own.
    """
    if not skipped:
        return torch.cat([row, last], dim=1)
    between = row.detach()[:, :1].expand(-1, skipped, *row.shape[2:])
    return torch.cat([row, between, last], dim=1)


def _next_logits(
    model: Any, embeds: torch.Tensor, mask: torch.Tensor | None, options: GradeOptions
) -> torch.Tensor:
    """fp32 logits [rows, vocabulary] after the row so far; the step is one checkpoint if asked."""
    if options.step_checkpointing:
        found = checkpoint(_forward, model, embeds, mask, use_reentrant=False)
        return found  # type: ignore[no-any-return]
    return _forward(model, embeds, mask)


def _forward(model: Any, embeds: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
    found = model(inputs_embeds=embeds, attention_mask=mask, use_cache=False, logits_to_keep=1)
    return found.logits[:, -1].float()  # type: ignore[no-any-return]
