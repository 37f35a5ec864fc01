"""The real step of REINFORCE++: GRPO's with returns that are whitened over the whole batch.

Advantages are verl's (``verl/trainer/ppo/core_algos.py`` 0.9.1), and so is the loss, a clipped
ratio per token (``compute_policy_loss_vanilla``, lines 1286 to 1376). Returns are not discounted:
verl's ``algorithm.gamma`` is 1 unless told.
"""

from __future__ import annotations

import torch

from planner.methods.grpo.step import collect, learn
from planner.methods.reinforce_pp.fields import own
from planner.steps import scoring
from planner.steps.run import Run

EPSILON = 1e-8
"""What verl adds to the variance that it divides by."""


def step(run: Run) -> None:
    """Responses, their log-probs and rewards, then the update against whitened advantages."""
    collect(run)
    keep_advantages(run, run.kept.pop("rewards"))
    learn(run)


def keep_advantages(run: Run, rewards: torch.Tensor) -> None:
    """Keep advantages [sequences, response_tokens] of this GPU's rewards [sequences]."""
    if own(run.plan).reinforce_baseline == "group":
        scoring.keep_group_advantages(run, rewards, above_mean)
    else:
        _keep_returns(run, rewards)
    _whiten(run)


def above_mean(rewards: torch.Tensor, group: int, tokens: int) -> torch.Tensor:
    """Rewards [sequences] less their group's mean, not whitened yet: [sequences, tokens].

    Source: ``compute_reinforce_plus_plus_baseline_outcome_advantage``, lines 536 to 584.
    """
    groups = rewards.view(-1, group)
    return (groups - groups.mean(1, keepdim=True)).view(-1, 1).expand(-1, tokens)


def _keep_returns(run: Run, rewards: torch.Tensor) -> None:
    """Keep what each token [sequences, response_tokens] earns from there on, not whitened yet.

    The reward comes with the last token; a KL term in the reward, with every token. Source:
    ``compute_reinforce_plus_plus_outcome_advantage``, lines 694 to 730.
    """
    with run.stage.region(role="policy", category="logits"):
        returns = run.kept["advantages"] = rewards[:, None].repeat(1, run.plan.response_tokens)
    if run.plan.kl == "reward":
        returns -= scoring.kl_penalties(run).flip(1).cumsum(1).flip(1)


def _whiten(run: Run) -> None:
    """Advantages of mean 0 and variance 1 over all tokens of the step, on all GPUs; in place.

    Source: ``masked_whiten``, ``verl/utils/torch_functional.py``, lines 308 to 346.
    """
    advantages = run.kept["advantages"]
    count = advantages.numel() * int(run.q.training_gpus)
    advantages -= _over_gpus(run, advantages.mean())
    variance = _over_gpus(run, advantages.square().mean()) * (count / max(count - 1, 1))
    advantages *= torch.rsqrt(variance + EPSILON)


def _over_gpus(run: Run, mean: torch.Tensor) -> torch.Tensor:
    """The mean [] over all GPUs of the mean [] over this one's tokens, as many on each."""
    ranks = int(run.q.training_gpus)
    return mean if ranks == 1 else run.stage.gathered(mean[None], ranks).mean()
