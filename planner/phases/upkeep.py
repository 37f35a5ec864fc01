"""Model loading, engine start and checkpoint saving: short, and often the peak."""

from __future__ import annotations

from planner.footprint import Category, Instant, Term
from planner.formulas.formula import Formula
from planner.numeric import Num
from planner.phases import engine
from planner.phases.baseline import resident
from planner.phases.phase import PhasePlan
from planner.phases.scene import Scene

HOST: Category = "buffers"

LOADED_ON_HOST = Formula(
    "weights read into host RAM",
    "copies * parameters * value_bytes",
    category=HOST,
    source="transformers 5.23 from_pretrained builds on the CPU; accelerate and verl let only "
    "rank 0 read when they shard (cpu_ram_efficient_loading, meta-device init)",
    why="Weights pass through host RAM: one copy for sharded loading, one per process otherwise.",
    ignores="the page cache of the safetensors files",
)

SAVED_ON_HOST = Formula(
    "state gathered to save",
    "copies * parameters * value_bytes",
    category=HOST,
    source="FSDP full state dict with CPU offload on rank 0; other strategies stream tensor by "
    "tensor from the GPU",
    why="Before it is written, the whole model stands once in rank 0's host RAM.",
)


def load(scene: Scene) -> PhasePlan:
    """Every model of the run arrives on the GPU; then a colocated engine starts."""
    base = resident(scene, "load")
    largest = max(scene.roles.values(), key=lambda role: role.parameters)
    sharded = scene.fsdp or scene.zero_stage == 3
    instants = [
        Instant(
            name="weights arrive",
            terms=(
                *(term for term in base if term.role != engine.ROLE),
                largest.largest_tensor(),
                LOADED_ON_HOST(
                    largest.name,
                    host=True,
                    copies=1 if sharded else scene.ranks_per_node,
                    parameters=largest.parameters,
                    value_bytes=largest.weight_bytes,
                ),
            ),
        )
    ]
    if scene.plan.rollout == "vllm-colocated":
        # Trainers that offload between phases have done so before the engine claims its share.
        at_start = resident(scene, "rollout")
        instants.append(
            Instant(
                name="engine starts",
                terms=tuple(term for term in at_start if term.category != "optimizer"),
            )
        )
    return PhasePlan(
        name="load", role="all", instants=tuple(instants), per_step=False, executed=False
    )


def checkpoint(scene: Scene) -> PhasePlan:
    """The policy (or its adapters) is written to disk."""
    policy = scene.policy
    saved: Num = policy.adapters or policy.parameters
    terms: tuple[Term, ...] = (
        *resident(scene, "checkpoint"),
        policy.largest_tensor(),
        SAVED_ON_HOST(
            "policy",
            host=True,
            copies=1 if scene.fsdp else 0,
            parameters=saved,
            value_bytes=policy.weight_bytes,
        ),
    )
    return PhasePlan(
        name="checkpoint",
        role="policy",
        instants=(Instant(name="state gathered", terms=terms),),
        per_step=False,
        executed=False,
    )
