"""What was understood of a plan, and what its figures rest on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from planner.catalog import spot
from planner.catalog.gpu_catalog import CUSTOM
from planner.footprint import Phase
from planner.formulas.activations.coverage import refuses_sdpa
from planner.phases.scene import Scene
from planner.phases.vocabulary import way
from planner.plan import references
from planner.plan.chosen import DEFAULTS
from planner.plan.defaults import fill
from planner.plan.length_words import prompts, words
from planner.plan.lengths import at_caps, lengths_of, prompt_of
from planner.plan.relevance import without_effect
from planner.setup.quantities import pads_rollout
from planner.setup.workload import compile_breaks
from planner.units import read_gib
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


def notes(scene: Scene, phases: tuple[Phase, ...]) -> Iterator[str]:
    """Each a sentence or more."""
    yield from _lengths(scene)
    yield from _times(scene, phases)
    yield from _as_read(scene, phases)
    yield from _first_rollout(phases)
    yield from _gradients(scene)
    yield from _ignored(scene)


def _as_read(scene: Scene, phases: tuple[Phase, ...]) -> Iterator[str]:
    """What the plan was taken for where it can be read in more than one way."""
    plan = scene.plan
    if any(phase.host_bytes for phase in phases):
        yield (
            "Host RAM counts the processes and all tensors that are offloaded, loaded or gathered "
            "there. The page cache is not counted: the kernel frees it when memory runs short."
        )
    here = scene.policy.arch.measured.startswith(spot.PREFIX)
    if here and plan.attention == "eager" and refuses_sdpa(scene.policy.arch):
        yield f"transformers refuses sdpa for {scene.policy.arch.family}: attention is eager."
    if note := way(scene).note:
        yield note
    if references.on_disk(plan):
        yield (
            "Each response of the run is counted once; if prompts repeat, the reference scores "
            "fewer responses before the run."
        )
    for model in scene.setup.models:
        if (asked := model.attention) != plan.attention:
            yield (
                f"{scene.framework.label} always runs the {model.role} with {asked} attention, not "
                f"the plan's ({plan.attention}), and stops if its package is missing."
            )
    if plan.compile and compile_breaks(plan, plan.attention):
        yield (
            "compile changes no memory here: flash-attn breaks the graph inside a checkpointed "
            "layer."
        )
    if scene.precision == "autocast-bf16":
        yield (
            "fp32 weights without sharding mean autocast: half-precision copies of the weights "
            "live through each forward and backward."
        )


def _lengths(scene: Scene) -> Iterator[str]:
    """What time and memory take the lengths for."""
    plan, passes = scene.plan, scene.q.training
    if at_caps(plan):
        yield "Every row is planned at full length: prompt + response at their limits."
        return
    lengths, cap = lengths_of(plan), plan.response_tokens
    yield f"Times assume {words(plan)}, after {prompts(plan)}."
    if lengths.longest < cap:
        yield (
            f"No response of the distribution is longer than {lengths.longest:,} tokens, so memory "
            f"is planned for that length, not for the limit of {cap:,}; a longer one needs more."
        )
    else:
        yield "Memory is planned for the longest row: prompt + response at their limits."
    real = scene.q.sequences_per_gpu_step * (prompt_of(plan) + lengths.mean)
    if plan.batch_shape != "packed":
        beside = "of a GPU's whole rollout" if pads_rollout(plan) else "of its micro-batch"
        yield (
            f"{1 - real / passes.tokens:.0%} of the tokens in training are padding: each row is as "
            f"long as the longest {beside}."
        )
    if passes.imbalance > 1.005:
        yield (
            f"The GPU with the longest rows computes {passes.imbalance - 1:.0%} more than the "
            "average GPU; the other GPUs wait for it."
        )


def _times(scene: Scene, phases: tuple[Phase, ...]) -> Iterator[str]:
    """Why a step's time is not known, where it is not."""
    if all(phase.seconds is not None for phase in phases if phase.per_step):
        return
    gpu, dtype = scene.facts.gpu, scene.plan.dtype
    if gpu.key == CUSTOM:
        yield (
            "Times are not known for a custom GPU. Choose a GPU of the catalog, and set gpu_bytes "
            "if its memory differs."
        )
        return
    lacks = []
    if gpu.flops_per_second(dtype) is None:
        lacks.append(f"FLOPS in {dtype}")
    if gpu.bandwidth_bytes_per_second is None:
        lacks.append("memory bandwidth")
    if gpu.interconnect_bytes_per_second is None and gpu.pcie is None:
        lacks.append("interconnect bandwidth")
    if lacks:
        other = dtype == "bf16" and gpu.fp16_flops_per_second is not None
        fix = "; fp16 is published" if other else ""
        yield f"Times are not known: {gpu.name} has no published {' or '.join(lacks)}{fix}."


def _first_rollout(phases: tuple[Phase, ...]) -> Iterator[str]:
    """Beside what state an engine generates: none in the first step."""
    for phase in phases:
        if phase.kind != ROLLOUT or phase.rank != "trainer":
            continue
        if state := phase.by_category().get("optimizer", 0):
            yield (
                f"The first rollout runs before any optimizer state exists and needs "
                f"{read_gib(phase.device_bytes - state)} GiB; every later rollout needs "
                f"{read_gib(phase.device_bytes)} GiB."
            )


def _gradients(scene: Scene) -> Iterator[str]:
    """What gradients cost where FSDP reduces them once an update."""
    width, q = scene.whole_gradient_bytes, scene.q
    if width and q.micro_batches > 1 and q.shards > 1:
        whole = width * scene.policy.trainable
        yield (
            f"Between micro-batches every GPU keeps {read_gib(whole)} GiB of unsharded gradients: "
            f"under {scene.framework.label}, FSDP reduces them only in the last micro-batch of an "
            "update. With one micro-batch per update a GPU keeps only its shard of the gradients."
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
