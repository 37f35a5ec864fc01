"""DPO's loss: worked by hand, its gradient, and no bytes of its own beside the head's."""

from __future__ import annotations

import math

import pytest
import torch

from head_steps import DTYPES, Batch, head_of, loss_backward, loss_forward, scored, total, watch
from planner.steps.vocabulary import preference_loss

torch.set_num_threads(1)


def test_the_reference_itself_loses_log_two() -> None:
    same = torch.tensor([-3.0, -5.0, -7.0, -2.0])
    assert preference_loss(same, same).item() == pytest.approx(math.log(2), rel=1e-6)


def test_two_pairs_by_hand() -> None:
    """Rows are chosen, chosen, rejected, rejected; margins of 2 and -1, times beta 0.5."""
    policy = torch.tensor([-1.0, -4.0, -6.0, -3.0], requires_grad=True)
    reference = torch.tensor([-2.0, -4.0, -5.0, -4.0])
    # Pair 1: (-1 + 2) - (-6 + 5) = 2. Pair 2: (-4 + 4) - (-3 + 4) = -1.
    loss = preference_loss(policy, reference, beta=0.5)
    expected = (math.log1p(math.exp(-1.0)) + math.log1p(math.exp(0.5))) / 2
    assert loss.item() == pytest.approx(expected, rel=1e-6)
    loss.backward()
    # d/dm -log sigmoid(beta m) = -beta sigmoid(-beta m), halved by the mean.
    first, second = (-0.25 / (1 + math.exp(each)) for each in (1.0, -0.5))
    assert policy.grad is not None
    assert policy.grad.tolist() == pytest.approx([first, second, -first, -second], rel=1e-6)


@pytest.mark.parametrize("how", ["full", "response", "chunked", "fused"])
@pytest.mark.parametrize("dtype", ["bf16", "fp32"])
@pytest.mark.parametrize("device", ["meta", "cpu"])
def test_live_bytes(how: str, dtype: str, device: str) -> None:
    """The policy's terms are DPO's: at the peak its own numbers are one a row, or gone."""
    for trains, entropy in ((True, False), (False, False)):
        batch = Batch(6, 61, 1501, 32, DTYPES[dtype], trains, device)
        head = head_of(batch, how, entropy=entropy)
        learned = torch.ones_like(batch.ids, dtype=torch.bool)
        reference = torch.randn(6, device=device)

        def step(batch: Batch) -> torch.Tensor:
            found = scored(head, batch, entropy=False).log_probs  # noqa: B023
            policy = (found * learned).sum(-1)  # noqa: B023
            return preference_loss(policy, reference)  # noqa: B023

        seen = watch(batch, step)
        forward = loss_forward(head, objective="policy", role="policy")
        backward = loss_backward(head, objective="policy", role="policy")
        assert total(forward) == seen.forward
        assert abs(total(backward) - seen.backward) <= 8 * batch.rows
