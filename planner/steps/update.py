"""The update of a trained role: micro-batches forward and backward, then the optimizer."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import nn

from planner.steps import forward, in_loss
from planner.steps.batch import Rows, training_rows
from planner.steps.objectives import policy_loss
from planner.steps.run import Run, between_phases, optimizer_on_device, weights_on_device
from planner.steps.sharding import reduces
from planner.values import step_phases
from planner.values.step_phases import StepPhase

Loss = Callable[[Run, Rows, slice], torch.Tensor]
"""Loss [] of a micro-batch; the slice says which sequences of the step it holds."""
Three = tuple[StepPhase, StepPhase, StepPhase]
"""Of forward, backward and optimizer step."""


def update_policy(run: Run, loss: Loss) -> None:
    """Policy forward, policy backward, optimizer step: once per update of the step.

    An optimizer that steps in the backward has no phase of its own.
    """
    _updates(run, "policy", loss, step_phases.UPDATE)


def update_critic(run: Run, loss: Loss) -> None:
    """The critic's forward, backward and optimizer step, one phase."""
    _updates(run, "critic", loss, (step_phases.CRITIC_UPDATE,) * 3)


def _updates(run: Run, role: str, loss: Loss, phases: Three) -> None:
    for update in run.stage.passes(int(run.q.updates_per_step), 1):
        _update(run, role, loss, phases, update)
    between_phases(run)


def _update(run: Run, role: str, loss: Loss, phases: Three, update: int) -> None:
    stage, optimizer = run.stage, run.optimizers[role]
    with (
        weights_on_device(run, role),
        optimizer_on_device(run, role),
        stage.region(role=role),
    ):
        for rows, places, last in _micro_batches(run, update):
            reduces(run.models[role], last or not run.setup.reduces_once)
            with stage.phase(phases[0].name), run.autocast():
                value = loss(run, rows, places)
            with stage.phase(phases[1].name):
                (value / int(run.q.micro_batches)).backward()  # type: ignore[no-untyped-call]
            del value, rows
        if run.setup.steps_in_backward:
            return
        with stage.phase(phases[2].name):
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)


def _micro_batches(run: Run, update: int) -> Iterator[tuple[Rows, slice, bool]]:
    """Each micro-batch, its place among the step's sequences, and whether it is the last."""
    size, start = int(run.q.micro_sequences), update * int(run.q.sequences_per_gpu_update)
    passes = run.stage.passes(int(run.q.micro_batches), 2)
    for index in passes:
        rows = training_rows(run.stage, run.plan, run.q, run.vocab)
        first = min(start + index * size, int(run.q.sequences_per_gpu_step) - size)
        yield rows, slice(first, first + size), index == passes[-1]


def clipped_policy_loss(run: Run, rows: Rows, places: slice) -> torch.Tensor:
    """GRPO's and PPO's loss of a micro-batch against what earlier phases kept."""
    return run.policy(lambda model: _clipped(run, model, rows, places))  # type: ignore[no-any-return]


def _clipped(run: Run, model: nn.Module, rows: Rows, places: slice) -> torch.Tensor:
    hidden, targets, reference = in_loss.scored(run, model, rows, places)
    return against_kept(run, model, rows, places, hidden, targets, reference)


def against_kept(
    run: Run,
    model: nn.Module,
    rows: Rows,
    places: slice,
    hidden: torch.Tensor,
    targets: torch.Tensor,
    reference: torch.Tensor | None,
) -> torch.Tensor:
    """The clipped loss [] of a micro-batch's hidden states against what earlier phases kept."""
    plan = run.plan
    if reference is None and plan.kl == "loss":
        reference = run.kept[step_phases.REFERENCE_LOG_PROBS.name][places]
    found = run.log_probs(model, hidden, targets, entropy=plan.entropy)
    entropy = found.entropy
    return policy_loss(
        forward.responses(found.log_probs, rows, plan),
        run.kept[step_phases.OLD_LOG_PROBS.name][places],
        run.kept["advantages"][places],
        reference,
        None if entropy is None else forward.responses(entropy, rows, plan),
    )
