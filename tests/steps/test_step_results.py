"""Switches that save memory change no result: losses and gradients of whole real steps."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import pytest
import torch

from planner.methods.ppo import step as ppo
from planner.plan.methods import methods
from planner.setup.setup import setup_of
from planner.steps import models
from planner.steps.run import Run
from planner.steps.stage import Stage
from planner.trial.run.trial_stage import CopyingStage
from step_results import (
    PROMPT,
    RESPONSE,
    SEQUENCES,
    Batch,
    Results,
    assert_same,
    plan_of,
    results,
)

torch.set_num_threads(1)

LORA: dict[str, Any] = {"finetuning": "lora", "lora_rank": 4}


def by_hand(plan: Any, *, base: bool) -> torch.Tensor:
    """Log-probs [sequences, response] of the batch, from whole logits in one forward."""
    found: list[torch.Tensor] = []

    def read(run: Run) -> None:
        ids, model = Batch().ids, models.causal(run.policy)
        outer: Any = run.policy.model
        with torch.no_grad():
            if base:
                with outer.disable_adapter():
                    logits = model(input_ids=ids, use_cache=False).logits
            else:
                logits = model(input_ids=ids, use_cache=False).logits
        taken = logits.log_softmax(-1)[:, PROMPT - 1 : -1]
        found.append(taken.gather(-1, ids[:, PROMPT:, None])[..., 0])

    results(plan, prepare=read, cached=torch.zeros(SEQUENCES, RESPONSE), steps=0)
    return found[0]


@pytest.mark.parametrize("kl", ["loss", "reward"])
def test_every_reference_form_gives_the_same_step(kl: str) -> None:
    plan = plan_of("grpo", **LORA, reference="copy", kl=kl)
    one = results(plan)
    cached = by_hand(plan, base=True)
    assert (cached - by_hand(plan, base=False)).abs().max() > 0.01
    for form in ("offloaded", "adapter-disabled", "cached-logprobs"):
        other = plan_of("grpo", **LORA, reference=form, kl=kl)
        given = cached if form == "cached-logprobs" else None
        assert_same(one, results(other, stage=CopyingStage(), cached=given))
    apart = results(plan_of("grpo", **LORA, reference="cached-logprobs", kl=kl), cached=2 * cached)
    with pytest.raises(AssertionError):
        assert_same(one, apart)


def test_dpo_references_give_the_same_step() -> None:
    one = results(plan_of("dpo", **LORA, reference="copy"))
    for form in ("offloaded", "adapter-disabled"):
        assert_same(one, results(plan_of("dpo", **LORA, reference=form), stage=CopyingStage()))


@pytest.mark.parametrize("shape", ["full", "padded", "packed"])
@pytest.mark.parametrize("method", ["grpo", "sft"])
def test_logits_paths_give_the_same_step(method: str, shape: str) -> None:
    changes: dict[str, Any] = {"batch_shape": shape, "attention": "sdpa"}
    if shape == "padded":
        changes["prompt_tokens"] = PROMPT + 1
    if method == "grpo":
        changes["entropy"] = True
    one = results(plan_of(method, **changes))
    for logits in ("response", "chunked", "fused"):
        assert_same(one, results(plan_of(method, **changes, logits=logits)))


@pytest.mark.parametrize("method", [each for each in methods() if each != "grade"])
def test_accumulation_is_the_large_batch(method: str) -> None:
    pair = 2 if method == "dpo" else 1
    fixed = {} if method == "sft" else {"logprob_micro_batch_size": 2 // pair}
    one = results(plan_of(method, micro_batch_size=SEQUENCES // pair, **fixed))
    other = results(plan_of(method, micro_batch_size=1, **fixed))
    assert len(other.losses) == SEQUENCES // pair * len(one.losses)
    assert_same(one, other)


@pytest.mark.parametrize("shape", ["padded", "packed"])
@pytest.mark.parametrize("logits", ["full", "response", "chunked"])
def test_padded_and_packed_rows_score_as_full_ones(shape: str, logits: str) -> None:
    changes: dict[str, Any] = {"batch_shape": shape, "attention": "sdpa", "logits": logits}
    if shape == "padded":
        changes["prompt_tokens"] = PROMPT + 1
    one, other = (kept(plan_of("ppo", **each)) for each in ({}, changes))
    for name in ("old log-probs", "values", "rewards"):
        torch.testing.assert_close(other[name], one[name], rtol=1e-4, atol=1e-5)
    expected = by_hand(plan_of("ppo"), base=False)
    torch.testing.assert_close(one["old log-probs"], expected, rtol=1e-4, atol=1e-5)


def kept(plan: Any) -> dict[str, torch.Tensor]:
    """What PPO's passes without gradient keep, with a reward model."""
    found: dict[str, torch.Tensor] = {}

    def note(run: Run) -> None:
        run.optimizers["critic"].register_step_pre_hook(lambda *_: found.update(run.kept))

    whole = ppo._advantages

    def advantages(run: Run) -> None:
        found["rewards"] = run.kept["rewards"].clone()
        whole(run)

    with patch.object(ppo, "_advantages", advantages):
        results(plan.model_copy(update={"reward": "model"}), prepare=note)
    return found


