"""GRADE's step computes what it should: its savers change memory, not results."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch

from grade_models import (
    TOKENS,
    SharedNoise,
    adapted,
    captured_mass,
    causal,
    distance,
    gradients,
    padding,
    prompts,
    reward,
    run,
    switches,
)
from planner.methods.grade.step.generation import soft_generate
from planner.methods.grade.step.loss import grade_loss
from planner.methods.grade.step.reference import Reference
from planner.methods.grade.step.tokens import soft_token
from planner.plan import Plan
from planner.steps.stage import Stage

CLOSE = 1e-4
"""Relative difference of gradients that fp32 summation in another order explains."""


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


def same(one: tuple[Any, Any], other: tuple[Any, Any]) -> None:
    torch.testing.assert_close(one[0], other[0], rtol=1e-5, atol=1e-6)
    assert distance(one[1], other[1]) < CLOSE


@pytest.mark.parametrize("estimator", ["soft", "straight-through"])
@pytest.mark.parametrize("reward_input", ["dense", "sparse"])
@pytest.mark.parametrize("scatter", [False, True])
def test_top_k_of_the_whole_vocabulary_is_the_full_gumbel_softmax(
    estimator: Any, reward_input: Any, scatter: bool
) -> None:
    vocab = 4096
    policy = causal(vocab=vocab)
    whole = run(policy, switches(estimator=estimator), vocab=vocab)
    options = switches(
        estimator=estimator, top_k=vocab, dense_scatter=scatter, reward_input=reward_input
    )
    same(whole, run(policy, options, vocab=vocab))


def test_a_small_top_k_errs_by_what_it_does_not_capture() -> None:
    vocab = 4096
    policy: Any = causal(vocab=vocab)
    with torch.no_grad():
        policy.lm_head.weight.mul_(4)  # as peaked as a trained model's next token
    logits = policy(input_ids=prompts(vocab)).logits[:, -1].detach()
    whole, full = run(policy, switches(), vocab=vocab)
    errors, masses = [], []
    for top_k in (16, 256, 2048):
        loss, found = run(policy, switches(top_k=top_k), vocab=vocab)
        errors.append((abs(float(loss - whole)), distance(full, found)))
        masses.append(float(captured_mass(logits, top_k).mean()))
    report = [
        f"{mass:.3f} of the mass: loss off by {loss:.1e}, gradients by {gradient:.1e}"
        for mass, (loss, gradient) in zip(masses, errors, strict=True)
    ]
    print(*report, sep="\n")
    assert masses == sorted(masses)
    assert masses[0] < 0.7 and 0.99 < masses[-1] < 1, report
    # The tail matters to the gradient long after it stopped mattering to the mass.
    found = [error for _, error in errors]
    assert found == sorted(found, reverse=True) and found[0] > 5 * found[-1] > 0.1, report


@pytest.mark.parametrize("mask", [None, padding()], ids=["full", "padded"])
@pytest.mark.parametrize("top_k", [0, 8])
@pytest.mark.parametrize("family", ["qwen3", "llama"])
def test_online_and_batch_kl_agree(family: str, top_k: int, mask: torch.Tensor | None) -> None:
    """What document 001 claims of its "KL token by token"."""
    policy, other = causal(family), causal(family, seed=5)
    batch = run(policy, switches(kl="batch", top_k=top_k), reference=other, mask=mask)
    online = run(policy, switches(kl="online", top_k=top_k), reference=other, mask=mask)
    same(batch, online)
    without = run(policy, switches(top_k=top_k), mask=mask)
    assert distance(batch[1], without[1]) > 30 * CLOSE
    assert batch[0] > without[0]


@pytest.mark.parametrize("cached", [False, True])
@pytest.mark.parametrize("top_k", [0, 8])
def test_a_metric_is_the_online_kl_and_moves_nothing(top_k: int, cached: bool) -> None:
    policy, other = causal(), causal(seed=5)
    metric = switches(kl="online-metric", top_k=top_k, reference_cache=cached)
    watched = run(policy, metric, reference=other)
    same(run(policy, switches(top_k=top_k)), watched)
    values = []
    for kl in ("online", "online-metric"):
        rollout = soft_generate(
            Stage(),
            policy,
            prompts(),
            None,
            TOKENS,
            switches(kl=kl, top_k=top_k),
            reference=Reference(other, cached=cached),
            noise=SharedNoise(64),
        )
        assert rollout.kl is not None
        assert rollout.kl.requires_grad is (kl == "online")
        values.append(float(rollout.kl.detach()))
    assert values[0] == values[1] > 0


def test_the_kl_is_that_of_the_same_position() -> None:
    """KL(policy, reference) of each hard prefix's next token, worked out one prefix at a time."""
    policy, other = causal(), causal(seed=5)
    options = switches(kl="online", estimator="straight-through")
    with torch.no_grad():
        rollout = soft_generate(
            Stage(),
            policy,
            prompts(),
            None,
            TOKENS,
            options,
            reference=Reference(other),
            noise=SharedNoise(64),
        )
        # Straight-through tokens are one-hot, so the policy too read these very ids.
        taken = torch.stack([token.weights.argmax(-1) for token in rollout.tokens], dim=1)
        row, total = prompts(), 0.0
        for step in range(TOKENS):
            mine = policy(input_ids=row).logits[:, -1].softmax(-1)
            theirs = other(input_ids=row).logits[:, -1].softmax(-1)
            total += float((mine * (mine / theirs).log()).sum(-1).mean())
            row = torch.cat([row, taken[:, step : step + 1]], dim=1)
    assert rollout.kl is not None
    assert float(rollout.kl) == pytest.approx(total / TOKENS, rel=1e-4)


