"""GRADE's loss of one micro-batch: the negative reward, and the KL term when there is one."""

from __future__ import annotations

import torch
from torch import nn

from planner.methods.grade.options import GradeOptions
from planner.methods.grade.step_generation import soft_generate
from planner.methods.grade.step_reference import Reference
from planner.methods.grade.step_reward import soft_reward
from planner.methods.grade.step_sampling import Noise
from planner.steps.stage import Stage


def grade_loss(
    stage: Stage,
    policy: nn.Module,
    reference: nn.Module | None,
    reward_model: nn.Module,
    ids: torch.Tensor,
    attention_mask: torch.Tensor | None,
    tokens: int,
    options: GradeOptions,
    *,
    generator: torch.Generator | None = None,
    noise: Noise | None = None,
) -> torch.Tensor:
    """Loss [] = -mean reward + beta * mean KL of prompts [rows, prompt].

    ``reference`` is a frozen causal model; None with a KL term is the policy with its adapters
    disabled. The policy is put in training mode: transformers recomputes layers in that mode
    only, and the original forgets it before its first step.
    """
    policy.train()
    judge = None
    if options.kl != "none":
        judge = Reference(
            policy if reference is None else reference,
            cached=options.reference_cache,
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
            generator=generator,
            noise=noise,
        )
    del judge
    with stage.region(role="reward model"):
        loss = -soft_reward(stage, reward_model, rollout.tokens, options).mean()
    return loss if rollout.kl is None else loss + options.beta * rollout.kl
