"""PPO's critic as a second head on the policy's body: values, loss and gradients by hand."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from planner.steps import models
from planner.steps.objectives import KL_WEIGHT, VALUE_WEIGHT
from planner.steps.run import Run
from planner.steps.stage import Stage
from step_results import PROMPT, Batch, Results, assert_same, plan_of, results

torch.set_num_threads(1)

SHARED: dict[str, Any] = {"critic": "shared", "kl": "loss"}
LORA: dict[str, Any] = {"finetuning": "lora", "lora_rank": 4}


def values_and_loss(run: Run) -> tuple[torch.Tensor, torch.Tensor]:
    """The step's values, and its loss over all sequences, from one forward of the bare model."""
    ids, root, kept = Batch().ids, run.policy, run.kept
    assert isinstance(root, models.Root) and root.score is not None
    hidden = models.body(root)(input_ids=ids, use_cache=False).last_hidden_state
    logits = models.causal(root).lm_head(hidden)[:, PROMPT - 1 : -1]
    chosen = logits.log_softmax(-1).gather(-1, ids[:, PROMPT:, None])[..., 0]
    values = root.score(hidden)[:, PROMPT - 1 : -1, 0]
    ratio = (chosen - kept["old log-probs"]).exp()
    advantages = kept["advantages"]
    policy = -torch.minimum(ratio * advantages, ratio.clamp(0.8, 1.2) * advantages)
    apart = kept["reference log-probs"] - chosen
    policy = policy + KL_WEIGHT * (apart.exp() - apart - 1)
    # Old values are these values: what the clipping leaves is the plain squared error.
    error = (values - kept["returns"]) ** 2 / 2
    return values, policy.mean() + VALUE_WEIGHT * error.mean()


@pytest.mark.parametrize("tuning", [{}, LORA], ids=["full", "lora"])
def test_values_loss_and_gradients_are_those_written_out(tuning: dict[str, Any]) -> None:
    seen: list[float] = []

    def check(run: Run) -> None:
        values, loss = values_and_loss(run)
        torch.testing.assert_close(run.kept["values"], values.detach(), rtol=1e-4, atol=1e-5)
        weights = {n: w for n, w in run.policy.named_parameters() if w.requires_grad}
        assert {"score.weight", "score.bias"} < weights.keys()
        expected = torch.autograd.grad(loss, list(weights.values()))
        largest = max(float(gradient.abs().max()) for gradient in expected)
        for (name, weight), gradient in zip(weights.items(), expected, strict=True):
            assert weight.grad is not None
            assert (weight.grad - gradient).abs().max() < 1e-5 * largest, name
        head = dict(zip(weights, expected, strict=True))["score.weight"]
        assert head.abs().max() > 1e-3 * largest
        seen.append(float(loss.detach()))

    def watch(run: Run) -> None:
        run.optimizers["policy"].register_step_pre_hook(lambda *_: check(run))

    found = results(plan_of("ppo", **SHARED, **tuning), prepare=watch)
    assert seen == pytest.approx(found.losses, rel=1e-5)


def test_there_is_one_model_one_optimizer_and_no_phase_of_the_critics() -> None:
    phases: list[str] = []
    stage = Stage(on_phase=lambda name, begins: phases.append(name) if begins else None)
    found = results(plan_of("ppo", **SHARED), stage=stage)
    assert found.run is not None
    assert found.run.models.keys() == {"policy", "reference"}
    assert found.run.optimizers.keys() == {"policy"}
    assert list(dict.fromkeys(phases)) == [
        "old log-probs",
        "reference log-probs",
        "policy forward",
        "policy backward",
        "optimizer step",
    ]


CHANGES: tuple[dict[str, Any], ...] = (
    {"micro_batch_size": 1},
    {"gradient_checkpointing": "full"},
    {"logits": "response"},
    {"logits": "chunked"},
    {"logits": "fused"},
    {"batch_shape": "padded", "prompt_tokens": PROMPT + 1, "attention": "sdpa"},
    {"batch_shape": "packed", "attention": "sdpa", "logits": "response"},
)


@pytest.fixture(scope="module", params=[{}, LORA], ids=["full", "lora"])
def plain(request: pytest.FixtureRequest) -> tuple[dict[str, Any], Results]:
    """What is tuned, and the step without any of the switches."""
    tuning: dict[str, Any] = request.param
    return tuning, results(plan_of("ppo", **SHARED, **tuning))


@pytest.mark.parametrize("changes", CHANGES, ids=str)
def test_switches_that_save_memory_change_nothing(
    plain: tuple[dict[str, Any], Results], changes: dict[str, Any]
) -> None:
    tuning, one = plain
    assert_same(one, results(plan_of("ppo", **SHARED, **tuning, **changes)))


def test_the_references_without_a_model_give_the_same_step() -> None:
    one = results(plan_of("ppo", **SHARED, **LORA))
    for form in ("adapter-disabled", "dual-output"):
        assert_same(one, results(plan_of("ppo", **SHARED, **LORA, reference=form)))
