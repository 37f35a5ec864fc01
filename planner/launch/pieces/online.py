"""What methods that learn from their own responses do alike: roll out, score, clip, update."""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from itertools import islice
from typing import Any

import torch
import torch.nn.functional as F
import transformers
from torch import Tensor

from planner.launch.pieces.policy import (
    DTYPES,
    frozen,
    loaded,
    on_device,
    trained_policy,
    without_adapters,
)
from planner.launch.pieces.prompts import padded, rows_of, shuffled
from planner.launch.pieces.ranks import apart, count, share
from planner.launch.pieces.rollout import sampled
from planner.launch.pieces.rows import Rows
from planner.launch.pieces.scores import all_logits, hidden_states, inner

CLIP = 0.2
"""How far from one the policy's ratio counts, and from the old ones new values."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """Token ids of a prompt, and what its row says of the answer."""

    ids: list[int]
    answer: str


def questions_of(
    plan: Mapping[str, Any], path: str, tokenizer: Any, *columns: str
) -> list[Prompt]:
    """Every prompt of at most ``prompt_tokens``; says how many were longer."""
    rows = rows_of(path, "prompt", *columns)
    found = [Prompt(tokenizer(row["prompt"])["input_ids"], row.get("answer", "")) for row in rows]
    kept = [one for one in found if 0 < len(one.ids) <= plan["prompt_tokens"]]
    print(
        f"Data: {len(kept)} prompts of at most {plan['prompt_tokens']} tokens; longer and left "
        f"out: {len(rows) - len(kept)}."
    )
    if not kept:
        raise SystemExit(f"data: no prompt of {path} has 1 to {plan['prompt_tokens']} tokens.")
    return kept


def asked(plan: Mapping[str, Any], prompts: list[Prompt], seed: int) -> Iterator[list[Prompt]]:
    """This process's prompts of each step, update by update, each as often as it is answered."""
    order, size = shuffled(prompts, seed), plan["prompts_per_update"]
    while True:
        step = list(islice(order, plan["prompts_per_step"]))
        mine = [
            one for first in range(0, len(step), size) for one in share(step[first : first + size])
        ]
        yield [one for one in mine for _ in range(plan["responses_per_prompt"])]


def casting(plan: Mapping[str, Any], device: torch.device) -> AbstractContextManager[Any]:
    """Half-precision compute on fp32 weights, where it is planned."""
    if not plan["autocast"]:
        return nullcontext()
    return torch.autocast(device.type, DTYPES[plan["dtype"]], enabled=True)


def policy_and_reference(
    plan: Mapping[str, Any], given: argparse.Namespace, device: torch.device
) -> tuple[Any, Any]:
    """The model that trains, and the frozen one beside it where the plan has one."""
    causal = transformers.AutoModelForCausalLM
    model = loaded(causal, given.model, given.revision, plan["stored_dtype"], plan).to(device)
    policy, reference = trained_policy(plan, model), None
    if plan["kl"] != "none" and plan["reference"] in ("copy", "offloaded"):
        reference = loaded(causal, given.model, given.revision, plan["dtype"], plan)
        frozen([reference])
        reference.to("cpu" if plan["reference"] == "offloaded" else device)
    return policy, reference


@contextmanager
def reference_of(
    plan: Mapping[str, Any], policy: Any, reference: Any, device: torch.device
) -> Iterator[Any]:
    """The model that answers as the reference inside, on the device."""
    if reference is None:
        with without_adapters(policy):
            yield policy
        return
    with on_device(reference, device, plan["reference"] == "offloaded"):
        yield reference


def rolled_out(
    plan: Mapping[str, Any], policy: Any, prompts: list[Prompt], tokenizer: Any,
    device: torch.device,
) -> Rows:  # fmt: skip
    """A response for each prompt of a step."""
    ids, mask = padded(plan, [one.ids for one in prompts], tokenizer.pad_token_id, device)
    assert mask is not None
    with casting(plan, device):
        return sampled(plan, policy, ids, mask, tokenizer.pad_token_id, tokenizer.eos_token_id)


def part_of(rows: Rows, places: slice) -> Rows:
    """Some of the rows."""
    mask = None if rows.mask is None else rows.mask[places]
    return Rows(rows.ids[places], mask, rows.learned[places])


def taken(plan: Mapping[str, Any], model: Any, rows: Rows) -> tuple[Tensor, Tensor | None]:
    """Log-probs [rows, tokens] of the responses, and their entropies where those are planned."""
    hidden = hidden_states(model, rows, plan["logits"] == "full")
    return of_hidden(plan, model, rows, hidden, plan["entropy"])


def of_hidden(
    plan: Mapping[str, Any], model: Any, rows: Rows, hidden: Tensor, entropy: bool
) -> tuple[Tensor, Tensor | None]:
    """The same of last hidden states [rows, positions, hidden]."""
    head, length = inner(model).get_output_embeddings(), rows.learned.shape[1]
    # The last position predicts nothing; its target is any token, and its column is left out.
    targets = rows.ids.roll(-1, dims=1)[:, -hidden.shape[1] :]
    logs = F.log_softmax(all_logits(plan, model, head, hidden, plan["temperature"]), -1)
    found = logs.gather(-1, targets.unsqueeze(-1)).squeeze(-1)
    spread = -(logs.exp() * logs).sum(-1) if entropy else None
    return found[:, -length - 1 : -1], None if spread is None else spread[:, -length - 1 : -1]


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


