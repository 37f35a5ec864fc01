"""A run: the plan's models and optimizers on a stage, ready for its steps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import nn

from planner.plan import Plan
from planner.setup.quantities import Quantities
from planner.setup.setup import Setup, setup_of
from planner.steps import models, optimizers, shards
from planner.steps.sharding import Wrapper, unsharded
from planner.steps.stage import DTYPES, Stage
from planner.steps.vocabulary import LogProbs, token_log_probs
from planner.values.model_setup import ModelSetup
from planner.values.step_phases import StepPhase


@dataclass(slots=True)
class Run:
    """What a method's step works on. ``models`` and ``optimizers`` are by role."""

    setup: Setup
    stage: Stage
    models: dict[str, nn.Module] = field(default_factory=dict)
    optimizers: dict[str, torch.optim.Optimizer] = field(default_factory=dict)
    kept: dict[str, torch.Tensor] = field(default_factory=dict)

    @property
    def plan(self) -> Plan:
        """The plan that runs."""
        return self.setup.plan

    @property
    def q(self) -> Quantities:
        """Its numbers for one GPU."""
        return self.setup.q

    @property
    def policy(self) -> nn.Module:
        """The policy."""
        return self.models["policy"]

    def values_of(self, hidden: torch.Tensor) -> torch.Tensor:
        """Values [rows, tokens] of hidden states, by the head of a critic that shares the body."""
        root: Any = self.policy
        return root.score(hidden).squeeze(-1)  # type: ignore[no-any-return]

    @property
    def vocab(self) -> int:
        """Entries of the policy's vocabulary."""
        return int(models.causal(self.policy).config.vocab_size)

    @property
    def logits_dtype(self) -> torch.dtype:
        """What the softmax over the vocabulary computes in."""
        return DTYPES[self.plan.logits_dtype]

    def log_probs(
        self,
        model: nn.Module,
        hidden: torch.Tensor,
        targets: torch.Tensor,
        *,
        entropy: bool = False,
        certainty: bool = False,
    ) -> LogProbs:
        """Log-probabilities of targets [rows, tokens] by a model's head, as the plan has it."""
        return token_log_probs(
            self.stage,
            hidden,
            models.head(model),
            targets,
            how=self.plan.logits,
            logits_dtype=self.logits_dtype,
            entropy=entropy,
            certainty=certainty,
            softcap=models.softcap(self.policy),
            temperature=self.setup.temperature,
            chunk_tokens=self.plan.chunk_tokens,
        )

    def autocast(self, role: str = "policy") -> AbstractContextManager[Any]:
        """Half-precision compute on fp32 weights where no sharding engine casts them.

        Nothing otherwise: even a context that is off would keep what one inside it has cached.
        """
        model = self.setup.model(role)
        adapted = model is not None and model.adapted and self.setup.autocasts_forwards
        if model is None or not (model.autocast or adapted):
            return nullcontext()
        return self.stage.autocast(DTYPES[self.plan.dtype], enabled=True)


def build(
    plan: Plan, stage: Stage, configs: Mapping[str, Mapping[str, Any]], wrap: Wrapper = unsharded
) -> Run:
    """All models of a plan on the stage.

    Args:
        plan: what to build.
        stage: where.
        configs: config.json fields by role (``policy``, ``critic``, ``reward``).
        wrap: shards a model; by default leaves it whole.

    Raises:
        ValueError: naming the field, for what the step has no code for.
    """
    setup = setup_of(plan)
    run = Run(setup=setup, stage=stage)
    for model in setup.models:
        with stage.region(role=model.role, category="parameters"):
            attention = stage.attention(model.attention)
            settings = models.settings_of(configs[model.config], attention)
            run.models[model.role] = _placed(run, model, settings, wrap)
    return run


def _placed(run: Run, model: ModelSetup, settings: Any, wrap: Wrapper) -> nn.Module:
    """One model as its role needs it: adapted, sharded, with its optimizer, where it waits."""
    stage, stored = run.stage, DTYPES[model.stored]
    with shards.weightless() if _by_shards(run, wrap) else nullcontext():
        built = _built(run, model, settings)
        if model.trained and model.adapted:
            built = _adapted(run, model, built)
        score = models.value_head(stage, settings, stored) if model.scores_too else None
    if not model.trained:
        root = models.Root(built.eval().requires_grad_(False))
        frozen = _wrapped(run, model.role, root, wrap)
        if model.waits != "gpu":
            stage.move(frozen.parameters(), "host")
        return frozen
    return _trained(run, model.role, built, wrap, score)


