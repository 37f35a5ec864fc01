"""The KL term between policy and reference at every generated position.

Policy and reference logits are of the same position: both predict the token that is sampled
next. The original's memory-efficient variant compares the policy's prediction of token t with
the reference's of token t + 1 and leaves the term out of the loss; here it is aligned, and in.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F

from planner.methods.grade.step_reference import Reference
from planner.steps.stage import Stage


def kl_divergence(logits: torch.Tensor, reference: torch.Tensor) -> torch.Tensor:
    """KL(policy, reference) [...] in nats, from logits [..., vocabulary]; computed in fp32."""
    with torch.no_grad():
        target = F.log_softmax(reference.float(), dim=-1)
    log_probs = F.log_softmax(logits.float(), dim=-1)
    return (log_probs.exp() * (log_probs - target)).sum(-1)


def batch_kl(
    stage: Stage,
    kept: list[torch.Tensor],
    reference: Reference,
    ids: torch.Tensor,
    mask: torch.Tensor | None,
) -> torch.Tensor:
    """Mean KL [] over all positions at once, as the original's first variant has it.

    The reference runs after the generation, and its logits of all steps are kept together.

    Args:
        stage: where it runs.
        kept: the policy's logits [rows, vocabulary] of every step.
        reference: the reference's next-token logits.
        ids: prompts and the hard tokens but the last, [rows, prompt + steps - 1].
        mask: of the same shape as ``ids``, or None.
    """
    prompt = ids.shape[1] - len(kept) + 1
    found: list[torch.Tensor] = []
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
