"""A scene: a plan (or a sweep's grid), its facts, its quantities and its roles.

Every phase of every method is built from a scene alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from planner.catalog.architecture import Architecture
from planner.catalog.cudnn import CUDNN_OF_TORCH, comes_first
from planner.catalog.multiprocessors import multiprocessors
from planner.footprint import Term
from planner.formulas.activations import Workload
from planner.formulas.activations.four_bit import refuse_other_weights
from planner.formulas.activations.liger import refuse_without_kernels
from planner.frameworks import framework_named
from planner.frameworks.framework import Framework
from planner.numeric import Num, minimum
from planner.phases.head_role import head_role, with_value_head
from planner.phases.role import Role, role
from planner.plan.facts import Facts
from planner.quantities import BYTES_OF_DTYPE, Quantities
from planner.setup import ModelSetup, Setup, setup_of

if TYPE_CHECKING:
    from planner.plan import Plan

Moment = str
"""A stretch of the step in which the same models are needed: most are phases' names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """What the phases of a method are computed from."""

    setup: Setup
    facts: Facts
    roles: dict[str, Role]
    """Every model of the run by its role, in the order in which they are built."""
    memory: dict[tuple[Any, ...], tuple[Term, ...]] = field(default_factory=dict)

    def once(self, key: tuple[Any, ...], make: Callable[[], Iterable[Term]]) -> tuple[Term, ...]:
        """A bundle of terms that several instants share, made at the first asking."""
        if key not in self.memory:
            self.memory[key] = tuple(make())
        return self.memory[key]

    @property
    def plan(self) -> Plan:
        """The plan, or a sweep's grid."""
        return self.setup.plan

    @property
    def q(self) -> Quantities:
        """Its numbers for one GPU."""
        return self.setup.q

    @property
    def policy(self) -> Role:
        """The policy."""
        return self.roles["policy"]

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

    @property
    def framework(self) -> Framework:
        """What the plan's framework does."""
        return framework_named(self.plan.framework)

    @property
    def ranks_per_node(self) -> Num:
        """Our training processes on one node."""
        return minimum(self.q.training_gpus, self.plan.gpus_per_node)

    @property
    def fsdp(self) -> bool:
        """Whether weights are gathered unit by unit by PyTorch's FSDP."""
        return self.setup.fsdp

    @property
    def zero_stage(self) -> int:
        """DeepSpeed's stage, or 0."""
        return self.setup.zero_stage

    @property
    def precision(self) -> str:
        """How trained models' forwards compute, in the activation formulas' words."""
        return "autocast-bf16" if self.setup.models[0].autocast else self.plan.dtype

    @property
    def cudnn(self) -> bool:
        """Whether the card asks cuDNN for attention first; no where its version is not known."""
        version = CUDNN_OF_TORCH.get(self.plan.torch_version, 0)
        return comes_first(self.facts.gpu.compute_capability, version)

    @property
    def adapters_in_fp32(self) -> bool:
        """Whether adapters compute as peft keeps them; sharding hands them over otherwise."""
        return bool(self.q.master_bytes == 4 and not (self.fsdp or self.zero_stage))

    @property
    def compile_breaks(self) -> bool:
        """Whether compiled layers run eagerly after all.

        A flash-attn kernel breaks the graph, and inside a checkpoint a broken graph is
        not compiled at all: published compiled runs with both need what eager ones do
        (docs/accuracy.md, prime-rl).
        """
        plan = self.plan
        return bool(plan.attention == "flash" and plan.gradient_checkpointing == "full")

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
        return bool(self.plan.sharding == "fsdp2")

    def sharded(self, of: Role) -> Num:
        """Elements of a role's weights as they are split."""
        return of.parameters + (of.padding(self.q.shards) if self.pads else 0)

    def sharded_trainable(self, of: Role) -> Num:
        """The same of what is trained."""
        if not self.pads or not of.trained:
            return of.trainable
        padding = of.adapter_padding if of.adapters else of.padding
        return of.trainable + padding(self.q.shards)

    def training_workload(self, of: Role) -> Workload:
        """One training forward of a role on one GPU."""
        return self._workload(of, self.q.micro_rows, self.q.micro_row_tokens, "train")

    def inference_workload(self, of: Role) -> Workload:
        """One forward without gradient of a role on one GPU."""
        return self._workload(of, self.q.logprob_rows, self.q.logprob_row_tokens, "none")

    def embedding_bytes(self, of: Role) -> int:
        """Bytes of a number of embeddings and norms: autocast leaves fp32 weights' as they are."""
        return 4 if self._precision_of(of) == "autocast-bf16" else self.q.compute_bytes

    def _precision_of(self, of: Role) -> str:
        """Frozen models in the compute dtype run outside of autocast."""
        autocasts = self.precision == "autocast-bf16"
        if autocasts and not of.trained and of.weight_bytes == self.q.compute_bytes:
            return str(self.plan.dtype)
        return self.precision

    def _workload(self, of: Role, rows: Num, tokens: Num, how: str) -> Workload:
        plan = self.plan
        adapters = of.adapters > 0 and not of.disabled
        return Workload(
            sequences=rows,
            tokens=tokens,
            batch_shape=plan.batch_shape,
            attention=plan.attention,
            precision=self._precision_of(of),
            trains="none" if how == "none" else _what_trains(of),
            lora_targets=targets(plan) if adapters else (),
            lora_rank=plan.lora_rank if adapters else 0,
            fp32_adapters=self.adapters_in_fp32,
            casts_inputs=self.fsdp,
            compiled=plan.compile and not self.compile_breaks,
            four_bit=four_bit(plan, of),
            cudnn=self.cudnn,
            multiprocessors=liger_multiprocessors(plan, of),
        )