def old_log_probs(
    plan: Mapping[str, Any], policy: Any, rows: Rows, device: torch.device,
    *also: Callable[[Any, Tensor], Tensor],
) -> list[Tensor]:  # fmt: skip
    """The policy's log-probs before a step's updates, and what else its hidden states give."""

    def score(part: Rows) -> tuple[Tensor, ...]:
        hidden = hidden_states(policy, part, plan["logits"] == "full")
        found = of_hidden(plan, policy, part, hidden, False)[0]
        end = part.learned.shape[1] + 1
        return found, *(more(policy, hidden)[:, -end:-1] for more in also)

    policy.eval()  # no dropout where nothing is learned
    with casting(plan, device):
        found = scored(plan, rows, score, device, 1 + len(also))
    policy.train()
    emptied(plan, device)
    return found


def reference_log_probs(
    plan: Mapping[str, Any], policy: Any, reference: Any, rows: Rows, device: torch.device
) -> Tensor | None:
    """The reference's log-probs of a step's responses; None without a KL term."""
    if plan["kl"] == "none":
        return None
    policy.eval()
    half = casting(plan, device) if reference is None else nullcontext()
    with half, reference_of(plan, policy, reference, device) as model:

        def score(part: Rows) -> tuple[Tensor, ...]:
            hidden = hidden_states(model, part, plan["logits"] == "full")
            return (of_hidden(plan, model, part, hidden, False)[0],)

        (found,) = scored(plan, rows, score, device)
    policy.train()
    emptied(plan, device)
    return found


def rewards_of(rows: Rows, prompts: list[Prompt], tokenizer: Any, device: torch.device) -> Tensor:
    """Rewards [rows], by the function ``score`` of reward.py."""
    score = importlib.import_module("reward").score
    texts = [
        tokenizer.decode(ids[learned.bool()], skip_special_tokens=True)
        for ids, learned in zip(rows.targets, rows.learned, strict=True)
    ]
    found = [score(text, one.answer) for text, one in zip(texts, prompts, strict=True)]
    return torch.tensor(found, dtype=torch.float32, device=device)


def group_advantages(rewards: Tensor, group: int) -> Tensor:
    """Rewards [rows] normalised within the responses of a prompt: [rows, 1]."""
    groups = rewards.view(-1, group)
    centred = groups - groups.mean(1, keepdim=True)
    return (centred / (groups.std(1, keepdim=True) + 1e-4)).view(-1, 1)


def less_distance(
    plan: Mapping[str, Any], rewards: Tensor, old: Tensor, theirs: Tensor | None, rows: Rows,
    beta: float,
) -> Tensor:  # fmt: skip
    """Rewards [rows], less what leaving the reference costs, where that is in the reward."""
    if plan["kl"] != "reward" or theirs is None:
        return rewards
    return rewards - beta * ((old - theirs) * rows.learned).sum(1)


def clipped(
    plan: Mapping[str, Any], policy: Any, rows: Rows, old: Tensor, advantages: Tensor,
    theirs: Tensor | None, beta: float, weight: float,
) -> Tensor:  # fmt: skip
    """Clipped-ratio loss [], a mean over response tokens, with a k3 KL term and an entropy bonus.

    PPO (arXiv 1707.06347) for the ratio, GRPO (arXiv 2402.03300) for the KL term.
    """
    found, entropy = taken(plan, policy, rows)
    ratio = torch.exp(found - old)
    loss = -torch.minimum(ratio * advantages, ratio.clamp(1 - CLIP, 1 + CLIP) * advantages)
    if theirs is not None and plan["kl"] == "loss":
        distance = theirs - found
        loss = loss + beta * (torch.exp(distance) - distance - 1)
    learned = rows.learned.bool()
    mean = loss[learned].mean()
    return mean if entropy is None else mean - weight * entropy[learned].mean()


def updated(
    plan: Mapping[str, Any], lossy: Any, optimizer: torch.optim.Optimizer, rows: Rows,
    numbers: tuple[Tensor | None, ...],
) -> float:  # fmt: skip
    """Micro-batches and optimizer of each update of a step; the last one's mean loss.

    ``lossy`` is a loss of rows and, of ``numbers`` [rows, …], those of the same rows.
    """
    size = plan["micro_batch_size"]
    together = plan["prompts_per_update"] * plan["responses_per_prompt"] // count()
    seen = 0.0
    for start in range(0, len(rows.ids), together):
        seen = 0.0
        for first in range(start, start + together, size):
            places = slice(first, first + size)
            given = (None if one is None else one[places] for one in numbers)
            with apart(lossy, first + size >= start + together):
                loss = lossy(part_of(rows, places), *given)
                (loss * (size / together)).backward()
            seen += float(loss.detach()) * size / together
            del loss
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    emptied(plan, torch.device(rows.ids.device))
    return seen


def emptied(plan: Mapping[str, Any], device: torch.device) -> None:
    """Return the allocator's cached memory between phases, where that is planned."""
    if plan["empty_cache"] == "between-phases" and device.type == "cuda":
        torch.cuda.empty_cache()
