"""GRPO: a policy learns from responses of its own, rewarded beside others to the same prompt.

transformers generates every response of a step at once; reward.py scores them.

    python3 train_grpo.py --data prompts.jsonl          train as planned
    python3 train_grpo.py --data prompts.jsonl --dry    check card and data, load no model
"""

from __future__ import annotations

from functools import partial
from typing import Any

from planner.launch.pieces.beginning import begun
from planner.launch.pieces.online import (
    group_advantages,
    old_log_probs,
    online_parser,
    policy_loss,
    reference_log_probs,
    rewards_of,
    rolled_out,
    rows_updated,
    told,
)
from planner.launch.pieces.prompts import Prompt, prompts_of
from planner.launch.pieces.training import Run, run_of, trained

PLAN: dict[str, Any] = {}


def step(run: Run, lossy: Any, prompts: list[Prompt]) -> dict[str, float]:
    """Responses, their log-probs and rewards, then the updates; means of what was seen."""
    rows = rolled_out(PLAN, run, prompts)
    (old,) = old_log_probs(PLAN, run, rows)
    theirs = reference_log_probs(PLAN, run, rows)
    rewards = rewards_of(run, rows, prompts)
    advantages = group_advantages(PLAN, run, rows, rewards, old, theirs)
    loss = rows_updated(PLAN, lossy, run.optimizer, rows, old, advantages, theirs)
    return told(run, rows, {"loss": loss, "reward": float(rewards.mean())})


def main() -> None:
    """Check, load, train, save."""
    given = online_parser(PLAN, __doc__).parse_args()
    device, tokenizer = begun(PLAN, given)
    prompts = prompts_of(PLAN, given.data, tokenizer, "answer")
    if given.dry:
        return
    run = run_of(PLAN, given, device, tokenizer, PLAN["kl"] != "none")
    trained(
        PLAN, run, prompts, partial(step, run), (run.policy, partial(policy_loss, PLAN, run))
    )


if __name__ == "__main__":
    main()
