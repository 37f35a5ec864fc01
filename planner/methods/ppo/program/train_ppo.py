"""PPO: a policy learns from rewarded responses of its own, against a critic's values.

transformers generates every response of a step at once; reward.py scores them. The critic is a
model of its own with one value a token, whose last layer begins at random.

    python3 train_ppo.py --data prompts.jsonl          train as planned
    python3 train_ppo.py --data prompts.jsonl --dry    check card and data, load no model
"""

from __future__ import annotations

import argparse
from typing import Any

import torch
import transformers
from torch import Tensor, nn

from planner.launch.pieces.online import (
    CLIP,
    Prompt,
    asked,
    casting,
    clipped,
    emptied,
    old_log_probs,
    policy_and_reference,
    questions_of,
    reference_log_probs,
    rewards_of,
    rolled_out,
    scored,
    updated,
)
from planner.launch.pieces.options import common_options
from planner.launch.pieces.policy import (
    DTYPES,
    loaded,
    optimizer_of,
    tokenizer_of,
    trained_policy,
)
from planner.launch.pieces.preflight import check_card, peak_sentence
from planner.launch.pieces.ranks import in_common, joined, mean, parted, rank
from planner.launch.pieces.rows import Rows

PLAN: dict[str, Any] = {}


def ppo_loss(
    policy: Any,
    rows: Rows,
    old: Tensor,
    advantages: Tensor,
    theirs: Tensor | None,
    given: argparse.Namespace,
) -> Tensor:
    """The loss [] of a micro-batch."""
    return clipped(PLAN, policy, rows, old, advantages, theirs, given.beta, given.entropy_weight)


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
    policy: Any,
    reference: Any,
    critic: Any,
    lossy: tuple[Any, Any],
    optimizers: tuple[torch.optim.Optimizer, torch.optim.Optimizer],
    prompts: list[Prompt],
    tokenizer: Any,
    device: torch.device,
    beta: float,
) -> dict[str, float]:
    """Responses, log-probs, rewards and values; the critic's updates, then the policy's."""
    rows = rolled_out(PLAN, policy, prompts, tokenizer, device)
    (old,) = old_log_probs(PLAN, policy, rows, device)
    theirs = reference_log_probs(PLAN, policy, reference, rows, device)
    rewards = rewards_of(rows, prompts, tokenizer, device)
    with casting(PLAN, device):
        (values,) = scored(PLAN, rows, lambda part: (critic(part),), device)
    emptied(PLAN, device)
    each = torch.zeros_like(values)
    each.scatter_(1, rows.learned.sum(1, keepdim=True) - 1, rewards.unsqueeze(1))
    if theirs is not None and PLAN["kl"] == "reward":
        each -= beta * (old - theirs) * rows.learned
    advantages, returns = advantages_of(values, each, rows.learned)
    del each
    missed = updated(PLAN, lossy[1], optimizers[1], rows, (values, returns))
    loss = updated(PLAN, lossy[0], optimizers[0], rows, (old, advantages, theirs))
    length = float(rows.learned.sum(1).float().mean())
    seen = {"loss": loss, "value loss": missed, "reward": float(rewards.mean())}
    return mean({**seen, "response tokens": length}, device)


def main() -> None:
    """Check, load, train, save."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    common_options(parser, PLAN)
    parser.add_argument("--beta", type=float, default=0.001, help="weight of the KL term")
    parser.add_argument("--critic-model", default=PLAN["critic_model"], help="else the policy's")
    parser.add_argument("--critic-learning-rate", type=float, default=1e-5)
    parser.add_argument("--entropy-weight", type=float, default=0.01, help="of a planned bonus")
    given = parser.parse_args()
    device = joined(PLAN, given.device)
    check_card(PLAN, device, given.anyway)
    tokenizer = tokenizer_of(given.model, given.revision)
    prompts = questions_of(PLAN, given.data, tokenizer, "answer")
    if given.dry:
        return
    torch.manual_seed(given.seed)
    policy, reference = policy_and_reference(PLAN, given, device)
    critic = critic_of(given, device)
    optimizers = (
        optimizer_of(PLAN, policy, given.learning_rate),
        optimizer_of(PLAN, critic, given.critic_learning_rate),
    )

    def lossy(rows: Rows, old: Tensor, advantages: Tensor, theirs: Tensor | None) -> Tensor:
        with casting(PLAN, device):
            return ppo_loss(policy, rows, old, advantages, theirs, given)

    def missed(rows: Rows, old: Tensor, returns: Tensor) -> Tensor:
        with casting(PLAN, device):
            return critic_loss(critic, rows, old, returns)

    common = in_common(policy, lossy), in_common(critic, missed)
    torch.manual_seed(given.seed + rank())
    own = asked(PLAN, prompts, given.seed)
    for number in range(1, given.steps + 1):
        seen = step(
            policy, reference, critic, common, optimizers, next(own), tokenizer, device, given.beta
        )
        if PLAN["empty_cache"] == "every-step" and device.type == "cuda":
            torch.cuda.empty_cache()
        shown = ", ".join(f"{name} {value:.6g}" for name, value in seen.items())
        print(f"Step {number}: {shown}{peak_sentence(PLAN, device)}", flush=True)
    if rank() == 0:
        policy.save_pretrained(given.output)
        tokenizer.save_pretrained(given.output)
    del common  # DDP goes before what it speaks through
    parted()


if __name__ == "__main__":
    main()
