"""What a person should know besides the numbers: blockers, warnings, notes.

A blocker means that the run cannot start, or trains nothing, whatever the peak is; a warning is
a doubt about the plan or about the estimate; a note says what was understood.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from planner.catalog import measured, spot
from planner.catalog.gpu_catalog import CUSTOM
from planner.footprint import Phase
from planner.lengths import at_caps, lengths_of, prompt_of, prompts, words
from planner.phases import engine
from planner.phases.lost_gradients import loses_gradients
from planner.phases.scene import Scene
from planner.phases.vocabulary import path
from planner.plan.chosen import DEFAULTS
from planner.plan.defaults import fill
from planner.plan.relevance import UNSAMPLED, without_effect
from planner.setup import references
from planner.setup.quantities import pads_rollout
from planner.setup.workload import compile_breaks
from planner.units import read_bytes, read_count, read_gib
from planner.values.step_phases import ROLLOUT

DECIDING = (
    "method",
    "framework",
    "gpus",
    "finetuning",
    "dtype",
    "kl",
    "rollout",
    "prompts_per_step",
    "micro_batch_size",
    "response_tokens",
)
"""Fields that decide what is usual for the others."""

Cautions = tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]

BELOW = {"phi4_multimodal": 0.047}
"""Types measured on the spot whose sum is more than 1 % below a dry run (docs/models.md)."""


def cautions_of(scene: Scene, phases: tuple[Phase, ...]) -> Cautions:
    """Blockers, warnings and notes of one plan."""
    return (
        (*_engine_blockers(scene), *_host_blockers(scene, phases), *_adapter_blockers(scene)),
        (
            *_engine_warnings(scene),
            *_reference_warnings(scene),
            *_reward_warnings(scene),
            *_optimizer_warnings(scene),
            *scene.facts.policy_model.warnings,
            *_model_warnings(scene),
            *_measured_warnings(scene),
            *_host_warnings(scene, phases),
            *_padding_warnings(scene),
            *_validation_warnings(scene),
        ),
        (
            *_notes(scene, phases),
            *_first_rollout(phases),
            *_gradient_notes(scene),
            *_ignored(scene),
        ),
    )


def _engine_blockers(scene: Scene) -> Iterator[str]:
    short = engine.shortfall_bytes(scene)
    if short > 0:
        share = engine.share_bytes(scene)
        yield (
            f"the engine's share of {read_gib(share)} GiB is {read_bytes(short)} too small for its "
            "weights, its working set and one whole sequence; raise gpu_memory_utilization or "
            "rollout_tensor_parallel."
        )


def _first_rollout(phases: tuple[Phase, ...]) -> Iterator[str]:
    """Beside what state an engine generates: none in the first step."""
    for phase in phases:
        if phase.kind != ROLLOUT or phase.rank != "trainer":
            continue
        if state := phase.by_category().get("optimizer", 0):
            yield (
                f"The first rollout comes before any optimizer state: "
                f"{read_gib(phase.device_bytes - state)} GiB then, "
                f"{read_gib(phase.device_bytes)} GiB in every later step."
            )


def _host_blockers(scene: Scene, phases: tuple[Phase, ...]) -> Iterator[str]:
    limit, worst = scene.plan.host_ram_per_node, max(phases, key=_host_bytes)
    need = _host_bytes(worst)
    if limit and need > limit:
        yield (
            f"a node's host RAM of {read_gib(limit)} GiB is too small: {worst.name} needs "
            f"{read_gib(need)} GiB; offload less, or take nodes with more."
        )


def _adapter_blockers(scene: Scene) -> Iterator[str]:
    if loses_gradients(scene):
        yield (
            "adapters get no gradients: the policy is its own reference, and FSDP2 keeps its "
            "weights gathered until they are offloaded; turn reshard_after_forward on."
        )


def _host_bytes(phase: Phase) -> int:
    return phase.host_bytes or 0


def _engine_warnings(scene: Scene) -> Iterator[str]:
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


def _reward_warnings(scene: Scene) -> Iterator[str]:
    """What a reward model that is served takes, by a default that no field of a plan sets."""
    engine = scene.framework.reward_engine
    if engine is not None and scene.reward is not None:
        yield (
            f"{scene.framework.label} serves the reward model from a second engine over "
            f"{read_count(engine.gpus, 'GPU')}, which takes {engine.share_percent}% of each while "
            "it scores: its defaults, which no field sets."
        )


def _reference_warnings(scene: Scene) -> Iterator[str]:
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


def _optimizer_warnings(scene: Scene) -> Iterator[str]:
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


def _model_warnings(scene: Scene) -> Iterator[str]:
    arch, rows = scene.policy.arch, scene.plan.prompt_tokens + scene.plan.response_tokens
    if not arch.learned_positions and rows > arch.max_positions:
        yield (
            f"prompt_tokens + response_tokens = {rows:,} is longer than the "
            f"{arch.max_positions:,} positions the model was made for."
        )
    if not arch.sparse_layers:
        return
    yield (
        "The experts' time is that of an engine's grouped kernels, by the tokens that meet each "
        "expert; those of training may be slower."
    )
    if scene.precision == "autocast-bf16":
        yield (
            "Autocast does not know grouped_mm: the experts' activations and products are in fp32, "
            "which the memory counts and the time does not; set master_dtype to none, or shard."
        )


def _measured_warnings(scene: Scene) -> tuple[str, ...]:
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
        found += _cache_warnings(scene)
    return tuple(found)


def _cache_warnings(scene: Scene) -> Iterator[str]:
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


def _host_warnings(scene: Scene, phases: tuple[Phase, ...]) -> Iterator[str]:
    limit, need = scene.plan.host_ram_per_node, max(map(_host_bytes, phases))
    if not limit and need >= 200 * 2**30:
        yield f"A node needs at least {read_gib(need)} GiB of host RAM."
    most = max(phase.host_high_bytes or 0 for phase in phases) if limit >= need else 0
    if limit < most:
        yield (
            f"A node may need up to {read_gib(most)} GiB of host RAM, more than its "
            f"{read_gib(limit)} GiB: what processes with a card take there is known roughly."
        )


def _gradient_notes(scene: Scene) -> Iterator[str]:
    """What gradients cost where FSDP reduces them once an update."""
    width, q = scene.whole_gradient_bytes, scene.q
    if width and q.micro_batches > 1 and q.shards > 1:
        whole = width * scene.policy.trainable
        yield (
            f"Between micro-batches every GPU keeps the whole gradients, {read_gib(whole)} GiB: "
            f"{scene.framework.label} has FSDP reduce them in an update's last micro-batch alone. "
            "An update of one micro-batch keeps its shard only."
        )


def _notes(scene: Scene, phases: tuple[Phase, ...]) -> Iterator[str]:
    plan, runs = scene.plan, path(scene)
    yield from _length_notes(scene)
    yield from _time_notes(scene, phases)
    if any(phase.host_bytes for phase in phases):
        yield (
            "Host RAM counts processes and what is offloaded, loaded or gathered; pages of files "
            "come on top, and a system takes them back where it needs the room."
        )
    if runs != plan.logits:
        yield (
            f"{plan.framework} {plan.framework_version} meets the vocabulary by its "
            f"{runs} path, whatever logits says ({plan.logits})."
        )
    if runs in scene.framework.path_notes:
        yield scene.framework.path_notes[runs]
    if references.on_disk(plan):
        yield (
            "The run's responses are counted once each; where prompts repeat, the reference "
            "scores fewer before it."
        )
    if plan.compile and compile_breaks(plan):
        yield (
            "compile is counted as having no effect on memory: flash-attn breaks the graph inside "
            "a checkpointed layer."
        )
    if scene.precision == "autocast-bf16":
        yield (
            "fp32 weights without sharding mean autocast: half-precision copies of the weights "
            "live through each forward and backward."
        )


def _length_notes(scene: Scene) -> Iterator[str]:
    """What time and memory take the lengths for."""
    plan, passes = scene.plan, scene.q.training
    if at_caps(plan):
        yield "Lengths are planned at their caps: every row is as long as prompt + response."
        return
    lengths, cap = lengths_of(plan), plan.response_tokens
    yield f"Times rest on {words(plan)}, behind {prompts(plan)}."
    if lengths.longest < cap:
        yield (
            f"No counted response is longer than {lengths.longest:,} tokens, so rows are planned "
            f"for that and not for their cap of {cap:,}; a longer one needs more memory."
        )
    else:
        yield "Memory is planned for the longest row there can be: prompt + response at their caps."
    real = scene.q.sequences_per_gpu_step * (prompt_of(plan) + lengths.mean)
    if plan.batch_shape != "packed":
        beside = "of a GPU's whole rollout" if pads_rollout(plan) else "of its micro-batch"
        yield (
            f"{1 - real / passes.tokens:.0%} of what training computes is padding: each row is as "
            f"long as the longest {beside}."
        )
    if passes.imbalance > 1.005:
        yield (
            f"The GPU with the longest rows computes {passes.imbalance - 1:.0%} more than the "
            "others do on average, which wait for it."
        )


def _time_notes(scene: Scene, phases: tuple[Phase, ...]) -> Iterator[str]:
    """Why a step's time is not known, where it is not."""
    if all(phase.seconds is not None for phase in phases if phase.per_step):
        return
    gpu, dtype = scene.facts.gpu, scene.plan.dtype
    if gpu.key == CUSTOM:
        yield (
            "Times are not known, since nobody said how fast the card is; name one of the catalog, "
            "with gpu_bytes where its memory is another."
        )
        return
    lacks = []
    if gpu.flops_per_second(dtype) is None:
        lacks.append(f"what it computes in {dtype}")
    if gpu.bandwidth_bytes_per_second is None:
        lacks.append("how fast its memory is")
    if gpu.interconnect_bytes_per_second is None and gpu.pcie is None:
        lacks.append("how fast its link is")
    if lacks:
        other = dtype == "bf16" and gpu.fp16_flops_per_second is not None
        fix = "; in fp16 it has a rate" if other else ""
        yield f"Times are not known: of {gpu.name} nobody has said {', nor '.join(lacks)}{fix}."


