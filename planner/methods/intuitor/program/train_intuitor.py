"""Intuitor: GRPO whose reward is the policy's own certainty of its responses.

transformers generates every response of a step at once. Self-certainty is how far each next-token
distribution is from uniform, a mean over a response's tokens; it has no gradient.

    python3 train_intuitor.py --data prompts.jsonl          train as planned
    python3 train_intuitor.py --data prompts.jsonl --dry    check card and data, load no model
"""

from __future__ import annotations

import argparse
from typing import Any

import torch
from torch import Tensor

from planner.launch.pieces.online import (
    Prompt,
    asked,
    casting,
    clipped,
    group_advantages,
    less_distance,
    old_log_probs,
    policy_and_reference,
    questions_of,
    reference_log_probs,
    rolled_out,
    updated,
)
from planner.launch.pieces.options import common_options
from planner.launch.pieces.policy import optimizer_of, tokenizer_of
from planner.launch.pieces.preflight import check_card, peak_sentence
from planner.launch.pieces.ranks import in_common, joined, mean, parted, rank
from planner.launch.pieces.rows import Rows
from planner.launch.pieces.scores import all_logits, inner

PLAN: dict[str, Any] = {}


def intuitor_loss(
    policy: Any,
    rows: Rows,
    old: Tensor,
    advantages: Tensor,
    theirs: Tensor | None,
    given: argparse.Namespace,
) -> Tensor:
    """The loss [] of a micro-batch."""
    return clipped(PLAN, policy, rows, old, advantages, theirs, given.beta, given.entropy_weight)


def self_certainty(policy: Any, hidden: Tensor) -> Tensor:
    """logsumexp(z) - mean(z) [rows, positions] of all logits; the constant log V is left out."""
    head = inner(policy).get_output_embeddings()
    logits = all_logits(PLAN, policy, head, hidden, PLAN["temperature"])
    return torch.logsumexp(logits, -1) - logits.mean(-1)


def step(
    policy: Any,
    reference: Any,
    lossy: Any,
    optimizer: torch.optim.Optimizer,
    prompts: list[Prompt],
    tokenizer: Any,
    device: torch.device,
    beta: float,
) -> dict[str, float]:
    """Responses, their log-probs and self-certainty, then the updates; means of what was seen."""
    rows = rolled_out(PLAN, policy, prompts, tokenizer, device)
    old, sure = old_log_probs(PLAN, policy, rows, device, self_certainty)
    theirs = reference_log_probs(PLAN, policy, reference, rows, device)
    rewards = (sure * rows.learned).sum(1) / rows.learned.sum(1)
    total = less_distance(PLAN, rewards, old, theirs, rows, beta)
    advantages = group_advantages(total, PLAN["responses_per_prompt"]).expand(old.shape)
    loss = updated(PLAN, lossy, optimizer, rows, (old, advantages.contiguous(), theirs))
    length = float(rows.learned.sum(1).float().mean())
    seen = {"loss": loss, "self-certainty": float(rewards.mean()), "response tokens": length}
    return mean(seen, device)


def main() -> None:
    """Check, load, train, save."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    common_options(parser, PLAN)
    parser.add_argument("--beta", type=float, default=0.001, help="weight of the KL term")
    parser.add_argument("--entropy-weight", type=float, default=0.01, help="of a planned bonus")
    given = parser.parse_args()
    device = joined(PLAN, given.device)
    check_card(PLAN, device, given.anyway)
    tokenizer = tokenizer_of(given.model, given.revision)
    prompts = questions_of(PLAN, given.data, tokenizer)
    if given.dry:
        return
    torch.manual_seed(given.seed)
    policy, reference = policy_and_reference(PLAN, given, device)
    optimizer = optimizer_of(PLAN, policy, given.learning_rate)

    def lossy(rows: Rows, old: Tensor, advantages: Tensor, theirs: Tensor | None) -> Tensor:
        with casting(PLAN, device):
            return intuitor_loss(policy, rows, old, advantages, theirs, given)

    common = in_common(policy, lossy)
    torch.manual_seed(given.seed + rank())
    own = asked(PLAN, prompts, given.seed)
    for number in range(1, given.steps + 1):
        seen = step(
            policy, reference, common, optimizer, next(own), tokenizer, device, given.beta
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
