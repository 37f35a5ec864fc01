"""Preference pairs: JSONL rows with texts ``prompt``, ``chosen`` and ``rejected``, as tokens."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from planner.launch.pieces.prompts import rows_of
from planner.launch.pieces.rows import Rows


@dataclass(frozen=True, slots=True)
class Pair:
    """Token ids of a prompt and its two responses, chosen first; its place among the kept pairs."""

    place: int
    prompt: list[int]
    responses: tuple[list[int], list[int]]


def pairs_of(plan: Mapping[str, Any], path: str, tokenizer: Any) -> list[Pair]:
    """Every pair within the planned lengths; says how many were longer."""
    rows = rows_of(path, "prompt", "chosen", "rejected")
    end = [] if tokenizer.eos_token_id is None else [tokenizer.eos_token_id]
    kept: list[Pair] = []
    for row in rows:
        prompt = tokenizer(row["prompt"])["input_ids"]
        chosen, rejected = (
            tokenizer(row[name], add_special_tokens=False)["input_ids"] + end
            for name in ("chosen", "rejected")
        )
        lengths = len(prompt), max(len(chosen), len(rejected))
        if prompt and lengths[0] <= plan["prompt_tokens"] and lengths[1] <= plan["response_tokens"]:
            kept.append(Pair(len(kept), prompt, (chosen, rejected)))
    print(
        f"Data: {len(kept)} pairs of at most {plan['prompt_tokens']} + {plan['response_tokens']} "
        f"tokens; longer and left out: {len(rows) - len(kept)}."
    )
    if not kept:
        raise SystemExit(f"data: no pair of {path} is within the planned lengths.")
    return kept


def rows_for(
    plan: Mapping[str, Any], pairs: list[Pair], pad: int, device: torch.device
) -> Rows:
    """Pairs as rows, chosen, rejected, chosen and so on; stops where full ones are not full."""
    before = max(len(pair.prompt) for pair in pairs)
    after = max(len(response) for pair in pairs for response in pair.responses)
    ids = torch.full((2 * len(pairs), before + after), pad)
    mask = torch.zeros_like(ids)
    texts = [(pair.prompt, response) for pair in pairs for response in pair.responses]
    for place, (prompt, response) in enumerate(texts):
        taken = slice(before - len(prompt), before + len(response))
        ids[place, taken] = torch.tensor(prompt + response)
        mask[place, taken] = 1
    learned = mask[:, -after:].to(device, copy=True)
    if plan["batch_shape"] != "full":
        return Rows(ids.to(device), mask.to(device), learned)
    if not mask.all():
        raise SystemExit("data: the plan's rows are full, and these differ in length; plan padded.")
    return Rows(ids.to(device), None, learned)
