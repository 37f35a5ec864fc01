"""A role's forward: hidden states of the scored positions, and their targets."""

from __future__ import annotations

import torch
from torch import nn

from planner.plan import Plan
from planner.plan.loss import way_of
from planner.plan.methods import method_of
from planner.steps import models
from planner.steps.batch import Rows
from planner.values.loss_code import CROSS_ENTROPY


def scored(model: nn.Module, rows: Rows, plan: Plan) -> tuple[torch.Tensor, torch.Tensor]:
    """Hidden states [rows, scored, hidden] and the token each of them has to predict.

    ``full`` scores every position, and so do verl's chunks. Otherwise padded and full rows keep
    their last ``response_tokens + 1`` positions (transformers' ``logits_to_keep``), and a packed
    row its response tokens. A row's last position predicts nothing; its target is the row's first.
    """
    hidden = models.hidden_states(model, rows.inputs())
    return positions(hidden, rows, plan)


def positions(hidden: torch.Tensor, rows: Rows, plan: Plan) -> tuple[torch.Tensor, torch.Tensor]:
    """Of hidden states [rows, tokens, hidden], those that :func:`scored` keeps; their targets."""
    targets = rows.ids.roll(-1, dims=1)
    if method_of(plan).objective == CROSS_ENTROPY or way_of(plan).scores_all:
        return hidden, targets
    if rows.positions is not None:
        places = _packed_places(rows, plan)
        return hidden[:, places], targets[:, places]
    keep = plan.response_tokens + 1
    return hidden[:, -keep:], targets[:, -keep:]


def _packed_places(rows: Rows, plan: Plan) -> torch.Tensor:
    """Places in a packed row that predict response tokens, sequence by sequence.

    The row may end within a sequence; of that one its share of responses counts.
    """
    tokens, taken = rows.ids.shape[1], plan.response_tokens
    length = plan.prompt_tokens + taken
    sequence = torch.arange(-(-tokens * taken // length), device=rows.ids.device)
    places = sequence % taken
    sequence.div_(taken, rounding_mode="floor").mul_(length)
    places.add_(sequence).add_(plan.prompt_tokens - 1)
    return places.clamp_(max=tokens - 1)


def response_ids(rows: Rows, plan: Plan) -> torch.Tensor:
    """The response tokens of the rows: [sequences, response_tokens]."""
    if rows.positions is None:
        return rows.ids[:, -plan.response_tokens :]
    return sequences(rows.ids, rows, plan)[:, plan.prompt_tokens :]


def responses(values: torch.Tensor, rows: Rows, plan: Plan) -> torch.Tensor:
    """Of numbers per position, those that predict response tokens: [sequences, response_tokens].

    ``values`` are of every position of the rows, or of those that :func:`scored` kept.
    """
    taken = plan.response_tokens
    if rows.positions is None:
        return values[:, -taken - 1 : -1]
    if values.shape[1] != rows.ids.shape[1]:
        return values[0, : rows.sequences * taken].view(rows.sequences, taken)
    return sequences(values, rows, plan)[:, plan.prompt_tokens - 1 : -1]


def sequences(values: torch.Tensor, rows: Rows, plan: Plan) -> torch.Tensor:
    """Numbers of every position of a packed row, sequence by sequence: [sequences, tokens]."""
    length = plan.prompt_tokens + plan.response_tokens
    return values[0, : rows.sequences * length].view(rows.sequences, length)
