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
    plan, q, policy = scene.plan, scene.q, scene.policy
    arch = policy.arch
    sequences = q.sequences_per_gpu_step
    tokens = plan.prompt_tokens + response_tokens
    base = (resident(scene, "rollout"), _weights_for_generation(scene))
    cache = generation.KV_CACHE(
        "policy",
        tensors=2 * arch.layers,
        kv_heads=arch.kv_heads,
        head_dim=arch.head_dim,
        value_bytes=q.compute_bytes,
        sequences=sequences,
        layers=arch.layers,
        sliding_layers=arch.sliding_layers if arch.sliding_window else 0,
        tokens=tokens,
        window=arch.sliding_window,
    )
    growth = generation.KV_GROWTH(
        "policy",
        kv_heads=arch.kv_heads,
        head_dim=arch.head_dim,
        value_bytes=q.compute_bytes,
        sequences=sequences,
        tokens=tokens,
    )
    sampling = generation.SAMPLING(
        "policy", tensors=4, sequences=sequences, vocab=arch.vocab, value_bytes=q.compute_bytes
    )
    prompt = Workload(
        sequences=sequences,
        tokens=plan.prompt_tokens,
        batch_shape="full" if plan.batch_shape == "full" else "padded",
        attention=plan.attention,
        precision=scene.precision,
        trains="none",
    )
    prefill = Instant(
        name="prefill",
        shared=base,
        terms=(
            *model_saved(arch, prompt, role="policy"),
            *layer_forward_transient(arch, prompt, role="policy"),
            generation.KV_CACHE(
                "policy", tensors=2 * arch.layers, **{**cache.inputs, "tokens": plan.prompt_tokens}
            ),
        ),
    )
    return (
        prefill,
        Instant(name="last token decoded", terms=(cache, growth), shared=base),
        Instant(name="last token sampled", terms=(cache, sampling), shared=base),
    )


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
