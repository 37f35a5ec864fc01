"""Passes without gradient: old and reference log-probs, values, rewards."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from types import MappingProxyType

import torch
from torch import nn

from planner.plan import references
from planner.steps import forward, in_loss, models
from planner.steps.batch import Rows, scoring_rows
from planner.steps.objectives import KL_WEIGHT, group_advantages
from planner.steps.run import Run, phase
from planner.steps.sharding import reshard
from planner.values.step_phases import OLD_LOG_PROBS, REFERENCE_LOG_PROBS, REWARD, VALUES, StepPhase

FP32 = torch.float32


Also = Callable[[Run, nn.Module, torch.Tensor], torch.Tensor]
"""Numbers [rows, scored positions] that a forward gives besides, from its hidden states."""

NOTHING: Mapping[str, Also] = MappingProxyType({})

Advantages = Callable[[torch.Tensor, int, int], torch.Tensor]
"""Of rewards [sequences], the size of a group and a response's tokens: [sequences, tokens]."""


def old_log_probs(
    run: Run, also: Mapping[str, Also] = NOTHING, *, certainty: str = ""
) -> None:
    """Keep the policy's log-probs of the sampled tokens, and what else its forward gives.

    ``certainty`` is the name to keep self-certainty under, where the fused head gives it too.
    """
    names = (OLD_LOG_PROBS.name, *((certainty,) if certainty else ()), *also)
    score = _log_probs_of(run, tuple(also.values()), certainty=bool(certainty))
    with phase(run, OLD_LOG_PROBS, "policy"):
        _score(run, "policy", names, score)


def reference_log_probs(run: Run) -> None:
    """Keep the reference's log-probs, from a model of its own or the policy's base."""
    plan = run.plan
    if plan.kl == "none":
        return
    if references.in_loss(plan):
        if references.cached(plan):
            in_loss.keep_hidden(run)
        return
    own = references.on_policy(plan)
    if not own and plan.reference not in ("copy", "offloaded"):
        # Cached beforehand: they come with the batch.
        _keep(run, REFERENCE_LOG_PROBS.name)
        return
    form = plan.reference if own else ""
    log_probs_of(run, "policy" if own else "reference", REFERENCE_LOG_PROBS, form=form)


def log_probs_of(run: Run, role: str, kind: StepPhase, *, form: str = "") -> None:
    """Keep a role's log-probs of the sampled tokens under its phase's name.

    ``form`` says which reference the policy's model answers for.
    """
    with phase(run, kind, role):
        _score(run, role, (kind.name,), _log_probs_of(run), form=form)


def values(run: Run) -> None:
    """Keep the critic's value of every response token."""
    with phase(run, VALUES, "critic"):
        _score(run, "critic", (VALUES.name,), _scores)


def rewards(run: Run) -> None:
    """Keep one reward per sequence: of a reward model, or as a rule or another host gives it."""
    run.kept["rewards"] = torch.zeros(int(run.q.sequences_per_gpu_step), device=run.stage.device)
    if "reward model" not in run.models:
        return
    with phase(run, REWARD):
        for rows, places in micro_batches(run):
            with torch.no_grad(), run.stage.region(role="reward model"):
                found = run.models["reward model"](lambda model, rows=rows: _scores(model, rows))
            scores = found[0]
            if rows.positions is not None:
                scores = forward.sequences(scores, rows, run.plan)
            run.kept["rewards"][places] = scores[:, -1].float()
            del found, scores


Score = Callable[[nn.Module, Rows], tuple[torch.Tensor, ...]]


def _score(
    run: Run, role: str, names: tuple[str, ...], score: Score, *, form: str = ""
) -> None:
    plan = run.plan
    _keep(run, *names)
    for rows, places in micro_batches(run):
        with torch.no_grad(), run.autocast(role), run.stage.region(role=role):
            found = run.models[role](lambda model, rows=rows: _on(model, rows, score, form))
            for name, numbers in zip(names, found, strict=True):
                run.kept[name][places] = forward.responses(numbers, rows, plan).to(FP32)
            del found, numbers
    reshard(run.models[role])


def _keep(run: Run, *names: str) -> None:
    """Room for a number per response token of the step; 0 where a trial leaves batches out."""
    shape = (int(run.q.sequences_per_gpu_step), run.plan.response_tokens)
    with run.stage.region(role="policy", category="logits"):
        for name in names:
            run.kept[name] = torch.zeros(shape, dtype=FP32, device=run.stage.device)


def keep_group_advantages(
    run: Run, rewards: torch.Tensor, advantages: Advantages = group_advantages
) -> None:
    """Advantages of this GPU's sequences [sequences, response_tokens] from its rewards.

    A group may be spread over GPUs; then the rewards of all of them are gathered first.
    ``advantages`` is asked about whole groups.
    """
    plan, count = run.plan, rewards.shape[0]
    first = 0
    if plan.kl == "reward":
        rewards = rewards - kl_penalties(run).sum(1)
    if count % plan.responses_per_prompt:
        rewards = run.stage.gathered(rewards, int(run.q.training_gpus))
        first = run.stage.rank * count
        if left := -rewards.shape[0] % plan.responses_per_prompt:  # a batch that was filled up
            rewards = torch.cat((rewards, rewards[:left]))
    found = advantages(rewards, plan.responses_per_prompt, plan.response_tokens)
    with run.stage.region(role="policy", category="logits"):
        run.kept["advantages"] = found[first : first + count].contiguous()


def kl_penalties(run: Run) -> torch.Tensor:
    """What each token [sequences, response_tokens] costs in reward for leaving the reference."""
    return KL_WEIGHT * (run.kept[OLD_LOG_PROBS.name] - run.kept[REFERENCE_LOG_PROBS.name])


def _on(model: nn.Module, rows: Rows, score: Score, form: str) -> tuple[torch.Tensor, ...]:
    with models.as_reference(model, form) if form else nullcontext():
        return score(model, rows)


def micro_batches(run: Run) -> Iterator[tuple[Rows, slice]]:
    """Rows of each forward without gradient, and which sequences of the step they hold."""
    per_step, size = int(run.q.sequences_per_gpu_step), int(run.q.logprob_sequences)
    for index in run.stage.passes(-(-per_step // size), 2):
        rows = scoring_rows(run.stage, run.plan, run.q, run.vocab)
        first = min(index * size, per_step - size)
        yield rows, slice(first, first + size)


def _log_probs_of(run: Run, also: tuple[Also, ...] = (), *, certainty: bool = False) -> Score:
    def score(model: nn.Module, rows: Rows) -> tuple[torch.Tensor, ...]:
        hidden, targets = forward.scored(model, rows, run.plan)
        found = run.log_probs(model, hidden, targets, certainty=certainty)
        taken = found.log_probs
        sure = () if found.certainty is None else (found.certainty,)
        del found
        return (taken, *sure, *(more(run, model, hidden) for more in also))

    return score


def _scores(model: nn.Module, rows: Rows) -> tuple[torch.Tensor, ...]:
    return (model(**rows.inputs()),)
