"""The reference beside the policy: its forwards, its cache, and the KL term they end in."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from planner.formulas import generation
from planner.formulas import soft_generation as soft
from planner.formulas.activations.layers import layer_forward_transient
from planner.formulas.activations.model import model_saved
from planner.methods.grade.soft_tokens import FP32, Soft
from planner.numeric import Num
from planner.phases import activations, positions
from planner.phases.kv_cache import Cache, sliding
from planner.phases.role import Role
from planner.phases.scene import Scene
from planner.term import Term


def reference_of(scene: Scene) -> Role:
    """The model that the reference's logits come from; adapters that are off need nothing."""
    return scene.reference or scene.policy.as_reference()


def forwards(tokens: Soft) -> Iterator[tuple[str, tuple[Term, ...]]]:
    """The moments of the reference's run that can be its highest, by name."""
    scene = tokens.scene
    prompt = scene.plan.prompt_tokens
    longest = prompt + tokens.tokens - 1
    if not tokens.own.grade_reference_cache:
        yield "reference's forward", _whole_row(scene, longest)
        return
    cache, windows = _cache(scene), sliding(reference_of(scene).arch)
    prefill = (*_whole_row(scene, prompt, cached=True), *cache.filled(prompt, windows))
    yield "reference reads the prompt", prefill
    last = cache.held(longest, windows)
    yield "reference's cache extended", (last, cache.growth(longest))
    yield "reference's last token", (last, *_attends(scene, longest))


def kept_logits(tokens: Soft, steps: Num) -> Term:
    """The reference's logits of ``steps`` steps, which batch KL keeps together."""
    label = "reference logits kept for the KL term"
    return tokens.rows(soft.VOCABULARY_ROWS, tokens.width, steps, label=label)


def batch_forward(tokens: Soft) -> tuple[Term, ...]:
    """One KL over all steps: both stacks of logits, and what the divergence makes of them."""
    stacked = tokens.rows(soft.VOCABULARY_ROWS, FP32, tokens.tokens, label="policy logits, stacked")
    return (stacked, *divergence(tokens, tokens.tokens))


def divergence(tokens: Soft, steps: Num) -> tuple[Term, ...]:
    """The reference's logits of ``steps`` steps, and what their KL makes at its highest."""
    return _over(
        tokens,
        steps,
        {
            "reference logits of the KL": tokens.width,
            "log-probabilities of the reference": FP32,
            "log-probabilities, probabilities, differences": 3 * FP32,
            "products of the divergence": FP32,
        },
    )


def batch_kept(tokens: Soft) -> tuple[Term, ...]:
    """What the batch KL leaves for the backward; the logits themselves are gone by then."""
    return (tokens.rows(soft.KL_KEPT, 3 * FP32, tokens.tokens, tensors=3),)


def batch_backward(tokens: Soft) -> tuple[Term, ...]:
    """The batch KL's gradients of all steps in passing."""
    return _over(tokens, tokens.tokens, {"gradients inside the divergence": 2 * FP32})


def _over(tokens: Soft, steps: Num, parts: dict[str, int]) -> tuple[Term, ...]:
    return tuple(
        tokens.rows(soft.VOCABULARY_ROWS, width, steps, label=name)
        for name, width in parts.items()
    )


def held(tokens: Soft, back: int = 0) -> Iterator[Term]:
    """The cache, filled but for the last ``back`` tokens; it lives as long as the rollout."""
    if tokens.own.grade_kl != "none" and tokens.own.grade_reference_cache:
        scene = tokens.scene
        longest = scene.plan.prompt_tokens + tokens.tokens - 1 - back
        yield _cache(scene).held(longest, sliding(reference_of(scene).arch))


def _whole_row(scene: Scene, tokens: Num, *, cached: bool = False) -> tuple[Term, ...]:
    """One layer of a forward without gradient over whole rows, perhaps into a cache."""
    role, rows = reference_of(scene), scene.q.micro_rows
    workload = replace(
        scene.inference_workload(role), sequences=rows, tokens=tokens, fills_cache=cached
    )
    slides = activations.all_slide(role.arch)
    return (
        *model_saved(role.arch, workload, role=role.name),
        *layer_forward_transient(role.arch, workload, role=role.name, sliding=slides),
        positions.embedded(scene, role, rows, tokens, saved=False),
    )


def _cache(scene: Scene) -> Cache:
    arch = reference_of(scene).arch
    return Cache(
        role="reference",
        arch=arch,
        sequences=scene.q.micro_rows,
        value_bytes=scene.q.compute_bytes,
    )


def _attends(scene: Scene, tokens: Num) -> Iterator[Term]:
    """What one layer's attention of the newest token needs beside the cache."""
    plan, arch = scene.plan, reference_of(scene).arch
    sizes = {
        "tensors": 2,
        "heads": arch.heads,
        "value_bytes": scene.q.compute_bytes,
        "sequences": scene.q.micro_rows,
        "tokens": tokens,
    }
    eager = plan.attention == "eager"
    masked = eager or (plan.attention == "sdpa" and plan.batch_shape != "full")
    if masked and arch.heads != arch.kv_heads:
        yield generation.REPEATED_CACHE("reference", head_dim=arch.head_dim, **sizes)
    if eager:
        yield generation.DECODE_SCORES("reference", **sizes)
