"""What is doubtful about a plan, or about its estimate."""

from __future__ import annotations

from collections.abc import Iterator

from planner.catalog import measured, spot
from planner.footprint import Phase
from planner.lengths import at_caps
from planner.phases import engine
from planner.phases.scene import Scene
from planner.plan.relevance import UNSAMPLED
from planner.setup import references
from planner.timing.layers import grouped
from planner.units import read_bytes, read_count, read_gib

BELOW = {"phi4_multimodal": 0.047}
"""Types measured on the spot whose sum is more than 1 % below a dry run (docs/models.md)."""


def warnings(scene: Scene, phases: tuple[Phase, ...]) -> Iterator[str]:
    """Each a sentence or more."""
    yield from _engine(scene)
    yield from _reference(scene)
    yield from _reward(scene)
    yield from _optimizer(scene)
    yield from scene.facts.policy_model.warnings
    yield from _model(scene)
    yield from _measured(scene)
    yield from _host(scene, phases)
    yield from _padding(scene)
    yield from _validation(scene)


def _engine(scene: Scene) -> Iterator[str]:
    plan = scene.plan
    if not plan.rollout.startswith("vllm") or engine.shortfall_bytes(scene) > 0:
        return
    wanted = min(plan.max_num_seqs, engine.sequences_each(scene))
    holds = engine.concurrent_sequences(scene)
    if holds < wanted:
        yield (
            f"The engine's KV cache holds {holds:,} whole-length sequences at once, fewer than "
            f"the {wanted:,} it may run; longer rollouts wait or are preempted."
        )
    if plan.expandable_segments and plan.rollout == "vllm-colocated":
        yield (
            "Expandable segments and a sleeping vLLM in one process do not go together; verl "
            "switches them off around rollouts."
        )
    if plan.rollout == "vllm-colocated" and plan.empty_cache == "never":
        yield (
            "With empty_cache never, what training cached is still reserved when the engine "
            "wakes up."
        )


def _reference(scene: Scene) -> Iterator[str]:
    """What a reference that is called cached means where nothing can be cached beforehand."""
    plan = scene.plan
    if references.elsewhere(plan):
        weights = read_bytes(scene.policy.parameters * scene.q.compute_bytes)
        other = "copy or offloaded" if plan.finetuning == "full" else "adapter-disabled"
        yield (
            f"Responses are new in each step, so {plan.reference} cannot be computed before the "
            "run: the reference scores them before every update, on as many other GPUs of this "
            f"kind, which this plan waits for. Its {weights} of weights there are not in this "
            f"plan's memory; set reference to {other} to score them here."
        )


def _reward(scene: Scene) -> Iterator[str]:
    """What a reward model that is served takes, by a default that no field of a plan sets."""
    engine = scene.framework.reward_engine
    if engine is not None and scene.reward is not None:
        yield (
            f"{scene.framework.label} serves the reward model from a second engine over "
            f"{read_count(engine.gpus, 'GPU')}, which takes {engine.share_percent}% of each while "
            "it scores: its defaults, which no field sets."
        )


def _optimizer(scene: Scene) -> Iterator[str]:
    plan = scene.plan
    by_deepspeed = scene.zero_stage and plan.offload in ("optimizer", "all")
    if by_deepspeed and plan.optimizer != "adamw-fused":
        yield (
            "DeepSpeed updates in host RAM by its own CPU Adam and refuses other optimizers there, "
            "8-bit ones among them: the time is of that. Set optimizer to adamw-fused, or offload "
            "to none."
        )
    if plan.optimizer == "paged-adamw-8bit":
        yield (
            "Paged moments are counted in host RAM, where the driver moves them when the GPU has "
            "no room: on a card with room they stay there, and the driver shows them as used."
        )


