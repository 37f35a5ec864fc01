"""Texts to learn: JSONL rows with a ``text``, or with a ``prompt`` and its ``response``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from planner.launch.pieces.prompts import rows_of

IGNORED = -100
"""The label of a token that is not learned."""


def texts_of(plan: Mapping[str, Any], path: str, tokenizer: Any) -> list[tuple[list[int], int]]:
    """Token ids of each row within the planned length, and where what is learned begins."""
    longest = plan["prompt_tokens"] + plan["response_tokens"]
    end = [] if tokenizer.eos_token_id is None else [tokenizer.eos_token_id]
    rows, kept = rows_of(path), []
    for number, row in enumerate(rows, 1):
        whole = "text" in row
        texts = ["", row["text"]] if whole else [row.get(name) for name in ("prompt", "response")]
        if not all(isinstance(text, str) for text in texts):
            raise SystemExit(
                f"data: line {number} of {path} has no text, nor a prompt and a response."
            )
        before = [] if whole else tokenizer(texts[0])["input_ids"]
        after = tokenizer(texts[1], add_special_tokens=whole)["input_ids"]
        ids = [*before, *after, *end]
        if len(ids) <= longest:
            kept.append((ids, len(before)))
    print(
        f"Data: {len(kept)} rows of at most {longest} tokens; longer and left out: "
        f"{len(rows) - len(kept)}."
    )
    if not kept:
        raise SystemExit(f"data: no row of {path} has 1 to {longest} tokens.")
    return kept


def text_rows(
    plan: Mapping[str, Any], texts: list[tuple[list[int], int]], pad: int, device: torch.device
) -> dict[str, Tensor]:
    """Texts as one batch, padded on the right: what a model is given, labels included."""
    longest = max(len(ids) for ids, _ in texts)
    ids = torch.full((len(texts), longest), pad)
    mask, labels = torch.zeros_like(ids), torch.full_like(ids, IGNORED)
    for place, (row, begins) in enumerate(texts):
        ids[place, : len(row)] = torch.tensor(row)
        mask[place, : len(row)] = 1
        labels[place, begins : len(row)] = ids[place, begins : len(row)]
    if plan["batch_shape"] == "full":
        if not mask.all():
            raise SystemExit("data: the plan's rows are full, and these differ; plan padded rows.")
        return {"input_ids": ids.to(device), "labels": labels.to(device)}
    given = {"input_ids": ids, "attention_mask": mask, "labels": labels}
    return {name: each.to(device) for name, each in given.items()}