@pytest.mark.parametrize(
    "offload", ["optimizer-between-phases", "parameters-between-phases", "all-between-phases"]
)
def test_offload_between_phases_changes_no_weight(offload: str) -> None:
    plain = results(plan_of("ppo"), steps=2)
    moved = results(plan_of("ppo", offload=offload), stage=CopyingStage(), steps=2)
    assert plain.losses == moved.losses
    fresh = results(plan_of("ppo"), steps=0)
    for role in ("policy", "critic"):
        one, other, start = (weights(each, role) for each in (plain, moved, fresh))
        for name in one:
            assert torch.equal(one[name], other[name]), name
        assert any(not torch.equal(one[name], start[name]) for name in one)


def weights(found: Results, role: str) -> dict[str, torch.Tensor]:
    assert found.run is not None
    return dict(found.run.models[role].named_parameters())


@pytest.mark.parametrize("tuning", [{}, LORA], ids=["full", "lora"])
def test_layers_are_recomputed_from_the_first_step_on(tuning: dict[str, Any]) -> None:
    calls: list[int] = []

    def count(run: Run) -> None:
        for index, layer in enumerate(models.layers(run.policy)):
            layer.post_attention_layernorm.register_forward_hook(
                lambda *_, index=index: calls.append(index)
            )

    plan = plan_of("sft", **tuning, gradient_checkpointing="full", micro_batch_size=2)
    checkpointed = results(plan, prepare=count)
    # Three layers up, then each again on the way down; two micro-batches.
    assert calls == [0, 1, 2, 2, 1, 0] * 2
    assert_same(results(plan_of("sft", **tuning, micro_batch_size=2)), checkpointed)


def test_offloaded_activations_are_the_layers_inputs_and_change_no_gradient() -> None:
    sizes: list[tuple[int, ...]] = []

    class Watched(CopyingStage):
        def saved_on_host(self) -> Any:
            def pack(tensor: torch.Tensor) -> torch.Tensor:
                sizes.append(tuple(tensor.shape))
                return tensor.clone()

            return torch.autograd.graph.saved_tensors_hooks(pack, torch.clone)

    plan = plan_of("sft", gradient_checkpointing="full", activation_offload=True)
    found = results(plan, stage=Watched())
    inputs = (SEQUENCES, PROMPT + RESPONSE, 64)
    assert [size for size in sizes if size != (0,)] == [inputs] * 3
    assert_same(results(plan_of("sft")), found)


def test_kl_in_the_reward_reaches_every_token_of_ppo() -> None:
    plan = plan_of("ppo", kl="reward")
    old, reference = torch.tensor([[-1.0, -2.0]]), torch.tensor([[-2.0, -1.0]])
    run = Run(setup=setup_of(plan), stage=Stage())
    run.kept = {
        "old log-probs": old,
        "reference log-probs": reference,
        "values": torch.tensor([[0.5, 0.25]]),
        "rewards": torch.tensor([1.0]),
    }
    ppo._advantages(run)
    # Rewards by token: -0.001 and 1.001. With gamma 1 and lambda 0.95:
    # delta 2 = 1.001 - 0.25 = 0.751; delta 1 = -0.001 + 0.25 - 0.5 = -0.251.
    expected = torch.tensor([[-0.251 + 0.95 * 0.751, 0.751]])
    torch.testing.assert_close(run.kept["advantages"], expected)
    torch.testing.assert_close(run.kept["returns"], expected + run.kept["values"])
