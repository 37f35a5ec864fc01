"""A scene: a plan (or a sweep's grid), its facts, its quantities and its roles.

Every phase of every method is built from a scene alone.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, Literal, ParamSpec, Protocol, TypeVar

from planner.catalog.architecture import Architecture
from planner.formulas import state
from planner.formulas.activations.workload import Workload
from planner.numeric import Num, minimum
from planner.phases.memory import Memory, key_of
from planner.phases.role import Part, Role, head_role, role, with_value_head
from planner.plan import Plan
from planner.plan.facts import Facts
from planner.plan.frameworks import framework_named
from planner.setup import workload
from planner.setup.quantities import Quantities
from planner.setup.setup import Setup, setup_of
from planner.term import Term
from planner.values.dtypes import BYTES
from planner.values.framework import Framework
from planner.values.model_setup import ModelSetup
from planner.values.sharding import sharding_of

Kept = dict[tuple[Hashable, ...], Any]
UNMADE = object()
"""What a scene's memory has of a key that nobody has asked for."""


class Remembering(Protocol):
    """A scene, or what is made for one: it keeps what several instants ask for."""

    @property
    def memory(self) -> Kept | Memory:
        """What was asked for."""


Owner = TypeVar("Owner", bound=Remembering)
Of = ParamSpec("Of")
Found = TypeVar("Found")


def once(
    make: Callable[Concatenate[Owner, Of], Found],
) -> Callable[Concatenate[Owner, Of], Found]:
    """What several instants ask for, made when its owner is first asked for it."""

    @wraps(make)
    def kept(owner: Owner, /, *of: Of.args, **how: Of.kwargs) -> Found:
        key, memory = ((make, of, *how.items()) if how else (make, of)), owner.memory
        if type(memory) is dict:
            # The key is a tuple of tuples, hashed anew at every look.
            found = memory.get(key, UNMADE)
            if found is UNMADE:
                found = memory[key] = make(owner, *of, **how)
            return found  # type: ignore[no-any-return]
        # What is made for a scene may have been given more than the scene.
        shares = type(owner) is Scene
        return memory.ask(key, lambda: make(owner, *of, **how), shares=shares)  # type: ignore[no-any-return, union-attr]

    return kept


def remembered(
    make: Callable[Concatenate[Scene, Of], Found],
) -> Callable[Concatenate[Scene, Of], Found]:
    """What combinations of a sweep may have in common, bundles given to it being the same ones.

    A single plan's scene asks for it once anyway.
    """

    @wraps(make)
    def kept(scene: Scene, /, *of: Of.args, **how: Of.kwargs) -> Found:
        memory = scene.memory
        if not isinstance(memory, Memory):
            return make(scene, *of, **how)
        key = (make, *map(key_of, of), *((name, key_of(value)) for name, value in how.items()))
        return memory.ask(key, lambda: make(scene, *of, **how))  # type: ignore[no-any-return]

    return kept


def shared(
    make: Callable[Concatenate[Owner, Of], Iterable[Term]],
) -> Callable[Concatenate[Owner, Of], tuple[Term, ...]]:
    """A bundle of terms that several instants share, made :func:`once`."""

    @wraps(make)
    def bundle(owner: Owner, /, *of: Of.args, **how: Of.kwargs) -> tuple[Term, ...]:
        return tuple(make(owner, *of, **how))

    return once(bundle)


if TYPE_CHECKING:
    settled = property
else:

    class settled:
        """A property that is made once, but for scenes that are seen to be read: each time."""

        def __init__(self, make):
            self.make, self.__doc__ = make, make.__doc__

        def __get__(self, scene, owner=None):
            if scene is None:
                return self
            found = self.make(scene)
            if type(scene.memory) is not Memory:
                scene.__dict__[self.make.__name__] = found
            return found


