"""Responses by the model that trains, with transformers' KV cache."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache

from planner.launch.pieces.rows import Rows
from planner.launch.pieces.scores import inner


@torch.no_grad()
def sampled(
    plan: Mapping[str, Any], policy: Any, ids: Tensor, mask: Tensor, pad: int, end: int | None
) -> Rows:
    """A response for each prompt of ``ids`` [rows, longest prompt], all decoded at once.

    One forward of the prompts, then one token at a time, until every row has ended.
    """
    model = inner(policy)
    training = model.training
    model.eval()
    cache: Any = DynamicCache(config=model.config)
    # Padding has the place of the first token: any place that the model has.
    places, fed = (mask.cumsum(-1) - 1).clamp(min=0), ids
    begins = ids.shape[1]
    ended = torch.zeros(len(ids), 1, dtype=torch.bool, device=ids.device)
    for index in range(plan["response_tokens"]):
        if index:
            places = places[:, -1:] + 1
        logits = model(
            input_ids=fed,
            attention_mask=mask,
            position_ids=places,
            past_key_values=cache,
            use_cache=True,
            logits_to_keep=1,
        ).logits[:, -1]
        logits = logits.to(torch.float32, copy=True)
        scores = logits / plan["temperature"]
        probabilities = torch.softmax(scores, -1)
        fed = torch.multinomial(probabilities, 1).masked_fill(ended, pad)
        ids = torch.cat([ids, fed], 1)
        mask = torch.cat([mask, (~ended).to(mask.dtype)], 1)
        if end is not None:
            ended = ended | (fed == end)
            if ended.all():
                break
    model.train(training)
    return Rows(ids, mask, mask[:, begins:])
