"""Rollout, validation and weight sync: everything that generates or feeds a generator."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from planner.formulas import generation, sharding
from planner.formulas.activations.layers import layer_forward_transient
from planner.formulas.activations.model import model_saved
from planner.formulas.activations.workload import Workload
from planner.numeric import Num, ceil_div, maximum, minimum
from planner.phases import activations, collectives, engine, kv_cache, positions
from planner.phases.phase import Decoding, PhasePlan, Work, occasions, scoring
from planner.phases.role import Role
from planner.phases.scene import Scene, remembered
from planner.phases.vocabulary import scored_in_step
from planner.plan import references
from planner.plan.lengths import lengths_of, prompt_of, validation_lengths_of
from planner.plan.trainers import trainer_of
from planner.setup.workload import prompt_workload
from planner.term import Bundle, Instant, Standing, Term
from planner.values.sharding import sharding_of
from planner.values.step_phases import GENERATING, ROLLOUT, VALIDATION, WEIGHT_SYNC, StepPhase


@remembered
def rollout(scene: Scene) -> PhasePlan:
    """Responses for every prompt of the step; a separate engine's GPUs get the weights as well."""
    phase = _generate(scene, ROLLOUT, scene.q.response_tokens, (_decoding(scene),))
    if scene.plan.rollout != "vllm-separate":
        return phase
    terms = (*_separate(scene), *engine.arriving(scene))
    arrive = Instant(name="weights loading", terms=terms)
    return phase._replace(instants=(*phase.instants, arrive))


@remembered
def validation(scene: Scene) -> PhasePlan:
    """The same at the validation set's own response length; timed where a run validates."""
    plan = scene.plan
    often = occasions(plan, plan.eval_steps) if plan.validation_responses else 0
    phase = _generate(
        scene,
        VALIDATION,
        plan.validation_response_tokens,
        tuple(_validated(scene)) if often else (),
    )
    first = often > 0 and scene.framework.validates == "first"
    return phase._replace(per_step=False, occasions=often + first, executed=False)


@remembered
def weight_sync(scene: Scene) -> tuple[PhasePlan, ...]:
    """Updated weights to the engine; nothing when transformers generates."""
    if not scene.plan.rollout.startswith("vllm"):
        return ()
    beside = Standing(WEIGHT_SYNC.moment)
    travel = tuple(engine.sending(scene))
    sync = PhasePlan(
        kind=WEIGHT_SYNC,
        role="policy",
        instants=(Instant(name="weights sent to vLLM", terms=travel, shared=(beside,)),),
        work=(Work(role=scene.policy, run="send"),),
        executed=False,
    )
    return (sync,)


def _generate(
    scene: Scene, generates: StepPhase, response_tokens: Num, work: tuple[Work, ...]
) -> PhasePlan:
    kind = scene.plan.rollout
    if kind == "hf":
        instants = _transformers(scene, response_tokens)
    elif kind == "vllm-colocated":
        instants = (Instant(name="vLLM decoding", terms=(), shared=(Standing(GENERATING),)),)
    else:
        instants = (Instant(name="vLLM decoding", terms=_separate(scene)),)
    return PhasePlan(
        kind=generates,
        role=engine.ROLE if kind != "hf" else "policy",
        instants=instants,
        work=work,
        rank="rollout" if kind == "vllm-separate" else "trainer",
        executed=kind == "hf",
    )


def _decoding(scene: Scene) -> Decoding:
    """Every prompt's responses, by the policy itself or by the engine's copies of it."""
    plan, q = scene.plan, scene.q
    own = plan.rollout == "hf"
    sequences = q.sequences_per_gpu_step
    lengths, prompt = lengths_of(plan), _expected_prompt(scene)
    rows = lengths.after(prompt)
    return Decoding(
        role=scene.policy if own else scene.served,
        run="decode",
        tokens=sequences * rows.mean,
        row_tokens=rows.attended,
        scored_tokens=sequences * lengths.mean,
        sequences=sequences if own else engine.sequences_each(scene),
        prompt_tokens=prompt,
        response_tokens=plan.response_tokens,
        lengths=lengths,
        engine="hf" if own else "vllm",
        max_num_seqs=sequences if own else plan.max_num_seqs,
        kv_value_bytes=q.compute_bytes if own else engine.kv_value_bytes(plan),
        tensor_parallel=1 if own else plan.rollout_tensor_parallel,
        expert_parallel=not own and engine.experts_whole(plan),
        chunk_tokens=sequences * plan.prompt_tokens if own else plan.max_num_batched_tokens,
        engines=q.data_parallel if own else engine.engines(scene),
        group=1 if own else plan.responses_per_prompt,
        cache_tokens=None if own else engine.cache_tokens(scene),
        eager=plan.enforce_eager,
        async_scheduling=plan.async_scheduling,
        quantized=not own and plan.rollout_quantization == "fp8",
        rounds=plan.resampling_factor,
        rewarded=0 if plan.reward == "model" else q.sequences_per_step * plan.resampling_factor,
    )


