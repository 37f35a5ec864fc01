"""Soft generation: every token of the response is a mixture that gradients flow through.

As in the original each step runs the whole row so far, without a KV cache, and the graph of
every step stays alive until the backward.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from planner.methods.grade.fields import METRIC, ONLINE, GradeFields
from planner.methods.grade.step.reference import Reference
from planner.methods.grade.step.tokens import Noise, SoftToken, gumbel_noise, mixed, soft_token
from planner.steps.stage import Stage

Casting = Callable[[], AbstractContextManager[Any]]
"""What the policy's forward runs in."""


@dataclass(frozen=True, slots=True)
class SoftRollout:
    """What a soft generation leaves: its tokens, and the mean KL [] in nats when there is one.

    As a metric it has no gradient.
    """

    tokens: list[SoftToken]
    kl: Tensor | None


def soft_generate(
    stage: Stage,
    policy: nn.Module,
    ids: Tensor,
    attention_mask: Tensor | None,
    tokens: int,
    options: GradeFields,
    *,
    reference: Reference | None = None,
    autocast: bool = False,
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
        autocast: whether the policy's forward computes in its embedding's dtype throughout.
        noise: replaces the noise, for comparisons under the same draws.

    Raises:
        ValueError: naming the field, when a KL term has no reference.
    """
    if options.grade_kl != "none" and reference is None:
        raise ValueError("grade_kl: a KL term needs a reference; pass one, or set it to none.")
    online = reference if options.grade_kl in ONLINE else None
    draw = noise or gumbel_noise()
    model: Any = policy
    embedding = model.get_input_embeddings()
    embeds, mask, hard = embedding(ids), attention_mask, ids
    found: list[SoftToken] = []
    kept: list[Tensor] = []
    kl: Tensor | None = None
    for step in stage.unrolled(tokens):
        if found:
            skipped = step - len(found)
            embeds = _longer(embeds, mixed(embedding, found[-1]), skipped)
            if reference is not None:
                hard = _longer(hard, found[-1].hard_ids(), skipped)
            if mask is not None:
                mask = _longer(mask, mask.new_ones(mask.shape[0], 1), skipped)
            if skipped:
                found += [found[-1].without_gradient()] * skipped
                kept += [each.detach() for each in kept[-1:]] * skipped
                if online:
                    online.skip(skipped)
        casting = partial(stage.autocast, embedding.weight.dtype, enabled=autocast)
        logits = _next_logits(model, embeds, mask, options, casting)
        stage.turning(logits, step)
        if online:
            with torch.set_grad_enabled(options.grade_kl != METRIC):
                here = kl_divergence(logits, online(hard, mask))
            kl = here if kl is None else kl + here
            del here
        if options.grade_kl == "batch":
            kept.append(logits)
        found.append(soft_token(logits, options, draw))
        del logits
    del embeds
    if kl is not None:
        return SoftRollout(found, kl.mean() / tokens)
    if options.grade_kl == "batch" and reference is not None:
        return SoftRollout(found, _batch_kl(stage, kept, reference, hard, mask))
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
    model: Any, embeds: Tensor, mask: Tensor | None, options: GradeFields, casting: Casting
) -> Tensor:
    """fp32 logits [rows, vocabulary] after the row so far; the step is one checkpoint if asked."""
    if options.grade_step_checkpointing:
        return checkpoint(_forward, model, embeds, mask, casting, use_reentrant=False)  # type: ignore[no-any-return]
    return _forward(model, embeds, mask, casting)


def _forward(model: Any, embeds: Tensor, mask: Tensor | None, casting: Casting) -> Tensor:
    with casting():
        found = model(inputs_embeds=embeds, attention_mask=mask, use_cache=False, logits_to_keep=1)
    return found.logits[:, -1].float()  # type: ignore[no-any-return]


def kl_divergence(logits: Tensor, reference: Tensor) -> Tensor:
    """KL(policy, reference) [...] in nats, from logits [..., vocabulary]; computed in fp32.

    Both logits are of the same position: they predict the token that is sampled next. The
    original's memory-efficient variant compares the policy's prediction of token t with the
    reference's of token t + 1; here it is aligned.
    """
    with torch.no_grad():
        target = F.log_softmax(reference.float(), dim=-1)
    log_probs = F.log_softmax(logits.float(), dim=-1)
    return (log_probs.exp() * (log_probs - target)).sum(-1)


def _batch_kl(
    stage: Stage, kept: list[Tensor], reference: Reference, ids: Tensor, mask: Tensor | None
) -> Tensor:
    """Mean KL [] over all positions at once, as the original's first variant has it.

    The reference runs after the generation, and its logits of all steps are kept together.
    ``kept`` are the policy's logits [rows, vocabulary] of every step; ``ids`` are prompts and the
    hard tokens but the last, [rows, prompt + steps - 1], and so is ``mask``, or None.
    """
    prompt = ids.shape[1] - len(kept) + 1
    found: list[Tensor] = []
    for step in stage.unrolled(len(kept)):
        skipped = step - len(found)
        if skipped:
            found += found[-1:] * skipped
            reference.skip(skipped)
        end = prompt + step
        found.append(reference(ids[:, :end], None if mask is None else mask[:, :end]))
    theirs = torch.stack(found, dim=1)
    del found
    return kl_divergence(torch.stack(kept, dim=1), theirs).mean()
