"""What a forward leaves in a decoder's cache: keys and values by token, states of one size."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from planner.dryrun.run.branches.routing import routed
from planner.dryrun.run.spot.language import built, first, sentence_of
from planner.steps import anatomy, models


def cache_of(settings: Any, layers: int, heads: int, hidden: int) -> dict[str, Any]:
    """Keys, values and states that a forward leaves, counted in the cache it returns.

    ``cache`` says in words what could not be counted; empty where all could.
    """
    head_dim = int(first(settings, ("head_dim",)) or max(hidden // heads, 1))
    kv_heads = int(first(settings, ("num_key_value_heads",)) or heads)
    told = {"kv_heads": kv_heads, "head_dim": head_dim}
    try:
        short, long = (_cached(settings, tokens) for tokens in (8, 16))
    except Exception as error:  # a forward with a cache that cannot run here is no reason to stop
        return {**told, "cache": f"its cache cannot be counted ({sentence_of(error)})"}
    if len(short) != len(long):
        return {**told, "cache": "its cache holds other tensors for longer rows"}
    grows = [(b - a) // 8 for (a, _), (b, _) in zip(short, long, strict=True) if b != a]
    fixed = [(a, fp32) for (a, fp32), (b, _) in zip(short, long, strict=True) if b == a]
    stateful = 0 if not fixed else max(layers - len(grows) // 2, 1)
    stands = layers - stateful
    per_token = sum(grows)
    states = sum(size for size, fp32 in fixed if fp32)
    last = sum(size for size, fp32 in fixed if not fp32)
    told |= {"stateful_layers": stateful} if stateful else {}
    if stateful:
        told |= {
            "state_values": -(-states // stateful),
            "convolution_values": -(-last // stateful),
        }
    if not stands:
        return {**told, "cache": "" if not per_token else "its cache grows beside fixed states"}
    if per_token == 2 * kv_heads * head_dim * stands:
        return {**told, "cache": ""}
    if per_token % (2 * stands) == 0 and per_token:
        # Layers of different widths: their mean, as one head.
        return {**told, "kv_heads": 1, "head_dim": per_token // (2 * stands), "cache": ""}
    return {**told, "cache": "its layers cache keys and values of different widths"}


def _cached(settings: Any, tokens: int) -> list[tuple[int, bool]]:
    """Numbers of one row in each tensor of the cache, and whether it is in fp32."""
    model = built(settings).eval()
    ids = torch.zeros((1, tokens), dtype=torch.int64, device="meta")
    body = models.body(model)
    before = settings.use_cache
    settings.use_cache = True
    try:
        with torch.no_grad(), routed(lambda _: None):
            output = body(**anatomy.taken(body, {"input_ids": ids, "use_cache": True}))
    finally:
        settings.use_cache = before
    held = next(
        (getattr(output, name, None) for name in ("past_key_values", "cache_params", "state")),
        None,
    )
    if held is None:
        raise ValueError("it returns no cache")
    return [(each.numel(), each.dtype is torch.float32) for each in _tensors(held, set())]


def _tensors(held: Any, seen: set[int]) -> list[torch.Tensor]:
    if id(held) in seen:
        return []
    seen.add(id(held))
    if isinstance(held, torch.Tensor):
        return [held] if held.is_floating_point() else []
    if isinstance(held, Mapping):
        parts = list(held.values())
    elif isinstance(held, (list, tuple)):
        parts = list(held)
    else:
        parts = list(vars(held).values()) if hasattr(held, "__dict__") else []
    return [each for part in parts for each in _tensors(part, seen)]