def _expected_prompt(scene: Scene) -> Num:
    """Tokens of a prompt where it is read; transformers' ``generate`` pads all to the longest."""
    plan = scene.plan
    return plan.prompt_tokens if plan.rollout == "hf" else prompt_of(plan)


def _validated(scene: Scene) -> Iterator[Work]:
    """A validation's responses; where it goes by micro-batches, all that is done with each."""
    plan, decoded = scene.plan, _validating(scene)
    if scene.framework.validates != "by micro-batch":
        yield decoded
        return
    if plan.rollout == "vllm-colocated" and plan.vllm_sleep_level == 2:
        # It forgets the weights as it falls asleep after each.
        yield Work(role=scene.policy, run="send", rounds=decoded.rounds)
    yield decoded
    for role, times in _scored(scene):
        rounds = times * decoded.rounds
        share = rounds * plan.micro_batch_size / scene.q.sequences_per_gpu_step
        scored_tokens = 0 if role is scene.reward else scored_in_step(scene, gradient=False)
        row = scoring(scene, role, scored_tokens=scored_tokens * share)
        yield replace(row, tokens=row.tokens * share, rounds=rounds)


def _scored(scene: Scene) -> Iterator[tuple[Role, int]]:
    """Whose forwards a batch of a validation takes: a loss without gradient, and a step's own."""
    plan = scene.plan
    yield scene.policy, 1 + (not trainer_of(plan.framework, plan.method).own_old_log_probs(plan))
    reference = scene.policy.as_reference() if references.on_policy(plan) else scene.reference
    yield from ((one, 1) for one in (reference, scene.reward) if one is not None)


def _validating(scene: Scene) -> Decoding:
    """A validation's responses, each to a prompt of its own.

    transformers generates as many at once as in a step, which is what memory is planned for.
    """
    plan, q = scene.plan, scene.q
    own, responses = plan.rollout == "hf", plan.validation_responses
    machines = q.data_parallel if own else engine.engines(scene)
    each = ceil_div(responses, machines)
    sequences = minimum(each, q.sequences_per_gpu_step) if own else each
    if scene.framework.validates == "by micro-batch":
        sequences = minimum(each, ceil_div(plan.micro_batch_size * q.data_parallel, machines))
    lengths = validation_lengths_of(plan)
    rows, share = lengths.after(_expected_prompt(scene)), ceil_div(responses, q.data_parallel)
    return replace(
        _decoding(scene),
        tokens=share * rows.mean,
        row_tokens=rows.attended,
        scored_tokens=share * lengths.mean,
        sequences=sequences,
        response_tokens=plan.validation_response_tokens,
        lengths=lengths,
        max_num_seqs=sequences if own else plan.max_num_seqs,
        chunk_tokens=sequences * plan.prompt_tokens if own else plan.max_num_batched_tokens,
        group=1,
        rounds=ceil_div(each, sequences),
        rewarded=0 if plan.reward == "model" else responses,
    )


def _separate(scene: Scene) -> tuple[Term, ...]:
    """All that a GPU of a separate engine holds."""
    return (
        *engine.awake(scene),
        engine.process(scene),
    )


