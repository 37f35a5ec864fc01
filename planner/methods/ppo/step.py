"""The real step of PPO, with a critic of its own or one that shares the policy's body."""

from __future__ import annotations

import torch

from planner.steps import scoring
from planner.steps.generation import rollout
from planner.steps.run import Run, end_of_step
from planner.steps.update import (
    clipped_policy_loss,
    shared_loss,
    update_critic,
    update_policy,
)


def step(run: Run) -> None:
    """Responses, log-probs, rewards and values; then the critic's update and the policy's.

    A shared critic's values come with the log-probs, and its error is part of the policy's loss.
    """
    shared = run.plan.critic == "shared"
    rollout(run)
    scoring.old_log_probs(run)
    scoring.reference_log_probs(run)
    scoring.rewards(run)
    if not shared:
        scoring.values(run)
    _advantages(run)
    if not shared:
        update_critic(run)
    update_policy(run, shared_loss if shared else clipped_policy_loss)
    run.kept.clear()
    end_of_step(run)


def _advantages(run: Run, gamma: float = 1.0, weight: float = 0.95) -> None:
    """Generalised advantages (arXiv 1506.02438) from values and rewards.

    The reward comes with the last token; a KL term in the reward, with every token.
    """
    values, rewards = run.kept["values"], run.kept.pop("rewards")
    returns, advantages = torch.empty_like(values), torch.empty_like(values)
    last = torch.zeros_like(rewards)
    following = torch.zeros_like(rewards)
    tokens = values.shape[1]
    penalties = scoring.kl_penalties(run) if run.plan.kl == "reward" else None
    for place in reversed(run.stage.rounds(tokens, 1)):
        reward = rewards if place == tokens - 1 else torch.zeros_like(rewards)
        if penalties is not None:
            reward = reward - penalties[:, place]
        delta = reward + gamma * following - values[:, place]
        last = delta + gamma * weight * last
        advantages[:, place] = last
        returns[:, place] = last + values[:, place]
        following = values[:, place]
    run.kept["advantages"], run.kept["returns"] = advantages, returns