def four_bit(plan: Any, of: Role) -> bool:
    """Whether a role's projections are kept in 4 bits: those that adapters train.

    Raises:
        ValueError: for a model whose 4-bit layers were not derived.
    """
    if plan.finetuning != "qlora" or not of.adapters:
        return False
    refuse_other_weights(of.arch)
    return True


def liger_multiprocessors(plan: Any, of: Role) -> int:
    """Multiprocessors that Liger's kernels run on; 0 where a role goes without them.

    Raises:
        ValueError: for a model or a card of which that is not known.
    """
    if not plan.liger:
        return 0
    if framework_named(plan.framework).liger_patches_trained_only and not of.trained:
        return 0
    refuse_without_kernels(of.arch)
    return multiprocessors(plan.gpu)


def _what_trains(of: Role) -> str:
    """What a training forward's gradients reach: a frozen role passes them to its inputs."""
    if of.adapters:
        return "lora"
    return "all" if of.trained else "inputs"


def targets(plan: Any) -> tuple[str, ...]:
    """The plan's adapter targets as names."""
    return tuple(name.strip() for name in plan.lora_targets.split(",") if name.strip())


def scene_of(plan: Any, facts: Facts) -> Scene:
    """The scene of a plan or grid."""
    setup = setup_of(plan)
    return Scene(
        setup=setup,
        facts=facts,
        roles={model.role: _role(plan, facts, model) for model in setup.models},
    )


def _role(plan: Plan, facts: Facts, model: ModelSetup) -> Role:
    arch: Architecture = getattr(facts, model.config)
    stored_bytes = BYTES_OF_DTYPE[model.stored]
    if model.kind == "head":
        return head_role(arch, stored_bytes)
    found = role(
        model.role,
        arch,
        weight_bytes=stored_bytes,
        trained=model.trained,
        value_head=model.kind == "score model",
        lora_rank=plan.lora_rank if model.adapted else 0,
        lora_targets=targets(plan) if model.adapted else (),
    )
    return with_value_head(found) if model.scores_too else found