def _built(run: Run, model: ModelSetup, settings: Any) -> nn.Module:
    stage, stored = run.stage, DTYPES[model.stored]
    found: nn.Module
    if model.kind == "head":
        return models.head_model(stage, settings, run.policy, stored)
    if model.kind == "score model":
        score = models.score_model(stage, settings, stored, bias=model.trained)
        found, patched = score, score.body
    else:
        found = patched = models.language_model(stage, settings, stored)
    if run.plan.liger:
        stage.liger(patched)
    return found


def _adapted(run: Run, model: ModelSetup, built: nn.Module) -> nn.Module:
    plan, frozen = run.plan, model.frozen_adapter
    if plan.finetuning == "lora":
        return models.adapted(built, plan, frozen=frozen)
    dtype = torch.float32 if plan.master_dtype == "fp32" else DTYPES[plan.dtype]
    adapt = partial(models.adapted, plan=plan, frozen=frozen)
    return run.stage.four_bit(built, models.layers(built), adapt, dtype, DTYPES[plan.dtype])


def _trained(
    run: Run, role: str, model: nn.Module, wrap: Wrapper, score: nn.Module | None = None
) -> nn.Module:
    model.train()
    if run.plan.gradient_checkpointing == "full":
        offloads = run.plan.activation_offload
        models.checkpointed(model, run.stage.saved_on_host if offloads else nullcontext)
    model = _wrapped(run, role, models.Root(model, score), wrap)
    run.optimizers[role] = optimizers.optimizer_of(run.plan, model.parameters())
    run.stage.optimized(role, run.optimizers[role])
    if run.setup.steps_in_backward:
        optimizers.step_in_backward(run.optimizers[role])
    return model


def _wrapped(run: Run, role: str, root: nn.Module, wrap: Wrapper) -> nn.Module:
    run.stage.labelled(role, root)
    model = wrap(run.stage, root, run.plan)
    if _by_shards(run, wrap):
        shards.with_values(model, run.stage.device)
    run.stage.built(role, model)
    return model


def _by_shards(run: Run, wrap: Wrapper) -> bool:
    return run.stage.makes_shards and wrap is not unsharded


@contextmanager
def weights_on_device(run: Run, *roles: str) -> Iterator[None]:
    """Bring the weights of roles that wait on the host to the device, and send them back after."""
    # Those whose weights are in host RAM while another one computes.
    away = [
        model.role for model in run.setup.models if model.role in roles and model.waits != "gpu"
    ]
    for role in away:
        run.stage.move(run.models[role].parameters(), "device")
    yield
    for role in away:
        run.stage.move(run.models[role].parameters(), "host")


@contextmanager
def optimizer_on_device(run: Run, role: str) -> Iterator[None]:
    """Bring a role's optimizer state to the device for its update, and send it back after."""
    away = run.plan.offload in ("optimizer-between-phases", "all-between-phases")
    if away:
        run.stage.move(optimizers.state_tensors(run.optimizers[role]), "device")
    yield
    if away:
        run.stage.move(optimizers.state_tensors(run.optimizers[role]), "host")


def send_away(run: Run) -> None:
    """Before the first step: whatever waits on the host between phases goes there."""
    for model in run.setup.models:
        if model.trained and model.waits != "gpu":
            run.stage.move(run.models[model.role].parameters(), "host")


@contextmanager
def phase(run: Run, kind: StepPhase, *roles: str) -> Iterator[None]:
    """A phase that needs the weights of ``roles`` on the device."""
    with run.stage.phase(kind.name), weights_on_device(run, *roles):
        yield
    between_phases(run)


def between_phases(run: Run) -> None:
    """Return cached memory where the plan does so between phases."""
    if run.plan.empty_cache == "between-phases":
        run.stage.empty_cache()


def end_of_step(run: Run) -> None:
    """Return cached memory where the plan does so once a step."""
    if run.plan.empty_cache == "every-step":
        run.stage.empty_cache()
