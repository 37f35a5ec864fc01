"""The reward of soft responses: a frozen model reads them as mixtures of its own embeddings."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from planner.methods.grade import step_embedding
from planner.methods.grade.options import GradeOptions
from planner.methods.grade.step_sampling import SoftToken
from planner.steps.stage import Stage


def soft_reward(
    stage: Stage, reward_model: nn.Module, tokens: list[SoftToken], options: GradeOptions
) -> torch.Tensor:
    """Reward [rows] of the responses, with a gradient to the soft tokens.

    As in the original the reward model sees the response alone. It is a score model
    (:class:`planner.steps.models.ScoreModel`) whose weights are frozen, and shares the
    policy's vocabulary; the score of the last token is the reward.
    """
    model: Any = reward_model
    embedding = model.body.get_input_embeddings()
    if options.reward_input == "sparse":
        embeds = step_embedding.sparse(stage, embedding, tokens)
    else:
        embeds = step_embedding.dense(embedding, tokens)
    scores: torch.Tensor = model(inputs_embeds=embeds)
    return scores[:, -1].float()
