"""PPO: a policy learns from rewarded responses of its own, against a critic's values.

transformers generates every response of a step at once; reward.py scores them. The critic is a
model of its own with one value a token, whose last layer begins at random.

    python3 train_ppo.py --data prompts.jsonl          train as planned
    python3 train_ppo.py --data prompts.jsonl --dry    check card and data, load no model
"""

from __future__ import annotations

import argparse
from functools import partial
from typing import Any

import torch
import transformers
from torch import Tensor, nn

from planner.launch.pieces.beginning import begun
from planner.launch.pieces.online import (
    CLIP,
    emptied,
    old_log_probs,
    online_parser,
    policy_loss,
    reference_log_probs,
    rewards_of,
    rolled_out,
    rows_updated,
    scored,
    told,
)
from planner.launch.pieces.policy import DTYPES, casting, loaded, optimizer_of, trained_policy
from planner.launch.pieces.prompts import Prompt, prompts_of
from planner.launch.pieces.rows import Rows
from planner.launch.pieces.training import Run, run_of, trained

PLAN: dict[str, Any] = {}


class Critic(nn.Module):
    """A model's body with one value [rows, tokens] for each token."""

    def __init__(self, body: Any, hidden: int) -> None:
        super().__init__()
        self.body, self.score = body, nn.Linear(hidden, 1)

    def forward(self, rows: Rows) -> Tensor:
        """The values of the response tokens [rows, response tokens]."""
        given = {"input_ids": rows.ids, "attention_mask": rows.mask}
        hidden = self.body(use_cache=False, **given).last_hidden_state
        found: Tensor = self.score(hidden).squeeze(-1)
        return found[:, -rows.learned.shape[1] - 1 : -1]


def critic_of(given: argparse.Namespace, device: torch.device) -> Critic:
    """The critic, training, on the device."""
    name = given.critic_model or given.model
    revision = None if given.critic_model else given.revision
    body = loaded(transformers.AutoModel, name, revision, PLAN["critic_stored_dtype"], PLAN)
    critic = Critic(trained_policy(PLAN, body), body.config.hidden_size)
    return critic.to(device, DTYPES[PLAN["critic_stored_dtype"]]).train()


def critic_loss(critic: Critic, rows: Rows, old: Tensor, returns: Tensor) -> Tensor:
    """Clipped squared error [] of a micro-batch's values."""
    values = critic(rows)
    near = old + (values - old).clamp(-CLIP, CLIP)
    errors = torch.maximum((values - returns) ** 2, (near - returns) ** 2)
    return 0.5 * errors[rows.learned.bool()].mean()


def advantages_of(
    values: Tensor, rewards: Tensor, learned: Tensor, weight: float = 0.95
) -> tuple[Tensor, Tensor]:
    """Generalised advantages (arXiv 1506.02438) and returns [rows, tokens], undiscounted.

    ``rewards`` [rows, tokens] come with each token; nothing counts after a response's end.
    """
    found, returns = torch.zeros_like(values), torch.zeros_like(values)
    last = following = torch.zeros_like(values[:, 0])
    for place in reversed(range(values.shape[1])):
        counts = learned[:, place]
        delta = rewards[:, place] + following - values[:, place]
        last = (delta + weight * last) * counts
        following = values[:, place] * counts
        found[:, place], returns[:, place] = last, last + following
    return found, returns


def step(
    run: Run,
    critic: Critic,
    optimizer: torch.optim.Optimizer,
    lossy: Any,
    missed: Any,
    prompts: list[Prompt],
) -> dict[str, float]:
    """Responses, log-probs, rewards and values; the critic's updates, then the policy's."""
    rows = rolled_out(PLAN, run, prompts)
    (old,) = old_log_probs(PLAN, run, rows)
    theirs = reference_log_probs(PLAN, run, rows)
    rewards = rewards_of(run, rows, prompts)
    with casting(PLAN, run.device):
        (values,) = scored(PLAN, rows, lambda part: (critic(part),), run.device)
    emptied(PLAN, run.device)
    each = torch.zeros_like(values)
    each.scatter_(1, rows.learned.sum(1, keepdim=True) - 1, rewards.unsqueeze(1))
    if theirs is not None and PLAN["kl"] == "reward":
        each -= run.given.beta * (old - theirs) * rows.learned
    advantages, returns = advantages_of(values, each, rows.learned)
    del each
    off = rows_updated(PLAN, missed, optimizer, rows, values, returns)
    emptied(PLAN, run.device)
    loss = rows_updated(PLAN, lossy, run.optimizer, rows, old, advantages, theirs)
    seen = {"loss": loss, "value loss": off, "reward": float(rewards.mean())}
    return told(run, rows, seen)


def main() -> None:
    """Check, load, train, save."""
    parser = online_parser(PLAN, __doc__)
    parser.add_argument("--critic-model", default=PLAN["critic_model"], help="else the policy's")
    parser.add_argument("--critic-learning-rate", type=float, default=1e-5)
    given = parser.parse_args()
    device, tokenizer = begun(PLAN, given)
    prompts = prompts_of(PLAN, given.data, tokenizer, "answer")
    if given.dry:
        return
    run = run_of(PLAN, given, device, tokenizer, PLAN["kl"] != "none")
    critic = critic_of(given, device)
    optimizer = optimizer_of(PLAN, critic, given.critic_learning_rate)
    trained(
        PLAN,
        run,
        prompts,
        partial(step, run, critic, optimizer),
        (run.policy, partial(policy_loss, PLAN, run)),
        (critic, partial(critic_loss, critic)),
    )


if __name__ == "__main__":
    main()
