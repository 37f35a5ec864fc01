"""GRADE's loss of one micro-batch: the negative reward, and the KL term when there is one."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from planner.methods.grade.fields import METRIC, GradeFields
from planner.methods.grade.step import tokens as mixtures
from planner.methods.grade.step.generation import soft_generate
from planner.methods.grade.step.reference import Reference
from planner.methods.grade.step.tokens import Noise, SoftToken
from planner.steps.stage import Stage

BETA = 0.05
"""The weight of the KL term."""


def grade_loss(
    stage: Stage,
    policy: nn.Module,
    reference: nn.Module | None,
    reward_model: nn.Module,
    ids: torch.Tensor,
    attention_mask: torch.Tensor | None,
    tokens: int,
    options: GradeFields,
    *,
    autocast: bool = False,
    noise: Noise | None = None,
    beta: float = BETA,
) -> torch.Tensor:
    """Loss [] = -mean reward + beta * mean KL of prompts [rows, prompt]; a metric is not in it.

    ``reference`` is a frozen causal model; None with a KL term is the policy with its adapters
    disabled. The policy is put in training mode: transformers recomputes layers in that mode
    only, and the original forgets it before its first step.
    """
    policy.train()
    judge = None
    if options.grade_kl != "none":
        judge = Reference(
            policy if reference is None else reference,
            cached=options.grade_reference_cache,
            adapter_disabled=reference is None,
        )
    with stage.region(role="policy"):
        rollout = soft_generate(
            stage,
            policy,
            ids,
            attention_mask,
            tokens,
            options,
            reference=judge,
            autocast=autocast,
            noise=noise,
        )
    del judge
    with stage.region(role="reward model"):
        loss = -soft_reward(stage, reward_model, rollout.tokens, options).mean()
    if rollout.kl is None or options.grade_kl == METRIC:
        return loss
    return loss + beta * rollout.kl


def soft_reward(
    stage: Stage, reward_model: nn.Module, tokens: list[SoftToken], options: GradeFields
) -> torch.Tensor:
    """Reward [rows] of the responses, with a gradient to the soft tokens.

    As in the original the reward model sees the response alone. It is a score model
    (:class:`planner.steps.models.ScoreModel`) whose weights are frozen, and shares the
    policy's vocabulary; the score of the last token is the reward.
    """
    model: Any = reward_model
    read = mixtures.sparse if options.grade_reward_input == "sparse" else mixtures.dense
    embeds = read(stage, model.body.get_input_embeddings(), tokens)
    scores: torch.Tensor = model(inputs_embeds=embeds)
    return scores[:, -1].float()