def _padding_warnings(scene: Scene) -> Iterator[str]:
    """A budget of tokens that padding comes on top of."""
    plan = scene.plan
    uneven = not at_caps(plan) and plan.batch_shape == "padded"
    if uneven and plan.max_tokens_per_micro_batch:
        yield (
            "max_tokens_per_micro_batch counts tokens without padding: short responses padded to a "
            "long one beside them take more than it, which the memory does not count; set "
            "batch_shape to packed."
        )


def _validation_warnings(scene: Scene) -> Iterator[str]:
    """A validation of nobody knows how many responses."""
    plan = scene.plan
    if plan.eval_steps and not plan.validation_responses and plan.rollout not in UNSAMPLED:
        yield (
            "Validations are not in the run's time and cost: nobody said how many responses one "
            "generates; set validation_responses."
        )


def _ignored(scene: Scene) -> tuple[str, ...]:
    plan = scene.plan
    usual = _usual(tuple(getattr(plan, field) for field in DECIDING))
    return tuple(
        f"{field} has no effect here: {reason}."
        for field, reason in without_effect(plan).items()
        if getattr(plan, field) != usual[field]
    )


@lru_cache(maxsize=256)
def _usual(deciding: tuple[Any, ...]) -> Mapping[str, Any]:
    """What nobody who decided so much would have to set; edits of a plan seldom change it."""
    return {**DEFAULTS, **fill(dict(zip(DECIDING, deciding, strict=True)))}
