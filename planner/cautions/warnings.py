"""What is doubtful about a plan, or about its estimate."""

from __future__ import annotations

from collections.abc import Iterator

from planner.catalog import measured, spot
from planner.catalog.gpu_catalog import grouped
from planner.footprint import Phase
from planner.phases import engine
from planner.phases.scene import Scene
from planner.plan import references
from planner.plan.fields.kinds import UNSAMPLED
from planner.plan.lengths import at_caps
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
            f"vLLM's KV cache holds {holds:,} full-length sequences, fewer than the {wanted:,} it "
            "may run at once: sequences wait or are preempted."
        )
    if plan.expandable_segments and plan.rollout == "vllm-colocated":
        yield (
            "Expandable segments do not work with vLLM's sleep mode in one process; verl turns "
            "them off around rollouts."
        )
    if plan.rollout == "vllm-colocated" and plan.empty_cache == "never":
        yield (
            "With empty_cache never, the memory that training cached is still reserved when vLLM "
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
            "run. The plan assumes a second set of GPUs, as many and of the same kind, that scores "
            "the responses before every update while the step waits. The reference's "
            f"{weights} of weights on those GPUs are not counted; set reference to {other} to "
            "score on the plan's GPUs."
        )


def _reward(scene: Scene) -> Iterator[str]:
    """What a reward model that is served takes, by a default that no field of a plan sets."""
    engine = scene.framework.reward_engine
    if engine and scene.reward:
        yield (
            f"{scene.framework.label} serves the reward model from a second engine on "
            f"{read_count(engine['rollout_tensor_parallel'], 'GPU')}, which takes "
            f"{engine['gpu_memory_utilization']:.0%} of each while it scores: its "
            "defaults, which no setting here changes."
        )


def _optimizer(scene: Scene) -> Iterator[str]:
    plan = scene.plan
    by_deepspeed = scene.zero_stage and plan.offload in ("optimizer", "all")
    if by_deepspeed and plan.optimizer != "adamw-fused":
        yield (
            "DeepSpeed's offload runs its own CPU Adam and refuses all other optimizers, 8-bit "
            "ones included, so the time shown is that of CPU Adam. Set optimizer to adamw-fused, "
            "or offload to none."
        )
    if plan.optimizer == "paged-adamw-8bit":
        yield (
            "Paged moments are counted in host RAM, where the driver moves them when the GPU is "
            "full. On a GPU with free memory they stay on the GPU, and nvidia-smi shows them as "
            "used."
        )


def _model(scene: Scene) -> Iterator[str]:
    arch, rows = scene.policy.arch, scene.plan.prompt_tokens + scene.plan.response_tokens
    if not arch.learned_positions and rows > arch.max_positions:
        yield (
            f"prompt_tokens + response_tokens = {rows:,} is more than the model's "
            f"{arch.max_positions:,} positions."
        )
    if not arch.sparse_layers:
        return
    autocast = scene.precision == "autocast-bf16"
    one, dtype = "one kernel for all experts of a layer", "fp32" if autocast else scene.plan.dtype
    if not grouped(scene.facts.gpu, dtype):
        one = f"which torch runs here as one GEMM per expert in {dtype}"
    yield (
        f"Experts train by transformers' grouped_mm, {one}. A loop over experts "
        f"(experts_implementation=eager, {scene.framework.looped_experts[0]}) takes longer: the "
        "seconds' upper end has it."
    )
    if autocast:
        yield (
            "Autocast does not cover grouped_mm: the experts' activations and GEMMs are in fp32, "
            "which takes more memory and time. Set master_dtype to none, or shard."
        )


def _measured(scene: Scene) -> tuple[str, ...]:
    """What is said where no sum was derived for one of the models."""
    measured_of = (role.arch.measured for role in scene.roles.values())
    keys = dict.fromkeys(key for key in measured_of if key)
    found: list[str] = []
    for key in keys:
        found.append(
            f"Activations of {measured.family_of(key)} are measured in dry runs on this machine, "
            "not derived from the model's code."
            if key.startswith(spot.PREFIX)
            else f"Activations of {key} are measured in dry runs, not derived from its code."
        )
        below = BELOW.get(measured.family_of(key)) if key.startswith(spot.PREFIX) else None
        if below:
            found.append(
                f"For {measured.family_of(key)} the fitted figures were {below:.1%} below a dry "
                "run of every layer with two rows of 64 tokens (docs/models.md): check this plan "
                "with a dry run."
            )
        found += [sentence for sentence in measured.entry(key)["supposed"] if sentence not in found]
        if measured.entry(key)["fallback"]:
            found.append(
                f"The dry runs of {key} took a fallback branch instead of the GPU's kernels: the "
                "true figure may be much lower."
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
            "vLLM's KV cache is counted for full-attention layers only; linear attention keeps "
            f"{read_bytes(state)} per sequence in the same memory, so fewer run at once."
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
            "max_tokens_per_micro_batch counts tokens without padding. Short responses padded to a "
            "long one exceed it, which the memory here does not count; set batch_shape to packed."
        )


def _validation(scene: Scene) -> Iterator[str]:
    """A validation of nobody knows how many responses."""
    plan = scene.plan
    if plan.eval_steps and not plan.validation_responses and plan.rollout not in UNSAMPLED:
        yield (
            "The run's time and cost leave validation out, since the number of its responses is "
            "not set; set validation_responses."
        )
