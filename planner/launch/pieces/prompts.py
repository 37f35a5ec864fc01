"""Prompts: a JSONL file with a text ``prompt`` in each row, as token ids."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

import torch

from planner.launch.pieces.ranks import share


@dataclass(frozen=True, slots=True)
class Prompt:
    """Token ids of a prompt, and what its row says of the answer."""

    ids: list[int]
    answer: str


def rows_of(path: str, *columns: str) -> list[dict[str, str]]:
    """The rows of a JSONL file; stops with a sentence where one lacks a text column."""
    found = []
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            row = json.loads(line)
            for column in columns:
                if not isinstance(row, dict) or not isinstance(row.get(column), str):
                    raise SystemExit(f"data: line {number} of {path} has no text {column!r}.")
            found.append(row)
    return found


def prompts_of(plan: Mapping[str, Any], path: str, tokenizer: Any, *columns: str) -> list[Prompt]:
    """Every prompt of at most ``prompt_tokens``; says how many were longer.

    ``columns`` are texts that each row has to have besides.
    """
    longest, rows = plan["prompt_tokens"], rows_of(path, "prompt", *columns)
    found = [Prompt(tokenizer(row["prompt"])["input_ids"], row.get("answer", "")) for row in rows]
    kept = [each for each in found if 0 < len(each.ids) <= longest]
    left_out = len(rows) - len(kept)
    print(
        f"Data: {len(kept)} prompts of at most {longest} tokens; longer and left out: {left_out}."
    )
    if not kept:
        raise SystemExit(f"data: no prompt of {path} has 1 to {longest} tokens.")
    if plan["batch_shape"] == "full" and any(len(each.ids) != longest for each in kept):
        raise SystemExit(
            f"data: the plan's rows are full, so every prompt needs {longest} tokens; "
            "plan padded rows for this file."
        )
    return kept


def shuffled(items: list[Any], seed: int) -> Iterator[Any]:
    """Items for ever, each pass in another order."""
    generator = torch.Generator().manual_seed(seed)
    while True:
        for place in torch.randperm(len(items), generator=generator).tolist():
            yield items[place]


def asked(plan: Mapping[str, Any], items: list[Any], seed: int) -> Iterator[list[Any]]:
    """This process's items of each step, update by update, each as often as it is answered."""
    order, size = shuffled(items, seed), plan["prompts_per_update"]
    while True:
        step = list(islice(order, plan["prompts_per_step"]))
        mine = [
            one for first in range(0, len(step), size) for one in share(step[first : first + size])
        ]
        yield [one for one in mine for _ in range(plan["responses_per_prompt"])]


def padded(
    plan: Mapping[str, Any], rows: list[list[int]], pad: int, device: torch.device
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Ids and mask [rows, longest], padded on the left; without a mask where rows are full."""
    longest = max(map(len, rows))
    ids = torch.full((len(rows), longest), pad)
    mask = torch.zeros_like(ids)
    for place, row in enumerate(rows):
        ids[place, longest - len(row) :] = torch.tensor(row)
        mask[place, longest - len(row) :] = 1
    return ids.to(device), None if plan["batch_shape"] == "full" else mask.to(device)
