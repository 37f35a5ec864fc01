"""Rollouts by the training model itself, with transformers' KV cache."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import torch
from torch import nn

from planner.steps import models
from planner.steps.run import Run, phase
from planner.steps.sharding import reshard
from planner.values.step_phases import ROLLOUT

ENOUGH = 3
"""Rounds that show every peak: the prefill, and two tokens decoded beside the whole cache."""


def rollout(run: Run) -> None:
    """Sample a response for every prompt of the step, where transformers generates."""
    if run.plan.rollout != "hf":
        return
    with phase(run, ROLLOUT, "policy"), torch.no_grad():
        with run.autocast(), run.stage.region(role="policy"):
            run.policy(lambda model: _generate(run, model))
        reshard(run.policy)


def _generate(run: Run, model: nn.Module) -> torch.Tensor:
    """Token ids [sequences, prompt + response]: one prefill, then a token at a time.

    Logits, scores and probabilities keep their names until the next token's replace them, as
    in transformers' ``generate``.
    """
    from transformers import DynamicCache

    plan, stage = run.plan, run.stage
    sequences = int(run.q.sequences_per_gpu_step)
    ids = torch.randint(run.vocab, (sequences, plan.prompt_tokens), device=stage.device)
    mask = None
    if plan.batch_shape != "full":
        mask = torch.ones_like(ids)
        mask[0, 0] = 0
    # generate() numbers each row's tokens, so rotary tables are as many as rows.
    places = (torch.ones_like(ids) if mask is None else mask).cumsum(-1) - 1
    inner = models.causal(model)
    training = inner.training
    inner.eval()
    cache: Any = DynamicCache(config=inner.config)
    fed = ids
    done = 0
    with ExitStack() as stack:
        if mask is not None:
            stack.enter_context(stage.padded())
        for index in stage.decoded(plan.response_tokens, ENOUGH):
            if index and done == 1:
                stack.enter_context(stage.decoding(inner))
                places = places[:, -1:] + (index - done)
            elif index > done:
                places = places + (index - done)
            if index:
                places = places + 1
            ids, mask = _skip(cache, ids, mask, index - done)
            done = index + 1
            with stage.token(index):
                logits = inner(
                    input_ids=fed,
                    attention_mask=mask,
                    position_ids=places,
                    past_key_values=cache,
                    use_cache=True,
                    logits_to_keep=1,
                ).logits[:, -1]
                with stage.region(category="logits"):
                    logits = logits.to(torch.float32, copy=True)
                    scores = logits / run.setup.temperature
                    probabilities = torch.softmax(scores, -1)
                    fed = torch.multinomial(probabilities, 1)
                with stage.region(category="buffers"):
                    ids = torch.cat([ids, fed], 1)
                    if mask is not None:
                        mask = torch.cat([mask, torch.ones_like(fed)], 1)
    inner.train(training)
    return ids


def skipped(layer: Any, tokens: int) -> int:
    """By how much a layer's cache grows as it is told of ``tokens`` more: a window stays one."""
    if not getattr(layer, "is_sliding", False):
        return tokens
    layer.cumulative_length += tokens
    room: int = layer.sliding_window - 1 - layer.keys.shape[-2]
    return min(tokens, max(room, 0))


def _skip(
    cache: Any, ids: torch.Tensor, mask: torch.Tensor | None, tokens: int
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Pretend that ``tokens`` more were decoded: what is held grows, nothing is computed.

    A run that trains decodes every token and skips none. What is skipped is zeros
    that nobody masks, so that what follows in a run with values stays finite.
    """
    if not tokens:
        return ids, mask
    for layer in cache.layers:
        if not hasattr(layer, "keys"):  # a state of linear attention is as large after any token
            continue
        room = skipped(layer, tokens)
        shape = (*layer.keys.shape[:-2], room, layer.keys.shape[-1])
        layer.keys = torch.cat([layer.keys, layer.keys.new_zeros(shape)], -2)
        shape = (*shape[:-1], layer.values.shape[-1])
        layer.values = torch.cat([layer.values, layer.values.new_zeros(shape)], -2)
    more = ids.new_zeros(ids.shape[0], tokens)
    return torch.cat([ids, more], 1), None if mask is None else torch.cat(
        [mask, torch.ones_like(more)], 1
    )
