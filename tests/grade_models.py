"""Tiny models for GRADE's step, with fixed weights."""

from __future__ import annotations

import copy
import warnings
from typing import Any

import torch
from torch import nn

from planner.methods.grade.fields import GradeFields
from planner.methods.grade.step.loss import grade_loss
from planner.methods.grade.step.tokens import Noise
from planner.steps.models import ScoreModel
from planner.steps.stage import Stage

SIZES: dict[str, Any] = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 128,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
    "use_cache": False,
}
ROWS, PROMPT, TOKENS = 4, 5, 4


def causal(family: str = "qwen3", vocab: int = 64, seed: int = 0, **changes: Any) -> nn.Module:
    import transformers

    torch.manual_seed(seed)
    settings = transformers.AutoConfig.for_model(
        family, **{**SIZES, "vocab_size": vocab, **changes}
    )
    model: nn.Module = transformers.AutoModelForCausalLM.from_config(
        settings, attn_implementation="eager"
    )
    with torch.no_grad():  # transformers starts near zero, where every token is as likely
        for weight in model.parameters():
            if weight.dim() > 1:
                weight.normal_(0, 0.15)
    return model.train()


def reward(vocab: int = 64, seed: int = 7) -> nn.Module:
    model: Any = causal("llama", vocab, seed)
    scored = ScoreModel(model.model, SIZES["hidden_size"], bias=False)
    return scored.eval().requires_grad_(False)


def adapted(model: nn.Module, *, scale: float) -> nn.Module:
    """LoRA on all projections; ``scale`` 0 leaves peft's own start, whose update is zero."""
    import peft

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found: nn.Module = peft.get_peft_model(
            copy.deepcopy(model),
            peft.LoraConfig(r=4, target_modules="all-linear", task_type="CAUSAL_LM"),
        )
    with torch.no_grad():
        for name, weight in found.named_parameters():
            if "lora_B" in name:
                weight.normal_(0, scale) if scale else weight.zero_()
    return found.train()


def prompts(vocab: int = 64, rows: int = ROWS) -> torch.Tensor:
    return torch.randint(3, vocab, (rows, PROMPT), generator=torch.Generator().manual_seed(1))


def padding(rows: int = ROWS) -> torch.Tensor:
    mask = torch.ones(rows, PROMPT, dtype=torch.int64)
    mask[0, :2] = 0
    return mask


class SharedNoise:
    """Gumbel noise that belongs to vocabulary entries, rows and steps, whatever asks for it."""

    def __init__(self, vocab: int, rows: int = ROWS, first: int = 0, seed: int = 3) -> None:
        generator = torch.Generator().manual_seed(seed)
        uniform = torch.rand(TOKENS, ROWS, vocab, generator=generator, dtype=torch.float64)
        self._noise = -torch.log(-torch.log(uniform)).float()[:, first : first + rows]
        self._step = 0

    def __call__(self, scores: torch.Tensor, ids: torch.Tensor | None) -> torch.Tensor:
        here = self._noise[self._step]
        self._step += 1
        return here if ids is None else here.gather(-1, ids)


def switches(**chosen: Any) -> GradeFields:
    """GRADE's switches, by their names in a plan without ``grade_``."""
    return GradeFields(**{f"grade_{name}": value for name, value in chosen.items()})


def captured_mass(logits: torch.Tensor, top_k: int) -> torch.Tensor:
    """Share [rows] of the softmax's probability that the ``top_k`` best entries hold."""
    return torch.softmax(logits.float(), dim=-1).topk(top_k, dim=-1).values.sum(-1)


def run(
    policy: nn.Module,
    options: GradeFields,
    *,
    reference: nn.Module | None = None,
    vocab: int = 64,
    mask: torch.Tensor | None = None,
    noise: Noise | None = None,
    **weighed: float,
) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """Loss and gradients by weight's name of one micro-batch."""
    policy.zero_grad(set_to_none=True)
    loss = grade_loss(
        Stage(),
        policy,
        reference,
        reward(vocab),
        prompts(vocab),
        mask,
        TOKENS,
        options,
        noise=noise or SharedNoise(vocab),
        **weighed,
    )
    loss.backward()
    return loss.detach(), gradients(policy)


def gradients(policy: nn.Module) -> dict[str, torch.Tensor]:
    return {
        name: weight.grad.clone()
        for name, weight in policy.named_parameters()
        if weight.grad is not None
    }


def distance(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> float:
    """Largest difference of two sets of gradients, relative to the largest gradient."""
    assert one.keys() == other.keys() and one
    largest = max(float(gradient.abs().max()) for gradient in one.values())
    assert largest > 0
    return max(float((one[name] - other[name]).abs().max()) for name in one) / largest