def _model(scene: Scene) -> Iterator[str]:
    arch, rows = scene.policy.arch, scene.plan.prompt_tokens + scene.plan.response_tokens
    if not arch.learned_positions and rows > arch.max_positions:
        yield (
            f"prompt_tokens + response_tokens = {rows:,} is longer than the "
            f"{arch.max_positions:,} positions the model was made for."
        )
    if not arch.sparse_layers:
        return
    autocast = scene.precision == "autocast-bf16"
    one, dtype = "one kernel for all experts of a layer", "fp32" if autocast else scene.plan.dtype
    if not grouped(scene.facts.gpu, dtype):
        one = f"which torch runs here as a product for each expert in {dtype}"
    yield (
        f"Experts train by transformers' grouped_mm, {one}. A loop over experts "
        f"(experts_implementation=eager, {scene.framework.looped_experts[0]}) takes longer: the "
        "seconds' upper end has it."
    )
    if autocast:
        yield (
            "Autocast does not know grouped_mm: the experts' activations and products are in "
            "fp32, in memory and in time; set master_dtype to none, or shard."
        )


def _measured(scene: Scene) -> tuple[str, ...]:
    """What is said where no sum was derived for one of the models."""
    measured_of = (role.arch.measured for role in scene.roles.values())
    keys = dict.fromkeys(key for key in measured_of if key)
    found: list[str] = []
    for key in keys:
        found.append(
            f"Activations of {measured.family_of(key)} come from coefficients that a dry run "
            "measured on the spot, not from a derived sum."
            if key.startswith(spot.PREFIX)
            else f"Activations of {key} come from dry-run coefficients, not from a derived sum."
        )
        below = BELOW.get(measured.family_of(key)) if key.startswith(spot.PREFIX) else None
        if below:
            found.append(
                f"Of {measured.family_of(key)} the sum was {below:.1%} below a dry run of every "
                "layer, at two rows of 64 tokens (docs/models.md): check with the dry run."
            )
        found += [sentence for sentence in measured.entry(key)["supposed"] if sentence not in found]
        if measured.entry(key)["fallback"]:
            found.append(
                f"In the dry run of {key} a fallback branch ran in place of a GPU's kernels: the "
                "true figure may be well below."
            )
    if scene.plan.rollout != "none" and scene.policy.arch.measured:
        found += _uncounted_caches(scene)
    return tuple(found)


def _uncounted_caches(scene: Scene) -> Iterator[str]:
    """What is not known of the cache of architectures that keep something else in it."""
    arch = scene.policy.arch
    if scene.facts.policy_model.config.get("kv_lora_rank"):
        yield (
            "The KV cache holds expanded keys and values, as transformers caches them; an engine "
            "with latent attention caches less."
        )
    elif arch.stateful_layers and scene.plan.rollout != "hf":
        state = arch.stateful_layers * (4 * arch.state_values + 2 * arch.convolution_values)
        yield (
            "The engine's KV cache counts full-attention layers only; linear attention keeps "
            f"{read_bytes(state)} a sequence in the same room, so fewer run at once."
        )


def _host(scene: Scene, phases: tuple[Phase, ...]) -> Iterator[str]:
    limit, need = scene.plan.host_ram_per_node, max(phase.host_bytes or 0 for phase in phases)
    if not limit and need >= 200 * 2**30:
        yield f"A node needs at least {read_gib(need)} GiB of host RAM."


def _padding(scene: Scene) -> Iterator[str]:
    """A budget of tokens that padding comes on top of."""
    plan = scene.plan
    uneven = not at_caps(plan) and plan.batch_shape == "padded"
    if uneven and plan.max_tokens_per_micro_batch:
        yield (
            "max_tokens_per_micro_batch counts tokens without padding: short responses padded to a "
            "long one beside them take more than it, which the memory does not count; set "
            "batch_shape to packed."
        )


def _validation(scene: Scene) -> Iterator[str]:
    """A validation of nobody knows how many responses."""
    plan = scene.plan
    if plan.eval_steps and not plan.validation_responses and plan.rollout not in UNSAMPLED:
        yield (
            "Validations are not in the run's time and cost: nobody said how many responses one "
            "generates; set validation_responses."
        )
