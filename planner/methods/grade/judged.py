"""The reference beside the policy: its forwards, its cache, and the KL term they end in."""

from __future__ import annotations

from dataclasses import replace

from planner.footprint import Term
from planner.formulas import generation
from planner.formulas import soft_generation as soft
from planner.formulas.activations import Workload, layer_forward_transient, model_saved
from planner.methods.grade import sampled
from planner.methods.grade.fields import own
from planner.numeric import Num
from planner.phases import saved, scored
from planner.phases.kv_cache import Cache, sliding
from planner.phases.role import Role
from planner.phases.scene import Scene

FP32 = sampled.FP32


def reference_of(scene: Scene) -> Role:
    """The model that the reference's logits come from; adapters that are off need nothing."""
    return scene.reference or scene.policy.without_adapters()


def forwards(scene: Scene) -> tuple[tuple[str, tuple[Term, ...]], ...]:
    """The moments of the reference's run that can be its highest, by name."""
    plan = scene.plan
    tokens = plan.prompt_tokens + plan.response_tokens - 1
    if not own(plan).grade_reference_cache:
        return (("reference's forward", _whole_row(scene, tokens)),)
    last = _held(scene, tokens)
    cache, windows = _cache(scene), sliding(reference_of(scene).arch)
    return (
        (
            "reference reads the prompt",
            (
                *_whole_row(scene, plan.prompt_tokens, cached=True),
                *cache.filled(plan.prompt_tokens, windows),
            ),
        ),
        ("reference's cache extended", (last, cache.growth(tokens))),
        ("reference's last token", (last, *_attends(scene, tokens))),
    )


def kept_logits(scene: Scene, tokens: Num) -> Term:
    """The reference's logits of ``tokens`` steps, which batch KL keeps together."""
    return sampled.rows(
        scene,
        soft.VOCABULARY_ROWS,
        scene.q.compute_bytes,
        tokens,
        label="reference logits kept for the KL term",
    )


def batch_forward(scene: Scene) -> tuple[Term, ...]:
    """One KL over all steps: both stacks of logits, and what the divergence makes of them."""
    return _over_all(
        scene,
        {
            "policy logits, stacked": FP32,
            "reference logits, stacked": scene.q.compute_bytes,
            "log-probabilities of the reference": FP32,
            "log-probabilities, probabilities, differences": 3 * FP32,
            "products of the divergence": FP32,
        },
    )


def batch_kept(scene: Scene) -> tuple[Term, ...]:
    """What the batch KL leaves for the backward; the logits themselves are gone by then."""
    return (sampled.rows(scene, soft.KL_KEPT, 3 * FP32, scene.plan.response_tokens, tensors=3),)


def batch_backward(scene: Scene) -> tuple[Term, ...]:
    """The batch KL's gradients of all steps in passing."""
    return _over_all(scene, {"gradients inside the divergence": 2 * FP32})


def held(scene: Scene) -> tuple[Term, ...]:
    """The filled cache, which lives as long as the rollout."""
    plan = scene.plan
    if own(plan).grade_kl == "none" or not own(plan).grade_reference_cache:
        return ()
    return (_held(scene, plan.prompt_tokens + plan.response_tokens - 1),)


def _over_all(scene: Scene, parts: dict[str, int]) -> tuple[Term, ...]:
    tokens = scene.plan.response_tokens
    return tuple(
        sampled.rows(scene, soft.VOCABULARY_ROWS, width, tokens, label=name)
        for name, width in parts.items()
    )


def _workload(scene: Scene, tokens: Num) -> Workload:
    found = scene.inference_workload(reference_of(scene))
    return replace(found, sequences=scene.q.micro_rows, tokens=tokens)


def _whole_row(scene: Scene, tokens: Num, *, cached: bool = False) -> tuple[Term, ...]:
    """One layer of a forward without gradient over whole rows, perhaps into a cache."""
    role, workload = reference_of(scene), _workload(scene, tokens)
    workload = replace(workload, fills_cache=cached)
    return (
        *model_saved(role.arch, workload, role=role.name),
        *layer_forward_transient(
            role.arch, workload, role=role.name, sliding=saved.all_slide(role.arch)
        ),
        scored.embedded(scene, role, scene.q.micro_rows, tokens, saved=False),
    )


def _cache(scene: Scene) -> Cache:
    arch = reference_of(scene).arch
    return Cache(
        role="reference",
        arch=arch,
        sequences=scene.q.micro_rows,
        value_bytes=scene.q.compute_bytes,
    )


def _held(scene: Scene, tokens: Num) -> Term:
    return _cache(scene).held(tokens, sliding(reference_of(scene).arch))


def _attends(scene: Scene, tokens: Num) -> tuple[Term, ...]:
    """What one layer's attention of the newest token needs beside the cache."""
    plan, arch = scene.plan, reference_of(scene).arch
    sizes = {
        "heads": arch.heads,
        "value_bytes": scene.q.compute_bytes,
        "sequences": scene.q.micro_rows,
        "tokens": tokens,
    }
    found: tuple[Term, ...] = ()
    masked = plan.attention == "eager" or (plan.attention == "sdpa" and plan.batch_shape != "full")
    if masked and arch.heads != arch.kv_heads:
        repeated = generation.REPEATED_CACHE(
            "reference", tensors=2, head_dim=arch.head_dim, **sizes
        )
        found = (repeated,)
    if plan.attention == "eager":
        found = (*found, generation.DECODE_SCORES("reference", tensors=2, **sizes))
    return found
