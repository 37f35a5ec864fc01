"""The real step of PPO, with a critic of its own or one that shares the policy's body."""

from __future__ import annotations

import torch
from torch import nn

from planner.steps import forward, in_loss, scoring
from planner.steps.batch import Rows
from planner.steps.generation import rollout
from planner.steps.objectives import VALUE_WEIGHT, value_loss
from planner.steps.run import Run, end_of_step
from planner.steps.update import against_kept, clipped_policy_loss, update_critic, update_policy
from planner.values.step_phases import VALUES


def step(run: Run) -> None:
    """Responses, log-probs, rewards and values; then the critic's update and the policy's.

    A shared critic's values come with the log-probs, and its error is part of the policy's loss.
    """
    shared = run.plan.critic == "shared"
    rollout(run)
    scoring.old_log_probs(run, {VALUES.name: _values} if shared else {})
    scoring.reference_log_probs(run)
    scoring.rewards(run)
    if not shared:
        scoring.values(run)
    _advantages(run)
    if not shared:
        update_critic(run, _critic_loss)
    update_policy(run, _shared_loss if shared else clipped_policy_loss)
    run.kept.clear()
    end_of_step(run)


def _advantages(run: Run, gamma: float = 1.0, weight: float = 0.95) -> None:
    """Generalised advantages (arXiv 1506.02438) from values and rewards.

    The reward comes with the last token; a KL term in the reward, with every token.
    """
    values, rewards = run.kept[VALUES.name], run.kept.pop("rewards")
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


def _values(run: Run, model: nn.Module, hidden: torch.Tensor) -> torch.Tensor:
    return run.values_of(hidden)


def _shared_loss(run: Run, rows: Rows, places: slice) -> torch.Tensor:
    """The loss of policy and values, of one forward of the body they share."""
    return run.policy(lambda model: _shared(run, model, rows, places))  # type: ignore[no-any-return]


def _shared(run: Run, model: nn.Module, rows: Rows, places: slice) -> torch.Tensor:
    hidden, targets, reference = in_loss.scored(run, model, rows, places)
    loss = against_kept(run, model, rows, places, hidden, targets, reference)
    return loss + VALUE_WEIGHT * _value_loss(run, run.values_of(hidden), rows, places)


def _critic_loss(run: Run, rows: Rows, places: slice) -> torch.Tensor:
    """The clipped value loss of a micro-batch."""
    values = run.models["critic"](lambda model: model(**rows.inputs()))
    return _value_loss(run, values, rows, places)


def _value_loss(run: Run, values: torch.Tensor, rows: Rows, places: slice) -> torch.Tensor:
    return value_loss(
        forward.responses(values, rows, run.plan),
        run.kept[VALUES.name][places],
        run.kept["returns"][places],
    )