@dataclass(frozen=True, kw_only=True)
class Scene:
    """What the phases of a method are computed from."""

    setup: Setup
    facts: Facts
    roles: Mapping[str, Role]
    """Every model of the run by its role, in the order in which they are built."""
    memory: Kept | Memory = field(default_factory=dict)
    """What several instants ask for; see :func:`once`."""

    @settled
    def plan(self) -> Plan:
        """The plan, or a sweep's grid."""
        return self.setup.plan

    @settled
    def q(self) -> Quantities:
        """Its numbers for one GPU."""
        return self.setup.q

    @settled
    def policy(self) -> Role:
        """The policy."""
        return self.roles["policy"]

    @settled
    def served(self) -> Role:
        """The policy as an engine has it: whole."""
        return role_of(self.plan, self.facts, self.setup["policy"], self.facts.served)

    @property
    def reference(self) -> Role | None:
        """The frozen reference, when it is a model of its own."""
        return self.roles.get("reference")

    @property
    def critic(self) -> Role | None:
        """The critic, when it is a model of its own."""
        return self.roles.get("critic")

    @property
    def reward(self) -> Role | None:
        """The reward model."""
        return self.roles.get("reward model")

    @settled
    def whole_gradient_bytes(self) -> Num:
        """Bytes of a gradient that waits whole for an update's one reduction; 0: none does.

        FSDP2 keeps it in the reduction's dtype, FSDP1 in that of the weight it computed with.
        """
        if not self.setup.reduces_once:
            return 0
        return self.q.reduce_bytes if sharding_of(self.plan).fsdp == 2 else self.q.compute_bytes

    @settled
    def keeps_gradients(self) -> bool:
        """Whether gradients wait for the update on the GPU, once they are made and reduced."""
        return self.plan.offload != "all" and not self.setup.steps_in_backward

    @settled
    def framework(self) -> Framework:
        """What the plan's framework does."""
        return framework_named(self.plan.framework)

    @settled
    def ranks_per_node(self) -> Num:
        """Our training processes on one node."""
        return minimum(self.q.training_gpus, self.plan.gpus_per_node)

    @settled
    def fsdp(self) -> bool:
        """Whether weights are gathered unit by unit by PyTorch's FSDP."""
        return self.setup.fsdp

    def stays_whole(self, of: Role) -> bool:
        """Whether every GPU has all of a role's weights though FSDP shards the others'."""
        model = self.setup[of.name]
        return self.fsdp and (model.spread == "not" or model.waits == "engine")

    def spreads(self, of: Role) -> bool:
        """Whether FSDP shards a role's weights, and gathers them unit by unit."""
        return self.fsdp and not self.stays_whole(of)

    @settled
    def zero_stage(self) -> int:
        """DeepSpeed's stage, or 0."""
        return self.setup.zero_stage

    @settled
    def gathers(self) -> bool:
        """Whether weights are gathered to compute with, under FSDP or DeepSpeed's stage 3."""
        return self.setup.gathers

    @settled
    def precision(self) -> str:
        """How trained models' forwards compute, in the activation formulas' words."""
        return self.setup.precision

    @settled
    def passes_on(self) -> Num:
        """1 where a weight's new gradient is gone as soon as it is made, 0 where it waits.

        It is added to that of an earlier micro-batch, or used by an optimizer in the backward, or
        taken over by ZeRO's bucket.
        """
        taken = self.setup.steps_in_backward or self.zero_stage > 1
        return 1 if taken else minimum(self.q.micro_batches - 1, 1)

    def offloaded(self, role: str, label: str, rank_bytes: Num) -> Term:
        """What all local processes keep in host RAM, each ``rank_bytes`` of it."""
        return state.LOCAL_RANKS_OFFLOAD(
            role,
            label=label,
            host=True,
            ranks_per_node=self.ranks_per_node,
            rank_bytes=rank_bytes,
        )

    def shards_of(self, part: Literal["weights", "gradients", "optimizer"]) -> Num:
        """Over how many GPUs a part of the training state is spread."""
        stage = self.zero_stage
        sharded = self.fsdp or stage >= {"optimizer": 1, "gradients": 2, "weights": 3}[part]
        return self.q.shards if sharded else 1

    @property
    def pads(self) -> bool:
        """Whether weights are split along their first dimension, as FSDP2 does.

        That may be whole experts, or the rank of an adapter: where it does not divide
        evenly, as where it is smaller than the shards, the first ranks hold more than
        their part, and what is gathered or reduced is padded for all.
        """
        return bool(sharding_of(self.plan).fsdp == 2)

    def sharded(self, of: Role) -> Num:
        """Elements of a role's weights as they are split."""
        return of.parameters + self.padding(of, "weights")

    def sharded_trainable(self, of: Role) -> Num:
        """The same of what is trained."""
        if not of.trained:
            return of.trainable
        return of.trainable + self.padding(of, "adapters" if of.adapters else "weights")

    @once
    def padding(self, of: Role, part: Part) -> Num:
        """Elements that are added to a part of a role so that all ranks hold equally many rows."""
        return of.padding(part, self.q.shards) if self.pads else 0

    @once
    def training_workload(self, of: Role) -> Workload:
        """One training forward of a role on one GPU."""
        return workload.training_workload(self.setup, self.setup[of.name], self.facts.gpu)

    @once
    def inference_workload(self, of: Role) -> Workload:
        """One forward without gradient of a role on one GPU."""
        model, gpu = self.setup[of.name], self.facts.gpu
        return workload.inference_workload(self.setup, model, gpu, disabled=of.disabled)

    @once
    def embedding_bytes(self, of: Role) -> int:
        """Bytes of a number of embeddings and norms: autocast leaves fp32 weights' as they are."""
        precision = workload.precision_of(self.setup, self.setup[of.name])
        return 4 if precision == "autocast-bf16" else self.q.compute_bytes

    @once
    def normed_bytes(self, of: Role) -> int:
        """Bytes of a number that the final norm answers: autocast runs layer norms in fp32."""
        autocast = self.setup[of.name].adapted and self.setup.autocasts_forwards
        wide = autocast and of.arch.norm == "layernorm"
        return 4 if wide else self.embedding_bytes(of)


def scene_of(plan: Plan, facts: Facts) -> Scene:
    """The scene of a plan or grid."""
    setup = setup_of(plan)
    return Scene(
        setup=setup,
        facts=facts,
        roles={model.role: role_of(plan, facts, model) for model in setup.models},
    )


def role_of(
    plan: Plan, facts: Facts, model: ModelSetup, whole: Architecture | None = None
) -> Role:
    """The role of one of its models, of the layers that a GPU computes or of a whole model's."""
    arch: Architecture = whole or getattr(facts, model.config)
    stored_bytes = BYTES[model.stored]
    if model.kind == "head":
        return head_role(arch, stored_bytes)
    found = role(
        model.role,
        arch,
        weight_bytes=stored_bytes,
        trained=model.trained,
        value_head=model.kind == "score model",
        lora_rank=plan.lora_rank if model.adapted else 0,
        lora_targets=workload.targets(plan) if model.adapted else (),
        second_adapter=model.frozen_adapter,
    )
    return with_value_head(found) if model.scores_too else found