def _transformers(scene: Scene, response_tokens: Num) -> tuple[Instant, ...]:
    """``generate`` of transformers on the training model, whole step at once."""
    plan, q, role = scene.plan, scene.q, scene.policy
    arch = role.arch
    tokens = plan.prompt_tokens + response_tokens
    sequences = q.sequences_per_gpu_step
    frozen = activations.frozen_head_copy(scene, role)
    held = (
        Standing(GENERATING),
        activations.weight_copies(scene, role, layers=True, head=not frozen),
    )
    base = (*held, _weights_for_generation(scene))
    ids = _ids(scene, tokens)
    # The last token is sampled and never fed back, so the cache stays one token shorter.
    cached = maximum(tokens - 1, 1)
    keys_and_values = kv_cache.of_policy(scene)
    cache = (
        keys_and_values.held(cached, kv_cache.sliding(arch)),
        *keys_and_values.states(),
    )
    sampling = generation.SAMPLING("policy", tensors=4, vocab=arch.vocab, sequences=sequences)
    last = generation.LAST_SAMPLED("policy", tensors=3, sequences=sequences, vocab=arch.vocab)
    decoding, before = (*cache, last), (*cache, ids, last)
    return (
        *_weights_arrive(scene, held, response_tokens, decoding),
        Instant(name="prefill", terms=_prefill(scene), shared=base),
        *(
            Instant(name=name, terms=(*before, *more), shared=base)
            for name, more in (
                ("cache extended", (keys_and_values.growth(cached),)),
                ("last token decoded", tuple(kv_cache.attends(scene, cached))),
                ("states renewed", tuple(keys_and_values.new_states())),
                ("experts of the new token", tuple(kv_cache.expert_copies(scene))),
            )
            if more or name == "last token decoded"
        ),
        *(Instant(name="head's product", terms=(*before, *frozen), shared=held) for _ in frozen),
        Instant(
            name="last token sampled",
            terms=(*cache, ids, sampling),
            shared=(*held, _weights_at_head(scene)),
        ),
    )


def _weights_arrive(
    scene: Scene,
    held: tuple[Bundle | Standing, ...],
    response_tokens: Num,
    decoding: tuple[Term, ...],
) -> Iterator[Instant]:
    """FSDP gathers the root once for a whole generation, and layers for every token."""
    plan = scene.plan
    prompt = _prompt(scene)
    hidden = model_saved(scene.policy.arch, prompt, role="policy")
    for name, arriving in collectives.arrivals(scene, scene.policy):
        first = name.startswith("first")
        ids = _ids(scene, plan.prompt_tokens)
        beside = (*hidden, _embedded(scene, prompt, first=first))
        if not first:
            beside = (*beside, *_filled(scene, own=False))
        yield Instant(name=name, terms=(*arriving, ids, *beside), shared=held)
        if not first and plan.reshard_after_forward:
            ids = _ids(scene, plan.prompt_tokens + response_tokens - 1)
            yield Instant(
                name=f"{name} for the last token", terms=(*arriving, ids, *decoding), shared=held
            )


def _prefill(scene: Scene) -> tuple[Term, ...]:
    """One layer of the prompts' forward beside the cache it has filled.

    Sliding layers hold the whole prompt here: their window is a view of it.
    """
    role, prompt = scene.policy, _prompt(scene)
    return (
        *model_saved(role.arch, prompt, role="policy"),
        *layer_forward_transient(
            role.arch, prompt, role="policy", sliding=activations.all_slide(role.arch)
        ),
        _embedded(scene, prompt),
        *_filled(scene, own=True),
    )


def _embedded(scene: Scene, prompt: Workload, *, first: bool = False) -> Term:
    rows, tokens = prompt.sequences, prompt.tokens
    return positions.embedded(scene, scene.policy, rows, tokens, saved=first, numbered=True)


def _filled(scene: Scene, *, own: bool) -> Iterator[Term]:
    """The prompts' cache; a sliding layer's window is a view of the whole prompt."""
    return kv_cache.of_policy(scene).filled(scene.plan.prompt_tokens, 0, own=own)


def _ids(scene: Scene, tokens: Num) -> Term:
    sequences = scene.q.sequences_per_gpu_step
    return generation.SEQUENCE_IDS("policy", tensors=3, sequences=sequences, tokens=tokens)


def _prompt(scene: Scene) -> Workload:
    return prompt_workload(scene.setup, scene.setup["policy"], scene.facts.gpu)


def _weights_for_generation(scene: Scene) -> tuple[Term, ...]:
    """Weights beyond the shards that ``generate`` needs while a layer decodes."""
    if sharding_of(scene.plan).gathers and sharding_of(scene.plan).fsdp != 2:
        role, width = scene.policy, scene.q.compute_bytes
        whole = sharding.WHOLE_COPY(
            "policy", layout=role.layout, parameters=role.parameters, value_bytes=width
        )
        return (whole,)
    return collectives.at_layer(scene, scene.policy) if scene.fsdp else ()


def _weights_at_head(scene: Scene) -> tuple[Term, ...]:
    """The same while the head's logits are sampled from."""
    if sharding_of(scene.plan).fsdp == 2:
        return collectives.at_head(scene, scene.policy)
    return _weights_for_generation(scene)