def test_the_loss_is_the_reward_lost_and_the_weighted_kl() -> None:
    policy, other = causal(), causal(seed=5)
    options = switches(kl="online")
    with torch.no_grad():
        rollout = soft_generate(
            Stage(),
            policy,
            prompts(),
            None,
            TOKENS,
            options,
            reference=Reference(other),
            noise=SharedNoise(64),
        )
        judge: Any = reward()
        table = judge.body.get_input_embeddings().weight
        read = torch.stack([token.weights @ table for token in rollout.tokens], dim=1)
        scores = judge.score(judge.body(inputs_embeds=read).last_hidden_state[:, -1])
    assert rollout.kl is not None
    expected = 0.3 * float(rollout.kl) - float(scores.mean())
    loss, _ = run(policy, options, reference=other, beta=0.3)
    assert float(loss) == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("kl", ["batch", "online"])
@pytest.mark.parametrize("mask", [None, padding()], ids=["full", "padded"])
def test_a_cached_reference_says_the_same(kl: Any, mask: torch.Tensor | None) -> None:
    policy, other = causal(), causal(seed=5)
    whole = run(policy, switches(kl=kl), reference=other, mask=mask)
    cached = run(policy, switches(kl=kl, reference_cache=True), reference=other, mask=mask)
    same(whole, cached)


@pytest.mark.parametrize("cached", [False, True])
@pytest.mark.parametrize("checkpointing", [False, True])
@pytest.mark.parametrize("scale", [0.0, 0.2], ids=["adapters at zero", "adapters moved"])
def test_a_disabled_adapter_is_the_copied_reference(
    scale: float, checkpointing: bool, cached: bool
) -> None:
    base = causal()
    policy = adapted(base, scale=scale)
    if checkpointing:
        policy.get_base_model().activation_checkpointing_enable({"use_reentrant": False})
    # Straight-through, so that the policy reads the hard tokens that the reference reads.
    hard = switches(estimator="straight-through")
    options = switches(estimator="straight-through", kl="online", reference_cache=cached)
    copied = run(policy, options, reference=copy.deepcopy(base).requires_grad_(False))
    same(copied, run(policy, options))
    assert all("lora_" in name for name in copied[1])
    without = run(policy, hard)
    differs = abs(float(copied[0] - without[0])) > 1e-5
    assert differs is (scale > 0)


@pytest.mark.parametrize("estimator", ["soft", "straight-through"])
@pytest.mark.parametrize("scatter", [False, True])
def test_sparse_and_dense_reward_inputs_agree(estimator: Any, scatter: bool) -> None:
    policy = causal()
    found = [
        run(
            policy,
            switches(
                estimator=estimator, top_k=8, dense_scatter=scatter, reward_input=reward_input
            ),
        )
        for reward_input in ("dense", "sparse")
    ]
    same(found[0], found[1])


