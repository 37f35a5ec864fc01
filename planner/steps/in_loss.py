"""References whose log-probs the loss makes, micro-batch by micro-batch.

``cached-activations``: the reference's last hidden states come with the batch, and its head
turns them into log-probs. ``dual-output``: one forward of a model with adapters carries two
hidden states from layer to layer, the policy's and, without adapters and without gradient, the
reference's.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from planner.plan import references
from planner.steps import forward, models
from planner.steps.batch import Rows
from planner.steps.run import Run
from planner.steps.stage import DTYPES

CACHE = "reference hidden states"
"""What :func:`keep_hidden` keeps: [sequences, response_tokens, hidden]."""


def keep_hidden(run: Run) -> None:
    """Room for the hidden state that predicts each response token of the step.

    They were computed before training (given responses) or on another host (sampled ones).
    """
    width = int(models.causal(run.policy).config.hidden_size)
    shape = (int(run.q.sequences_per_gpu_step), run.plan.response_tokens, width)
    with run.stage.region(role="reference", category="activations"):
        run.kept[CACHE] = torch.empty(shape, dtype=DTYPES[run.plan.dtype], device=run.stage.device)


def scored(
    run: Run, model: nn.Module, rows: Rows, places: slice
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
    """The policy's hidden states and targets, and the reference's log-probs if made here.

    Args:
        run: the run.
        model: the policy, inside its root's forward.
        rows: a training micro-batch.
        places: which sequences of the step it holds.

    Returns:
        As :func:`planner.steps.forward.scored`, and fp32 [sequences, response_tokens].
    """
    plan = run.plan
    if references.dual(plan):
        with carried(model) as other:
            hidden, targets = forward.scored(model, rows, plan)
        with torch.no_grad():
            base, _ = forward.positions(other.taken(), rows, plan)
            found = run.log_probs(model, base, targets).log_probs
            return hidden, targets, forward.responses(found, rows, plan).to(torch.float32)
    reference = _from_cache(run, model, rows, places) if references.cached(plan) else None
    return *forward.scored(model, rows, plan), reference


def _from_cache(run: Run, model: nn.Module, rows: Rows, places: slice) -> torch.Tensor:
    """Log-probs [sequences, response_tokens] of the cached hidden states.

    Adapters leave the policy's head as the reference's; otherwise that is a model of its own.
    """
    hidden, targets = run.kept[CACHE][places], forward.response_ids(rows, run.plan)

    def on(head: nn.Module) -> torch.Tensor:
        return run.log_probs(head, hidden, targets).log_probs

    with torch.no_grad():
        own = run.models.get("reference")
        found: torch.Tensor = on(model) if own is None else own(on)
        return found.to(torch.float32)


@dataclass(slots=True)
class Carried:
    """The reference's hidden states [rows, tokens, hidden] on their way through the layers."""

    hidden: torch.Tensor | None = None

    def taken(self) -> torch.Tensor:
        """The hidden states; they are not kept here any longer."""
        hidden, self.hidden = self.hidden, None
        assert hidden is not None
        return hidden


@contextmanager
def carried(model: nn.Module) -> Iterator[Carried]:
    """Inside, each layer and the final norm also run without adapters, without gradient.

    Both streams begin with the same embeddings, since no adapter is on those. A layer's second
    run comes before anything else that follows its forward, so that sharded weights are still
    gathered. Recomputation happens outside and runs the policy's layer alone.
    """
    other = Carried()

    def again(module: nn.Module, given: Any, options: Any) -> None:
        first = given[0].detach() if other.hidden is None else other.hidden
        with torch.no_grad():
            found = module.forward(first, *given[1:], **options)
        other.hidden = found[0] if isinstance(found, tuple) else found

    norm = models.final_norm(model)

    def after(module: nn.Module, given: Any, options: Any, _: Any) -> None:
        with nullcontext() if module is norm else models.without_adapters(module):
            again(module, given, options)

    handles = [
        module.register_forward_hook(after, prepend=True, with_kwargs=True)
        for module in (*models.layers(model), norm)
    ]
    try:
        yield other
    finally:
        for handle in handles:
            handle.remove()
