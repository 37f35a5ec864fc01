"""Intuitor: GRPO whose reward is the policy's own certainty of its responses.

transformers generates every response of a step at once. Self-certainty is how far each next-token
distribution is from uniform, a mean over a response's tokens; it has no gradient.

    python3 train_intuitor.py --data prompts.jsonl          train as planned
    python3 train_intuitor.py --data prompts.jsonl --dry    check card and data, load no model
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor

from planner.launch.pieces.beginning import begun
from planner.launch.pieces.online import (
    group_advantages,
    old_log_probs,
    online_parser,
    policy_loss,
    reference_log_probs,
    rolled_out,
    rows_updated,
    told,
)
from planner.launch.pieces.prompts import Prompt, prompts_of
from planner.launch.pieces.scores import all_logits, inner
from planner.launch.pieces.training import Run, run_of, trained

PLAN: dict[str, Any] = {}


def self_certainty(policy: Any, hidden: Tensor) -> Tensor:
    """logsumexp(z) - mean(z) [rows, positions] of all logits; the constant log V is left out."""
    logits = all_logits(PLAN, policy, inner(policy).get_output_embeddings(), hidden)
    return torch.logsumexp(logits, -1) - logits.mean(-1)


def step(run: Run, lossy: Any, prompts: list[Prompt]) -> dict[str, float]:
    """Responses, their log-probs and self-certainty, then the updates; means of what was seen."""
    rows = rolled_out(PLAN, run, prompts)
    old, sure = old_log_probs(PLAN, run, rows, self_certainty)
    theirs = reference_log_probs(PLAN, run, rows)
    rewards = (sure * rows.learned).sum(1) / rows.learned.sum(1)
    advantages = group_advantages(PLAN, run, rows, rewards, old, theirs)
    loss = rows_updated(PLAN, lossy, run.optimizer, rows, old, advantages, theirs)
    return told(run, rows, {"loss": loss, "self-certainty": float(rewards.mean())})


def main() -> None:
    """Check, load, train, save."""
    given = online_parser(PLAN, __doc__).parse_args()
    device, tokenizer = begun(PLAN, given)
    prompts = prompts_of(PLAN, given.data, tokenizer)
    if given.dry:
        return
    run = run_of(PLAN, given, device, tokenizer, PLAN["kl"] != "none")
    trained(
        PLAN, run, prompts, partial(step, run), (run.policy, partial(policy_loss, PLAN, run))
    )


if __name__ == "__main__":
    main()
