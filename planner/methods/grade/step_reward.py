"""The reward of soft responses: a frozen model reads them as mixtures of its own embeddings."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from planner.methods.grade import step_embedding
from planner.methods.grade.options import GradeOptions
from planner.methods.grade.step_sampling import SoftToken


def soft_reward(
    reward_model: nn.Module, tokens: list[SoftToken], options: GradeOptions
) -> torch.Tensor:
    """Reward [rows] of the responses, with a gradient to the soft tokens.

    As in the original the reward model sees the response alone. It is a score model
    (:class:`planner.steps.models.ScoreModel`) whose weights are frozen, and shares the
    policy's vocabulary; the score of the last token is the reward.
    """
    model: Any = reward_model
    embedding = model.body.get_input_embeddings()
    read = step_embedding.sparse if options.reward_input == "sparse" else step_embedding.dense
    scores: torch.Tensor = model(inputs_embeds=read(embedding, tokens))
    return scores[:, -1].float()
