"""Soft tokens as mixtures of embeddings: a product with the table, or with k rows of it."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from planner.methods.grade.step_sampling import SoftToken
from planner.steps.stage import Stage


def mixed(embedding: nn.Module, token: SoftToken) -> torch.Tensor:
    """Embedding [rows, 1, hidden] of one soft token, from the policy's table."""
    table = _table(embedding)
    weights = token.weights.to(table.dtype)
    if token.listed is None:
        return _scaled(embedding, (weights @ table).unsqueeze(1))
    return _scaled(embedding, weights.unsqueeze(1) @ F.embedding(token.listed, table))


def dense(embedding: nn.Module, tokens: list[SoftToken]) -> torch.Tensor:
    """Embeddings [rows, tokens, hidden], by a product over the whole vocabulary.

    Top-k weights without a dense scatter become rows of the vocabulary's length here.
    """
    table = _table(embedding)
    weights = torch.stack([token.weights for token in tokens], dim=1).to(table.dtype)
    if tokens[0].listed is not None:
        ids = _ids(tokens)
        whole = weights.new_zeros((*weights.shape[:2], table.shape[0]))
        weights = whole.scatter_(-1, ids, weights)
        del whole
    return _scaled(embedding, weights @ table)


def sparse(stage: Stage, embedding: nn.Module, tokens: list[SoftToken]) -> torch.Tensor:
    """Embeddings [rows, tokens, hidden], by gathering the k entries' rows of the table.

    Weights that were scattered to the whole vocabulary are gathered from there again.
    """
    table = _table(embedding)
    ids = _ids(tokens)
    few = [_few(token) for token in tokens]
    if tokens[0].scattered:
        for place in range(len(few)):
            stage.turning(few[place], place)
    weights = torch.stack(few, dim=1)
    del few
    weights = weights.to(table.dtype)
    return _scaled(embedding, (weights.unsqueeze(-2) @ F.embedding(ids, table)).squeeze(-2))


def _few(token: SoftToken) -> torch.Tensor:
    if token.ids is None:
        raise ValueError("reward_input: 'sparse' needs top_k above 0; set top_k, or use 'dense'.")
    return token.weights.gather(-1, token.ids) if token.scattered else token.weights


def _ids(tokens: list[SoftToken]) -> torch.Tensor:
    return torch.stack([token.ids for token in tokens if token.ids is not None], dim=1)


def _table(embedding: Any) -> torch.Tensor:
    return embedding.weight  # type: ignore[no-any-return]


def _scaled(embedding: Any, mixture: torch.Tensor) -> torch.Tensor:
    """Gemma's embedding multiplies what it looks up."""
    scale = getattr(embedding, "embed_scale", None)
    return mixture if scale is None else mixture * scale.to(mixture.dtype)
