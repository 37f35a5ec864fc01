"""Losses over per-token numbers: the clipped policy ratio with its KL term, and the values'."""

from __future__ import annotations

import torch

CLIP = 0.2
"""How far from one the policy's ratio counts, and from the old ones new values."""

ENTROPY_WEIGHT = 0.01
"""How much the entropy counts in the loss."""

KL_WEIGHT = 0.001
"""How much the distance from the reference counts, in the loss or in the reward."""

VALUE_WEIGHT = 0.1
"""How much the values' error counts beside the policy's loss, of one model that is both.

TRL's PPO has it as ``vf_coef``.
"""


def policy_loss(
    log_probs: torch.Tensor,
    old: torch.Tensor,
    advantages: torch.Tensor,
    reference: torch.Tensor | None,
    entropy: torch.Tensor | None,
) -> torch.Tensor:
    """Clipped-ratio loss [] of [rows, tokens] log-probs, with a k3 KL term and an entropy bonus.

    Sources: PPO (arXiv 1707.06347) for the ratio, GRPO (arXiv 2402.03300) for the KL term.
    """
    ratio = torch.exp(log_probs - old)
    loss = -torch.minimum(ratio * advantages, ratio.clamp(1 - CLIP, 1 + CLIP) * advantages)
    if reference is not None:
        distance = reference - log_probs
        loss = loss + KL_WEIGHT * (torch.exp(distance) - distance - 1)
    mean = loss.mean()
    return mean if entropy is None else mean - ENTROPY_WEIGHT * entropy.mean()


def value_loss(values: torch.Tensor, old: torch.Tensor, returns: torch.Tensor) -> torch.Tensor:
    """Clipped squared error [] of [rows, tokens] values (PPO)."""
    clipped = old + (values - old).clamp(-CLIP, CLIP)
    return 0.5 * torch.maximum((values - returns) ** 2, (clipped - returns) ** 2).mean()


def group_advantages(rewards: torch.Tensor, group: int, tokens: int) -> torch.Tensor:
    """Rewards [sequences] normalised within their groups, on every token: [sequences, tokens]."""
    groups = rewards.view(-1, group)
    centred = groups - groups.mean(1, keepdim=True)
    scaled = centred / (groups.std(1, keepdim=True) + 1e-4)
    return scaled.view(-1, 1).expand(-1, tokens)
