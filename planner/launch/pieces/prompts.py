"""Prompts: a JSONL file with a text ``prompt`` in each row, as token ids."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import torch


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


def prompts_of(plan: Mapping[str, Any], path: str, tokenizer: Any) -> list[list[int]]:
    """Token ids of each prompt of at most ``prompt_tokens``; says how many were longer."""
    longest = plan["prompt_tokens"]
    ids = [tokenizer(row["prompt"])["input_ids"] for row in rows_of(path, "prompt")]
    kept = [each for each in ids if 0 < len(each) <= longest]
    left_out = len(ids) - len(kept)
    print(
        f"Data: {len(kept)} prompts of at most {longest} tokens; longer and left out: {left_out}."
    )
    if not kept:
        raise SystemExit(f"data: no prompt of {path} has 1 to {longest} tokens.")
    if plan["batch_shape"] == "full" and any(len(each) != longest for each in kept):
        raise SystemExit(
            f"data: the plan's rows are full, so every prompt needs {longest} tokens; "
            "plan padded rows for this file."
        )
    return kept


def shuffled(prompts: list[Any], seed: int) -> Iterator[Any]:
    """Prompts for ever, each pass in another order."""
    generator = torch.Generator().manual_seed(seed)
    while True:
        for place in torch.randperm(len(prompts), generator=generator).tolist():
            yield prompts[place]


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
