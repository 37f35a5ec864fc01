"""What a method's real step computes on a tiny model: losses, and gradients before each update."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

import torch
from torch import nn

from accuracy.tiny import CONFIGS
from planner import catalog
from planner.plan import Plan
from planner.plan.methods import methods, part
from planner.steps import batch, scoring
from planner.steps.batch import Rows
from planner.steps.run import Run, build, send_away
from planner.steps.stage import Stage

SEQUENCES, PROMPT, RESPONSE, VOCAB = 4, 9, 7, 199
CONFIG = {
    **CONFIGS["qwen3"],
    "model_type": "qwen3",
    "num_hidden_layers": 3,
    "vocab_size": VOCAB,
}


def plan_of(method: str, **changes: Any) -> Plan:
    """A plan in fp32 over the tiny model, four sequences a step."""
    values: dict[str, Any] = {
        "model": "tiny/model",
        "config": catalog.encode_config(CONFIG),
        "method": method,
        "gpus": 1,
        "sharding": "none",
        "prompts_per_step": SEQUENCES,
        "micro_batch_size": SEQUENCES,
        "prompt_tokens": PROMPT,
        "response_tokens": RESPONSE,
        "batch_shape": "full",
        "dtype": "fp32",
        "attention": "eager",
        "logits": "full",
        "optimizer": "adamw-fused",
        "gradient_checkpointing": "none",
    }
    if methods()[method].engines and methods()[method].generates:
        group = methods()[method].least_responses
        values |= {"gpus": 2, "rollout": "vllm-separate", "rollout_gpus": 1}
        values |= {"prompts_per_step": SEQUENCES // group, "responses_per_prompt": group}
    if method == "dpo":
        values |= {"prompts_per_step": SEQUENCES // 2, "micro_batch_size": SEQUENCES // 2}
    return Plan(**{**values, **changes})


@dataclass
class Results:
    """Losses of all micro-batches, and gradients by role before each of its updates."""

    losses: list[float] = field(default_factory=list)
    gradients: dict[str, list[dict[str, torch.Tensor]]] = field(default_factory=dict)
    run: Run | None = None


class Batch:
    """Sequences of tokens that every pass over the step is given in the same order."""

    def __init__(self) -> None:
        generator = torch.Generator().manual_seed(11)
        shape = (SEQUENCES, PROMPT + RESPONSE)
        self.ids = torch.randint(3, VOCAB, shape, generator=generator)
        self.rewards = torch.randn(SEQUENCES, generator=generator)
        self._at = 0

    def rows(
        self, stage: Stage, plan: Plan, shape: tuple[Any, Any, Any], vocab: int, **_: Any
    ) -> Rows:
        """As the step's own, of the sequences that are next."""
        rows, tokens, sequences = (int(size) for size in shape)
        taken = (self._at + torch.arange(sequences)) % SEQUENCES
        self._at = (self._at + sequences) % SEQUENCES
        ids, mask, positions = self.ids[taken], None, None
        if plan.batch_shape == "padded":
            ids = torch.cat([torch.zeros_like(ids[:, :1]), ids], 1)
            mask = torch.ones_like(ids)
            mask[:, 0] = 0
        if plan.batch_shape == "packed":
            positions = torch.arange(ids.shape[1]).repeat(sequences)[None]
            ids = ids.reshape(1, -1)
        assert ids.shape == (rows, tokens)
        return Rows(ids, mask, positions, sequences)


def results(
    plan: Plan,
    *,
    stage: Stage | None = None,
    steps: int = 1,
    prepare: Callable[[Run], None] | None = None,
    cached: torch.Tensor | None = None,
) -> Results:
    """Run a plan's step on fixed weights, tokens and rewards.

    Args:
        plan: of :func:`plan_of`.
        stage: where.
        steps: how often.
        prepare: is given the run before its first step.
        cached: reference log-probs that were computed beforehand.
    """
    found = Results()
    data = Batch()
    step = part(plan.method, "step", "step")
    with warnings.catch_warnings(), _fed(data, cached):
        warnings.simplefilter("ignore")
        found.run = run = build(
            plan, stage or Stage(), dict.fromkeys(("policy", "critic", "reward"), CONFIG)
        )
        for role, model in run.models.items():
            _fix(model, role)
            model.register_forward_hook(lambda _, __, out: _note(found, out))
        for role, optimizer in run.optimizers.items():
            optimizer.register_step_pre_hook(
                lambda *_, role=role: found.gradients.setdefault(role, []).append(
                    gradients(run.models[role])
                )
            )
        if prepare is not None:
            prepare(run)
        send_away(run)
        for _ in range(steps):
            step(run)
    return found


@contextmanager
def _fed(data: Batch, cached: torch.Tensor | None) -> Iterator[None]:
    """Tokens, rewards and cached log-probs in the place of random ones."""
    rewards, reference = scoring.rewards, scoring.reference_log_probs

    def given_rewards(run: Run) -> None:
        rewards(run)
        if run.plan.reward != "model":
            run.kept["rewards"].copy_(data.rewards)

    def given_reference(run: Run) -> None:
        reference(run)
        if cached is not None:
            run.kept["reference log-probs"].copy_(cached)

    with (
        patch.object(batch, "_rows", data.rows),
        patch.object(scoring, "rewards", given_rewards),
        patch.object(scoring, "reference_log_probs", given_reference),
    ):
        yield


def _note(found: Results, out: Any) -> None:
    if isinstance(out, torch.Tensor) and out.requires_grad and not out.dim():
        found.losses.append(float(out.detach()))


def _fix(model: nn.Module, role: str) -> None:
    """Weights that depend on their name alone; a reference has the policy's base weights."""
    with torch.no_grad():
        for name, weight in model.named_parameters():
            plain = name.replace(".base_layer", "").replace("base_model.model.", "")
            seed = sum(ord(letter) * at for at, letter in enumerate(plain, 1))
            if role in ("critic", "reward model"):
                seed += 1
            if weight.dim() > 1 or name.endswith("bias"):
                weight.normal_(0, 0.15, generator=torch.Generator().manual_seed(seed))


def gradients(model: nn.Module) -> dict[str, torch.Tensor]:
    """Copies of all gradients by name."""
    return {
        name: weight.grad.clone()
        for name, weight in model.named_parameters()
        if weight.grad is not None
    }


def assert_same(one: Results, other: Results, tolerance: float = 1e-5) -> None:
    """The mean loss and every gradient agree, relative to the largest gradient of the role."""
    assert one.losses and one.gradients.keys() == other.gradients.keys()
    mean = [sum(each.losses) / len(each.losses) for each in (one, other)]
    assert abs(mean[0] - mean[1]) <= tolerance * max(0.1, abs(mean[0])), mean
    for role in one.gradients:
        for first, second in zip(one.gradients[role], other.gradients[role], strict=True):
            assert first.keys() == second.keys() and first
            largest = max(float(gradient.abs().max()) for gradient in first.values())
            assert largest > 0
            for name in first:
                apart = float((first[name] - second[name]).abs().max())
                assert apart <= tolerance * largest, (role, name, apart / largest)
