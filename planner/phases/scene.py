"""A scene: a plan (or a sweep's grid), its facts, its quantities and its roles.

Every phase of every method is built from a scene alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

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
from planner.plan import references
from planner.plan.facts import Facts
from planner.quantities import BYTES_OF_DTYPE, Quantities, quantities

Moment = Literal[
    "load",
    "rollout",
    "old log-probs",
    "reference log-probs",
    "values",
    "reward",
    "critic update",
    "policy update",
    "weight sync",
    "checkpoint",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """What the phases of a method are computed from."""

    plan: Any
    facts: Facts
    q: Quantities
    policy: Role
    reference: Role | None
    critic: Role | None
    reward: Role | None
    memory: dict[tuple[Any, ...], tuple[Term, ...]] = field(default_factory=dict)

    def once(self, key: tuple[Any, ...], make: Callable[[], Iterable[Term]]) -> tuple[Term, ...]:
        """A bundle of terms that several instants share, made at the first asking."""
        if key not in self.memory:
            self.memory[key] = tuple(make())
        return self.memory[key]

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
        return bool(self.plan.sharding in ("fsdp1", "fsdp2"))

    @property
    def zero_stage(self) -> int:
        """DeepSpeed's stage, or 0."""
        sharding: str = self.plan.sharding
        return int(sharding[-1]) if sharding.startswith("zero") else 0

    @property
    def precision(self) -> str:
        """How the forward computes, in the activation formulas' words."""
        plan = self.plan
        autocast = (
            plan.master_dtype == "fp32"
            and plan.finetuning == "full"
            and plan.sharding in ("none", "ddp")
        )
        if autocast and plan.dtype != "fp32":
            return "autocast-bf16"
        return str(plan.dtype)

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
    q = quantities(plan)
    lora = {
        "lora_rank": plan.lora_rank if plan.finetuning != "full" else 0,
        "lora_targets": targets(plan) if plan.finetuning != "full" else (),
    }
    zero = plan.sharding.startswith("zero")
    alike = framework_named(plan.framework).base_in_master_dtype
    frozen_base = plan.finetuning != "full" and not alike
    kept = q.compute_bytes if zero or frozen_base else q.master_bytes
    policy = role("policy", facts.policy, weight_bytes=kept, trained=True, **lora)
    if plan.critic == "shared":
        policy = with_value_head(policy)
    return Scene(
        plan=plan,
        facts=facts,
        q=q,
        policy=policy,
        reference=_reference(plan, facts),
        critic=role(
            "critic", facts.critic, weight_bytes=kept, trained=True, value_head=True, **lora
        )
        if plan.critic == "separate"
        else None,
        reward=role(
            "reward model",
            facts.reward,
            weight_bytes=q.compute_bytes,
            trained=False,
            value_head=True,
        )
        if plan.reward == "model" and plan.method in ("grpo", "ppo", "grade")
        else None,
    )


def _reference(plan: Any, facts: Facts) -> Role | None:
    """The frozen reference, when it is a model of its own.

    Where it is loaded like the policy an fp32 master means an fp32 reference; otherwise
    it is kept in the compute dtype.
    """
    if references.own_head(plan):
        return head_role(facts.policy, BYTES_OF_DTYPE[plan.dtype])
    if not references.compares(plan) or plan.reference not in ("copy", "offloaded"):
        return None
    alike = framework_named(plan.framework).reference_loaded_like_policy
    wide = alike and plan.finetuning == "full" and plan.master_dtype == "fp32"
    dtype = "fp32" if wide else plan.dtype
    return role("reference", facts.policy, weight_bytes=BYTES_OF_DTYPE[dtype], trained=False)
