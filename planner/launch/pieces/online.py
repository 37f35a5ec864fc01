"""What methods that learn from their own responses do alike: roll out, score, clip, update."""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor

from planner.launch.pieces.options import parser_of
from planner.launch.pieces.policy import answering, casting
from planner.launch.pieces.prompts import Prompt, padded
from planner.launch.pieces.ranks import mean
from planner.launch.pieces.rollout import sampled
from planner.launch.pieces.rows import Rows
from planner.launch.pieces.scores import hidden_states, token_log_probs
from planner.launch.pieces.training import Run, updated

CLIP = 0.2
"""How far from one the policy's ratio counts, and from the old ones new values."""


def online_parser(plan: Mapping[str, Any], doc: str) -> argparse.ArgumentParser:
    """The options of every program, and those of the loss."""
    parser = parser_of(plan, doc)
    parser.add_argument("--beta", type=float, default=0.001, help="weight of the KL term")
    parser.add_argument("--entropy-weight", type=float, default=0.01, help="of a planned bonus")
    return parser


def rolled_out(plan: Mapping[str, Any], run: Run, prompts: list[Prompt]) -> Rows:
    """A response for each prompt of a step."""
    pad, end = run.tokenizer.pad_token_id, run.tokenizer.eos_token_id
    ids, mask = padded(plan, [one.ids for one in prompts], pad, run.device)
    assert mask is not None
    with casting(plan, run.device):
        return sampled(plan, run.policy, ids, mask, pad, end)


def part_of(rows: Rows, places: slice) -> Rows:
    """Some of the rows."""
    mask = None if rows.mask is None else rows.mask[places]
    return Rows(rows.ids[places], mask, rows.learned[places])


Score = Callable[[Rows], tuple[Tensor, ...]]
"""Numbers [rows, response tokens] of some rows, one tensor or several."""


@torch.no_grad()
def scored(
    plan: Mapping[str, Any], rows: Rows, score: Score, device: torch.device, several: int = 1
) -> list[Tensor]:
    """fp32 numbers [rows, response tokens] of all rows of a step, some rows at a time."""
    kept = [torch.zeros(rows.learned.shape, device=device) for _ in range(several)]
    size = plan["logprob_micro_batch_size"]
    for first in range(0, len(rows.ids), size):
        places = slice(first, first + size)
        found = score(part_of(rows, places))
        for whole, some in zip(kept, found, strict=True):
            whole[places] = some.float()
        del found, some
    return kept


def scored_by(
    plan: Mapping[str, Any], run: Run, answers: AbstractContextManager[Any], rows: Rows,
    *also: Callable[[Any, Tensor], Tensor],
) -> list[Tensor]:  # fmt: skip
    """Log-probs of a step's responses by the model that ``answers``.

    Besides, what ``also`` gives [rows, positions] of it and its hidden states.
    """
    run.policy.eval()  # no dropout where nothing is learned
    with answers as model, nullcontext() if model is run.reference else casting(plan, run.device):

        def score(part: Rows) -> tuple[Tensor, ...]:
            hidden = hidden_states(plan, model, part)
            found = token_log_probs(plan, model, part, hidden)[0]
            end = part.learned.shape[1] + 1
            return found, *(more(model, hidden)[:, -end:-1] for more in also)

        found = scored(plan, rows, score, run.device, 1 + len(also))
    run.policy.train()
    emptied(plan, run.device)
    return found


def old_log_probs(
    plan: Mapping[str, Any], run: Run, rows: Rows, *also: Callable[[Any, Tensor], Tensor]
) -> list[Tensor]:
    """The policy's log-probs before a step's updates, and what else its hidden states give."""
    return scored_by(plan, run, nullcontext(run.policy), rows, *also)


def reference_log_probs(plan: Mapping[str, Any], run: Run, rows: Rows) -> Tensor | None:
    """The reference's log-probs of a step's responses; None without a KL term."""
    if plan["kl"] == "none":
        return None
    answers = answering(plan, run.policy, run.reference, run.device)
    return scored_by(plan, run, answers, rows)[0]


def rewards_of(run: Run, rows: Rows, prompts: list[Prompt]) -> Tensor:
    """Rewards [rows], by the function ``score`` of reward.py."""
    score = importlib.import_module("reward").score
    texts = [
        run.tokenizer.decode(ids[learned.bool()], skip_special_tokens=True)
        for ids, learned in zip(rows.targets, rows.learned, strict=True)
    ]
    found = [score(text, one.answer) for text, one in zip(texts, prompts, strict=True)]
    return torch.tensor(found, dtype=torch.float32, device=run.device)


def group_advantages(
    plan: Mapping[str, Any], run: Run, rows: Rows, rewards: Tensor, old: Tensor,
    theirs: Tensor | None,
) -> Tensor:  # fmt: skip
    """Rewards [rows] normalised within the responses of a prompt, for each token [rows, tokens].

    They are less by what leaving the reference costs, where that is in the reward.
    """
    if theirs is not None and plan["kl"] == "reward":
        rewards = rewards - run.given.beta * ((old - theirs) * rows.learned).sum(1)
    groups = rewards.view(-1, plan["responses_per_prompt"])
    centred = groups - groups.mean(1, keepdim=True)
    found = (centred / (groups.std(1, keepdim=True) + 1e-4)).view(-1, 1)
    return found.expand(old.shape).contiguous()


def policy_loss(
    plan: Mapping[str, Any], run: Run, rows: Rows, old: Tensor, advantages: Tensor,
    theirs: Tensor | None,
) -> Tensor:  # fmt: skip
    """Clipped-ratio loss [], a mean over response tokens, with a k3 KL term and an entropy bonus.

    PPO (arXiv 1707.06347) for the ratio, GRPO (arXiv 2402.03300) for the KL term.
    """
    hidden = hidden_states(plan, run.policy, rows)
    found, entropy = token_log_probs(plan, run.policy, rows, hidden, plan["entropy"])
    ratio = torch.exp(found - old)
    loss = -torch.minimum(ratio * advantages, ratio.clamp(1 - CLIP, 1 + CLIP) * advantages)
    if theirs is not None and plan["kl"] == "loss":
        distance = theirs - found
        loss = loss + run.given.beta * (torch.exp(distance) - distance - 1)
    learned = rows.learned.bool()
    found = loss[learned].mean()
    weight = run.given.entropy_weight
    return found if entropy is None else found - weight * entropy[learned].mean()


def rows_updated(
    plan: Mapping[str, Any], lossy: Any, optimizer: torch.optim.Optimizer, rows: Rows,
    *numbers: Tensor | None,
) -> float:  # fmt: skip
    """The updates of a step; the last one's mean loss.

    ``lossy`` is a loss of rows and, of ``numbers`` [rows, …], those of the same rows.
    """

    def some(places: slice) -> tuple[Any, ...]:
        return part_of(rows, places), *(one if one is None else one[places] for one in numbers)

    return updated(plan, lossy, optimizer, len(rows.ids), some)


def told(run: Run, rows: Rows, numbers: dict[str, float]) -> dict[str, float]:
    """Numbers of a step and its responses' mean length, as means over all processes."""
    length = float(rows.learned.sum(1).float().mean())
    return mean({**numbers, "response tokens": length}, run.device)


def emptied(plan: Mapping[str, Any], device: torch.device) -> None:
    """Return the allocator's cached memory between phases, where that is planned."""
    if plan["empty_cache"] == "between-phases" and device.type == "cuda":
        torch.cuda.empty_cache()
