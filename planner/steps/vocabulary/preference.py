"""DPO's loss: how much further the policy has moved towards the chosen response.

Source: Rafailov et al. 2023, arXiv 2305.18290, equation 7.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F


def preference_loss(
    policy: torch.Tensor, reference: torch.Tensor, *, beta: float = 0.1
) -> torch.Tensor:
    """The sigmoid loss, averaged over pairs.

    Args:
        policy: ``[2 * pairs]`` log-probabilities of whole responses, all chosen ones first, then
            the rejected ones in the same order.
        reference: the same under the frozen reference.
        beta: how strongly the policy is held to the reference.

    Returns:
        A scalar; log 2 while the policy is the reference.
    """
    chosen, rejected = (policy - reference).chunk(2)
    return -F.logsigmoid(beta * (chosen - rejected)).mean()
