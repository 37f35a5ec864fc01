"""What a person should know besides the numbers: blockers, warnings, notes.

A blocker means that the run cannot start whatever the peak is; a warning is a doubt
about the plan or about the estimate; a note says what was understood.
"""

from __future__ import annotations

from planner.catalog import measured
from planner.footprint import Phase
from planner.phases import engine
from planner.phases.scene import Scene
from planner.phases.vocabulary import path
from planner.plan.defaults import fill
from planner.plan.relevance import without_effect
from planner.units import read_bytes, read_gib
from planner.workload import compile_breaks

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


def cautions_of(scene: Scene, phases: tuple[Phase, ...]) -> Cautions:
    """Blockers, warnings and notes of one plan."""
    return (
        (*_engine_blockers(scene), *_host_blockers(scene, phases)),
        (
            *_engine_warnings(scene),
            *scene.facts.policy_model.warnings,
            *_model_warnings(scene),
            *_expert_warnings(scene),
            *_measured_warnings(scene),
            *_host_warnings(scene, phases),
        ),
        (*_notes(scene, phases), *_ignored(scene)),
    )


def _engine_blockers(scene: Scene) -> tuple[str, ...]:
    short = engine.shortfall_bytes(scene)
    if short <= 0:
        return ()
    share = engine.share_bytes(scene)
    return (
        f"the engine's share of {read_gib(share)} GiB is {read_bytes(short)} too small for its "
        "weights, its working set and one whole sequence; raise gpu_memory_utilization or "
        "rollout_tensor_parallel.",
    )


def _host_blockers(scene: Scene, phases: tuple[Phase, ...]) -> tuple[str, ...]:
    limit = scene.plan.host_ram_per_node
    need = max((phase.host_bytes or 0 for phase in phases), default=0)
    if not limit or need <= limit:
        return ()
    worst = max(phases, key=lambda phase: phase.host_bytes or 0)
    return (
        f"a node's host RAM of {read_gib(limit)} GiB is too small: {worst.name} needs "
        f"{read_gib(need)} GiB; offload less, or set more gpus_per_node's RAM.",
    )


def _engine_warnings(scene: Scene) -> tuple[str, ...]:
    plan = scene.plan
    if not plan.rollout.startswith("vllm") or engine.shortfall_bytes(scene) > 0:
        return ()
    found: list[str] = []
    wanted = min(plan.max_num_seqs, engine.sequences_each(scene))
    holds = engine.concurrent_sequences(scene)
    if holds < wanted:
        found.append(
            f"The engine's KV cache holds {holds:,} whole-length sequences at once, fewer than "
            f"the {wanted:,} it may run; longer rollouts wait or are preempted."
        )
    if plan.expandable_segments and plan.rollout == "vllm-colocated":
        found.append(
            "Expandable segments and a sleeping vLLM in one process do not go together; verl "
            "switches them off around rollouts."
        )
    if plan.rollout == "vllm-colocated" and plan.empty_cache == "never":
        found.append(
            "With empty_cache never, what training cached is still reserved when the engine "
            "wakes up."
        )
    return tuple(found)


def _model_warnings(scene: Scene) -> tuple[str, ...]:
    arch, rows = scene.policy.arch, scene.q.row_tokens
    if arch.learned_positions or rows <= arch.max_positions:
        return ()
    return (
        f"prompt_tokens + response_tokens = {rows:,} is longer than the {arch.max_positions:,} "
        "positions the model was made for.",
    )


def _expert_warnings(scene: Scene) -> tuple[str, ...]:
    if not scene.policy.arch.sparse_layers:
        return ()
    found = [
        "The time counts the experts that a token uses, at the share of the card's peak that dense "
        "models reach; routed products are smaller and reach less of it."
    ]
    if scene.precision == "autocast-bf16":
        found.append(
            "Autocast does not know grouped_mm: the experts' activations and products are in fp32, "
            "which the memory counts and the time does not; set master_dtype to none, or shard."
        )
    return tuple(found)


def _measured_warnings(scene: Scene) -> tuple[str, ...]:
    """What is said where no sum was derived for one of the models."""
    measured_of = (role.arch.measured for role in scene.roles.values())
    keys = dict.fromkeys(key for key in measured_of if key)
    found: list[str] = []
    for key in keys:
        found.append(
            f"Activations of {key} come from dry-run coefficients, not from a derived sum."
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


def _cache_warnings(scene: Scene) -> tuple[str, ...]:
    """What is not known of the cache of architectures that keep something else in it."""
    config = scene.facts.policy_model.config
    if config.get("kv_lora_rank"):
        return (
            "The KV cache holds expanded keys and values, as transformers caches them; an engine "
            "with latent attention caches less.",
        )
    arch = scene.policy.arch
    if arch.stateful_layers and scene.plan.rollout != "hf":
        state = arch.stateful_layers * (4 * arch.state_values + 2 * arch.convolution_values)
        return (
            "The engine's KV cache counts full-attention layers only; linear attention keeps "
            f"{read_bytes(state)} a sequence in the same room, so fewer run at once.",
        )
    return ()


def _host_warnings(scene: Scene, phases: tuple[Phase, ...]) -> tuple[str, ...]:
    need = max((phase.host_bytes or 0 for phase in phases), default=0)
    if scene.plan.host_ram_per_node or need < 200 * 2**30:
        return ()
    return (f"A node needs at least {read_gib(need)} GiB of host RAM.",)


def _notes(scene: Scene, phases: tuple[Phase, ...]) -> tuple[str, ...]:
    plan = scene.plan
    found = ["Lengths are planned at their caps: every row is as long as prompt + response."]
    if any(phase.host_bytes for phase in phases):
        found.append(
            "Host RAM counts what is offloaded, loaded or gathered; each process's own few GiB "
            "and the page cache come on top."
        )
    if path(scene) != plan.logits:
        found.append(
            f"{plan.framework} {plan.framework_version} meets the vocabulary by its "
            f"{path(scene)} path, whatever logits says ({plan.logits})."
        )
    if path(scene) in scene.framework.path_notes:
        found.append(scene.framework.path_notes[path(scene)])
    if plan.compile and compile_breaks(plan):
        found.append(
            "compile is counted as having no effect on memory: flash-attn breaks the graph inside "
            "a checkpointed layer."
        )
    if scene.precision == "autocast-bf16":
        found.append(
            "fp32 weights without sharding mean autocast: half-precision copies of the weights "
            "live through each forward and backward."
        )
    return tuple(found)


def _ignored(scene: Scene) -> tuple[str, ...]:
    plan = scene.plan
    usual = fill({field: getattr(plan, field) for field in DECIDING})
    return tuple(
        f"{field} has no effect here: {reason}."
        for field, reason in without_effect(plan).items()
        if getattr(plan, field) != usual.get(field, type(plan).model_fields[field].default)
    )
