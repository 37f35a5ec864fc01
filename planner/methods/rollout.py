"""Rollout, validation and weight sync: everything that generates or feeds a generator."""

from __future__ import annotations

from planner.catalog import device_constants
from planner.footprint import Instant, PhasePlan, Term
from planner.formulas import allocator, generation, sharding
from planner.formulas.activations import Workload, layer_forward_transient, model_saved
from planner.methods import engine, gathered
from planner.methods.resident import resident
from planner.methods.scene import Scene
from planner.numeric import Num


def rollout(scene: Scene) -> PhasePlan:
    """Responses for every prompt of the step."""
    return _generate(scene, "rollout", scene.plan.response_tokens)


def validation(scene: Scene) -> PhasePlan:
    """The same at the validation set's own response length."""
    return _generate(scene, "validation", scene.plan.validation_response_tokens, per_step=False)


def weight_sync(scene: Scene) -> tuple[PhasePlan, ...]:
    """Updated weights to the engine; nothing when transformers generates."""
    if not scene.plan.rollout.startswith("vllm"):
        return ()
    moment = Instant(
        name="weights to the engine",
        terms=engine.sync_buffers(scene),
        shared=(resident(scene, "weight sync"),),
    )
    return (
        PhasePlan(
            name="weight sync",
            role="policy",
            instants=(moment,),
        ),
    )


def _generate(scene: Scene, name: str, response_tokens: Num, per_step: bool = True) -> PhasePlan:
    kind = scene.plan.rollout
    if kind == "hf":
        instants = _transformers(scene, response_tokens)
    elif kind == "vllm-colocated":
        instants = (Instant(name="engine decodes", terms=(), shared=(resident(scene, "rollout"),)),)
    else:
        instants = (Instant(name="engine decodes", terms=_separate(scene)),)
    return PhasePlan(
        name=name,
        role=engine.ROLE if kind != "hf" else "policy",
        instants=instants,
        rank="rollout" if kind == "vllm-separate" else "trainer",
        per_step=per_step,
    )


def _separate(scene: Scene) -> tuple[Term, ...]:
    """All that a GPU of a separate engine holds."""
    return (
        *engine.awake(scene),
        allocator.CUDA_CONTEXT(engine.ROLE, context_bytes=device_constants.CUDA_CONTEXT.high_bytes),
    )


def _transformers(scene: Scene, response_tokens: Num) -> tuple[Instant, ...]:
    """``generate`` of transformers on the training model, whole step at once."""
    plan, q, arch = scene.plan, scene.q, scene.policy.arch
    tokens = plan.prompt_tokens + response_tokens
    sizes = {"sequences": q.sequences_per_gpu_step, "value_bytes": q.compute_bytes}
    base = (resident(scene, "rollout"), _weights_for_generation(scene))
    ids = generation.SEQUENCE_IDS("policy", tensors=3, sequences=sizes["sequences"], tokens=tokens)
    cache = _cache(scene, tokens, arch.sliding_layers if arch.sliding_window else 0)
    sampling = generation.SAMPLING("policy", tensors=4, vocab=arch.vocab, **sizes)
    before = generation.LAST_SAMPLED(
        "policy", tensors=3, sequences=sizes["sequences"], vocab=arch.vocab
    )
    return (
        Instant(name="prefill", terms=_prefill(scene), shared=base),
        Instant(
            name="cache extended",
            terms=(cache, ids, before, _growth(scene, tokens)),
            shared=base,
        ),
        Instant(
            name="last token decoded",
            terms=(cache, ids, before, *_attends(scene, tokens)),
            shared=base,
        ),
        Instant(name="last token sampled", terms=(cache, ids, sampling), shared=base),
    )


def _prefill(scene: Scene) -> tuple[Term, ...]:
    """One layer of the prompts' forward beside the cache it has filled.

    Sliding layers hold the whole prompt here: their window is a view of it.
    """
    plan, arch = scene.plan, scene.policy.arch
    prompt = Workload(
        sequences=scene.q.sequences_per_gpu_step,
        tokens=plan.prompt_tokens,
        batch_shape="full" if plan.batch_shape == "full" else "padded",
        attention=plan.attention,
        precision=scene.precision,
        trains="none",
    )
    return (
        *model_saved(arch, prompt, role="policy"),
        *layer_forward_transient(arch, prompt, role="policy"),
        _cache(scene, plan.prompt_tokens, 0),
        _growth(scene, plan.prompt_tokens),
    )


def _cache(scene: Scene, tokens: Num, sliding_layers: int) -> Term:
    arch = scene.policy.arch
    return generation.KV_CACHE(
        "policy",
        tensors=2 * arch.layers,
        kv_heads=arch.kv_heads,
        head_dim=arch.head_dim,
        value_bytes=scene.q.compute_bytes,
        sequences=scene.q.sequences_per_gpu_step,
        layers=arch.layers,
        sliding_layers=sliding_layers,
        tokens=tokens,
        window=arch.sliding_window,
    )


def _growth(scene: Scene, tokens: Num) -> Term:
    arch = scene.policy.arch
    return generation.KV_GROWTH(
        "policy",
        kv_heads=arch.kv_heads,
        head_dim=arch.head_dim,
        value_bytes=scene.q.compute_bytes,
        sequences=scene.q.sequences_per_gpu_step,
        tokens=tokens,
    )


def _attends(scene: Scene, tokens: Num) -> tuple[Term, ...]:
    """What one layer's attention of the new token needs beside the cache."""
    plan, arch = scene.plan, scene.policy.arch
    sizes = {
        "heads": arch.heads,
        "value_bytes": scene.q.compute_bytes,
        "sequences": scene.q.sequences_per_gpu_step,
        "tokens": tokens,
    }
    found: tuple[Term, ...] = ()
    masked = plan.attention == "eager" or (plan.attention == "sdpa" and plan.batch_shape != "full")
    if masked and arch.heads != arch.kv_heads:
        found = (generation.REPEATED_CACHE("policy", tensors=2, head_dim=arch.head_dim, **sizes),)
    if plan.attention == "eager":
        found = (*found, generation.DECODE_SCORES("policy", tensors=2, **sizes))
    return found


def _weights_for_generation(scene: Scene) -> tuple[Term, ...]:
    """Weights beyond the shards that ``generate`` needs at once."""
    if scene.plan.sharding in ("fsdp1", "zero3"):
        return (
            sharding.WHOLE_COPY(
                "policy",
                layout=scene.policy.layout,
                parameters=scene.policy.parameters,
                value_bytes=scene.q.compute_bytes,
            ),
        )
    return gathered.at_layer(scene, scene.policy) if scene.fsdp else ()