@pytest.mark.parametrize("layers", [False, True], ids=["", "layers too"])
@pytest.mark.parametrize("lora", [False, True], ids=["full", "lora"])
@pytest.mark.parametrize("mask", [None, padding()], ids=["full", "padded"])
def test_checkpointing_changes_no_gradient(
    lora: bool, layers: bool, mask: torch.Tensor | None
) -> None:
    policy, other = causal(), causal(seed=5)
    if lora:
        policy = adapted(policy, scale=0.2)
    plain = run(policy, switches(kl="online"), reference=other, mask=mask)
    inner: Any = policy.get_base_model() if lora else policy
    if layers:
        inner.activation_checkpointing_enable({"use_reentrant": False})
        # A model fresh from from_pretrained is in evaluation mode, where layers do not recompute.
        policy.eval()
    calls: list[int] = []
    inner.model.layers[0].register_forward_hook(lambda *_: calls.append(1))
    counted = run(
        policy,
        switches(kl="online", step_checkpointing=not layers),
        reference=other,
        mask=mask,
    )
    same(plain, counted)
    both = run(policy, switches(kl="online", step_checkpointing=True), reference=other, mask=mask)
    same(plain, both)
    assert policy.training


def test_layers_recompute_from_the_first_step_on() -> None:
    policy: Any = causal()
    policy.activation_checkpointing_enable({"use_reentrant": False})
    policy.eval()
    calls: list[int] = []
    norm = policy.model.layers[0].input_layernorm
    norm.register_forward_hook(lambda *_: calls.append(1))
    run(policy, switches())
    assert len(calls) == 2 * TOKENS


def test_accumulation_over_micro_batches_is_the_large_batch() -> None:
    policy, other, judge = causal(), causal(seed=5), reward()
    options = switches(kl="online")
    whole = run(policy, options, reference=other)
    policy.zero_grad(set_to_none=True)
    total = torch.zeros(())
    for first in (0, 2):
        loss = grade_loss(
            Stage(),
            policy,
            other,
            judge,
            prompts()[first : first + 2],
            None,
            TOKENS,
            options,
            noise=SharedNoise(64, rows=2, first=first),
        )
        (loss / 2).backward()
        total += loss.detach() / 2
    same(whole, (total, gradients(policy)))


def test_straight_through_is_one_hot_with_the_soft_gradient() -> None:
    logits = torch.randn(3, 50, generator=torch.Generator().manual_seed(2))
    into = torch.randn(3, 50, generator=torch.Generator().manual_seed(4))
    noise = torch.randn(3, 50, generator=torch.Generator().manual_seed(6))
    grads = []
    for estimator in ("soft", "straight-through"):
        leaf = logits.clone().requires_grad_()
        token = soft_token(leaf, switches(estimator=estimator), lambda *_: noise)
        (token.weights * into).sum().backward()
        grads.append(leaf.grad)
    torch.testing.assert_close(grads[0], grads[1])
    hard = torch.nn.functional.one_hot((logits + noise).argmax(-1), 50).float()
    torch.testing.assert_close(token.weights.detach(), hard, rtol=0, atol=1e-6)


def test_noise_is_gumbels_own() -> None:
    from planner.methods.grade.step.tokens import gumbel_noise

    drawn = gumbel_noise(torch.Generator().manual_seed(0))(torch.zeros(200_000), None)
    assert float(drawn.mean()) == pytest.approx(0.5772, abs=0.01)  # Euler's constant
    assert float(drawn.var()) == pytest.approx(torch.pi**2 / 6, abs=0.03)


@pytest.mark.parametrize("wrong", [{"grade_reward_input": "sparse"}, {"grade_dense_scatter": True}])
def test_what_cannot_run_is_refused_by_name(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Plan(model="Qwen/Qwen2.5-0.5B", method="grade", gpus=1, **wrong)


def test_a_kl_term_without_reference_is_refused() -> None:
    with pytest.raises(ValueError, match="grade_kl"):
        soft_generate(Stage(), causal(), prompts(), None, 1, switches(kl="online"))
