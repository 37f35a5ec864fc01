"""The real step of RLOO: GRPO's with leave-one-out advantages.

The loss is verl's, a clipped ratio per token (``verl/trainer/ppo/core_algos.py`` 0.9.1,
``compute_policy_loss_vanilla``, lines 1286 to 1376). TRL clips the ratio of whole responses
(``trl/trainer/rloo_trainer.py`` 1.16.0, ``_compute_loss``, lines 1822 to 1833): the same model
passes, and a number per response where verl has one per token. The wider one is followed.
"""

from __future__ import annotations

import torch

from planner.methods.grpo.step import collect, learn
from planner.steps import scoring
from planner.steps.run import Run


def step(run: Run) -> None:
    """Responses, their log-probs and rewards, then the update against them."""
    collect(run)
    keep_advantages(run, run.kept.pop("rewards"))
    learn(run)


def keep_advantages(run: Run, rewards: torch.Tensor) -> None:
    """Keep advantages [sequences, response_tokens] of this GPU's rewards [sequences]."""
    scoring.keep_group_advantages(run, rewards, leave_one_out)


def leave_one_out(rewards: torch.Tensor, group: int, tokens: int) -> torch.Tensor:
    """Rewards [sequences] less the mean of their group's others: [sequences, tokens].

    Sources: ``verl/trainer/ppo/core_algos.py`` 0.9.1, ``compute_rloo_outcome_advantage``, lines 588
    to 636; ``trl/trainer/rloo_trainer.py`` 1.16.0, lines 1675 to 1690. Nothing is whitened: verl
    never does, TRL only with ``normalize_advantages``.
    """
    groups = rewards.view(-1, group)
    others = (groups.sum(1, keepdim=True) - groups) / (group - 1)
    return (groups - others).view(-1, 1).expand(-1, tokens)
