"""From a plan to a setup: every decision about a run, made once, without torch and without bytes.

Which models there are, in which dtype each is kept, what is autocast, how state is spread, how
sequences fall into micro-batches. The estimate, the real step, the dry run and the trial read it.
Decisions are shared; bytes are summed by the closed form and by the step independently, which is
what makes one a check of the other. A decision that all share no longer checks itself: each is
held by ``tests/test_setup.py`` against figures read from its framework's source.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from planner.plan import Plan, references
from planner.plan.fields.training import autocasts, stored
from planner.plan.frameworks import framework_named
from planner.plan.methods import method_of
from planner.setup.quantities import Quantities, quantities
from planner.values.model_setup import ModelSetup, Place
from planner.values.sharding import sharding_of
from planner.values.step_phases import (
    CHECKPOINT,
    CRITIC_UPDATE,
    LOAD,
    OLD_LOG_PROBS,
    POLICY_FORWARD,
    REFERENCE_LOG_PROBS,
    REWARD,
    ROLLOUT,
    VALUES,
    WEIGHT_SYNC,
    Moment,
    StepPhase,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """What a plan (or a sweep's grid) decides."""

    plan: Plan
    q: Quantities
    models: tuple[ModelSetup, ...]

    def model(self, role: str) -> ModelSetup | None:
        """The model of a role; None where the plan has none."""
        return next((model for model in self.models if model.role == role), None)

    def __getitem__(self, role: str) -> ModelSetup:
        """The model of a role that the plan has."""
        for model in self.models:
            if model.role == role:
                return model
        raise KeyError(role)

    @property
    def fsdp(self) -> bool:
        """Whether weights are gathered unit by unit by PyTorch's FSDP."""
        return sharding_of(self.plan).fsdp > 0

    @property
    def gathers(self) -> bool:
        """Whether weights are gathered to compute with, under FSDP or DeepSpeed's stage 3."""
        return sharding_of(self.plan).gathers

    @property
    def reduces_once(self) -> bool:
        """Whether FSDP reduces gradients in an update's last micro-batch alone."""
        return self.fsdp and framework_named(self.plan.framework).reduces_once_an_update

    @property
    def offload_stash(self) -> int:
        """Offloaded tensors that a forward still has on the GPU; accelerate's FSDP2 keeps none."""
        by_trainer = sharding_of(self.plan).fsdp != 2
        pinned = framework_named(self.plan.framework).pinned
        return pinned.get("activations", 1) if by_trainer else 1

    @property
    def precision(self) -> str:
        """How trained models' forwards compute, in the activation formulas' words."""
        return "autocast-bf16" if self.models[0].autocast else self.plan.dtype

    @property
    def adapters_in_fp32(self) -> bool:
        """Whether adapters compute as peft keeps them; sharding hands them over otherwise."""
        return self.q.master_bytes == 4 and not (self.fsdp or self.zero_stage)

    @property
    def autocasts_forwards(self) -> bool:
        """Whether forwards of models with fp32 adapters run in an autocast context."""
        asked = self.plan.autocast or framework_named(self.plan.framework).autocasts_adapters
        return self._on_adapters(asked)

    @property
    def autocasts_adapters(self) -> bool:
        """Whether fp32 adapters compute in half precision, as the frozen weights beside them."""
        by_method = method_of(self.plan).autocasts_adapters(self.plan)
        return self.autocasts_forwards or self._on_adapters(by_method)

    def _on_adapters(self, asked: bool) -> bool:
        half = self.plan.dtype != "fp32"
        return asked and half and self.adapters_in_fp32 and self.models[0].adapted

    @property
    def temperature(self) -> float:
        """What the loss divides logits by: 1 where nothing was sampled from them."""
        method = method_of(self.plan)
        return self.plan.temperature if method.engines and method.generates else 1.0

    @property
    def steps_in_backward(self) -> bool:
        """Whether each gradient is used and freed as soon as it is made."""
        return self.plan.optimizer_step == "in-backward"

    @property
    def zero_widens(self) -> bool:
        """Whether ZeRO-1 adds up bf16 gradients in fp32, by DeepSpeed's ``BF16_Optimizer``."""
        bf16, offloads = self.plan.dtype == "bf16", self.plan.offload in ("optimizer", "all")
        return self.zero_stage == 1 and bf16 and self.q.gradient_bytes == 4 and not offloads

    @property
    def zero_stage(self) -> int:
        """DeepSpeed's stage, or 0."""
        return sharding_of(self.plan).zero


def setup_of(plan: Plan) -> Setup:
    """The setup of a plan or grid."""
    return Setup(plan=plan, q=quantities(plan), models=models_of(plan))


def models_of(plan: Plan) -> tuple[ModelSetup, ...]:
    """Every model of a run, in the order in which they are built."""
    made = framework_named(plan.framework).models
    return tuple(
        replace(model, **{"attention": plan.attention, "liger": plan.liger, **made(plan, model)})
        for model in _models(plan)
    )


def _models(plan: Plan) -> Iterator[ModelSetup]:
    method = method_of(plan)
    adapted = plan.finetuning != "full"
    waits: Place = "host" if plan.offload in WEIGHTS_WAIT else "gpu"
    trained: dict[str, Any] = {
        "trained": True,
        "adapted": adapted,
        "stored": stored(plan),
        "autocast": autocasts(plan),
        "waits": waits,
    }
    yield ModelSetup(
        role="policy",
        config="policy",
        frozen_adapter=references.frozen_adapter(plan),
        scores_too=plan.critic == "shared",
        used_in=POLICY_USED_IN | _policy_used_too(plan),
        **trained,
    )
    if plan.critic == "separate":
        yield ModelSetup(
            role="critic",
            config="critic",
            kind="score model",
            used_in=_moments(LOAD, VALUES, CRITIC_UPDATE, CHECKPOINT),
            **trained,
        )
    yield from _reference(plan)
    if plan.reward == "model" and method.rewarded:
        yield ModelSetup(
            role="reward model",
            config="reward",
            kind="score model",
            stored=plan.dtype,
            waits="engine" if framework_named(plan.framework).reward_engine else "gpu",
            used_in=_moments(LOAD, REWARD),
        )
    yield from method.extra_models(plan)


def _moments(*phases: StepPhase) -> frozenset[Moment]:
    return frozenset(phase.moment for phase in phases)


POLICY_USED_IN = _moments(LOAD, OLD_LOG_PROBS, POLICY_FORWARD, WEIGHT_SYNC, CHECKPOINT)
WEIGHTS_WAIT = ("parameters-between-phases", "all-between-phases")


def _policy_used_too(plan: Plan) -> frozenset[Moment]:
    """Moments that need the policy's weights only under some plans."""
    found = (ROLLOUT,) if plan.rollout == "hf" else ()
    if plan.reference in references.ON_POLICY:
        found = (*found, REFERENCE_LOG_PROBS)
    return _moments(*found)


def _reference(plan: Plan) -> Iterator[ModelSetup]:
    """The frozen reference, when it is a model of its own."""
    if references.own_head(plan):
        yield ModelSetup(role="reference", config="policy", kind="head", stored=plan.dtype)
    if not references.compares(plan) or plan.reference not in ("copy", "offloaded"):
        return
    yield ModelSetup(
        role="reference",
        config="policy",
        stored=plan.dtype,
        waits="host" if plan.reference == "offloaded" else "gpu",
        used_in=_moments(REFERENCE_LOG_PROBS),
    )
