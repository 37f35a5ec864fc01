"""The cache of keys and values that transformers' ``generate`` fills, and what reads it."""

from __future__ import annotations

from collections.abc import Iterator

from planner.footprint import Term
from planner.formulas import generation
from planner.methods.scene import Scene
from planner.numeric import Num


def cache(scene: Scene, tokens: Num, sliding_layers: int, layers: int | None = None) -> Term:
    """The cache of ``tokens`` a sequence, of all layers unless told how many."""
    arch = scene.policy.arch
    layers = arch.cache_layers if layers is None else layers
    return generation.KV_CACHE(
        "policy",
        tensors=2 * layers,
        kv_heads=arch.kv_heads,
        head_dim=arch.head_dim,
        value_bytes=_cache_bytes(scene),
        sequences=scene.q.sequences_per_gpu_step,
        layers=layers,
        sliding_layers=sliding_layers,
        tokens=tokens,
        window=arch.sliding_window,
    )


def growth(scene: Scene, tokens: Num) -> Term:
    """One layer's keys, copied into a longer tensor."""
    arch = scene.policy.arch
    return generation.KV_GROWTH(
        "policy",
        kv_heads=arch.kv_heads,
        head_dim=arch.head_dim,
        value_bytes=_cache_bytes(scene),
        sequences=scene.q.sequences_per_gpu_step,
        tokens=tokens,
    )


def _cache_bytes(scene: Scene) -> int:
    """Under autocast rotated keys are as wide as the fp32 rotary tables, and widen the cache."""
    if scene.precision == "autocast-bf16" and scene.policy.arch.rotary:
        return 4
    return scene.q.compute_bytes


def attends(scene: Scene, tokens: Num) -> Iterator[Term]:
    """What one layer's attention of the new token needs beside the cache."""
    plan, arch = scene.plan, scene.policy.arch
    eager = plan.attention == "eager"
    sizes = {"sequences": scene.q.sequences_per_gpu_step, "tokens": tokens}
    if eager:
        yield generation.DECODE_SCORES(
            "policy", tensors=2, heads=arch.heads, value_bytes=scene.q.compute_bytes, **sizes
        )
    cache_bytes = _cache_bytes(scene)
    repeats = eager and arch.heads != arch.kv_heads
    if repeats:
        yield generation.REPEATED_CACHE(
            "policy",
            tensors=2,
            heads=arch.heads,
            head_dim=arch.head_dim,
            value_bytes=cache_bytes,
            **sizes,
        )
    grouped = arch.heads != arch.kv_heads
    if plan.attention == "sdpa" and plan.batch_shape == "full" and plan.dtype == "fp32" and grouped:
        yield generation.MATH_CACHE(
            "policy",
            tensors=3,
            heads=arch.heads,
            head_dim=arch.head_dim,
            value_bytes=scene.q.compute_bytes,
            **sizes,
        )
    if plan.attention == "flash" and plan.batch_shape != "full":
        yield generation.UNPADDED_CACHE(
            "policy",
            tensors=3,
            kv_heads=arch.kv_heads,
            head_dim=arch.head_dim,
            value_bytes=scene.q.compute_bytes,
            **sizes,
        )
    if cache_bytes > scene.q.compute_bytes:
        copies = 1 if eager else 2
        yield generation.CAST_CACHE(
            "policy",
            tensors=copies,
            copies=copies,
            heads=arch.heads if repeats else arch.kv_heads,
            head_dim=arch.head_dim,
            **sizes,
        )


def expert_copies(scene: Scene) -> tuple[Term, ...]:
    """A sparse layer's weights as decoding copies them for each token."""
    arch = scene.policy.arch
    if not arch.sparse_layers:
        return ()
    return (
        generation.DECODE_EXPERTS(
            "policy",
            layout=((1, 2 / 3), (1, 1 / 3)),
            sequences=scene.q.sequences_per_gpu_step,
            experts_per_token=arch.experts_per_token,
            expert_intermediate=arch.expert_intermediate,
            hidden=arch.hidden,
            value_bytes=4 if scene.precision == "autocast-bf16" else scene.q.compute_bytes,
        ),
    )
