"""References that the loss makes: the same log-probs, losses and gradients as a copy's."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import pytest
import torch

from accuracy.cpu_cases import Case
from planner.plan.methods import methods
from planner.steps import in_loss, models, update
from planner.steps.batch import Rows
from planner.steps.run import Run, build
from planner.steps.stage import Stage
from step_results import PROMPT, SEQUENCES, VOCAB, Batch, Results, assert_same, plan_of, results

torch.set_num_threads(1)

LORA: dict[str, Any] = {"finetuning": "lora", "lora_rank": 4}
KL: dict[str, Any] = {"kl": "loss"}
METHODS: dict[str, dict[str, Any]] = {
    method.name: KL if method.engines else {}
    for method in methods().values()
    if method.engines or method.held_to_reference
}
METHODS["intuitor"] = {**KL, "self_certainty_gradient": True}
SHAPES: dict[str, dict[str, Any]] = {
    "full": {},
    "padded": {"batch_shape": "padded", "prompt_tokens": PROMPT + 1, "attention": "sdpa"},
    "packed": {"batch_shape": "packed", "attention": "sdpa"},
}


def hidden_states(plan: Any) -> torch.Tensor:
    """Last hidden states [sequences, response, hidden] of the reference, from one forward."""
    found: list[torch.Tensor] = []

    def read(run: Run) -> None:
        with torch.no_grad():
            body = models.body(run.models["reference"])
            found.append(body(input_ids=Batch().ids, use_cache=False).last_hidden_state)

    results(plan.model_copy(update={"reference": "copy"}), prepare=read, steps=0)
    return found[0][:, PROMPT - 1 : -1]


def stepped(
    plan: Any, hidden: torch.Tensor | None = None, prepare: Callable[[Run], None] | None = None
) -> tuple[Results, list[torch.Tensor]]:
    """Results of a step, and the reference log-probs that each of its losses was given."""
    given: list[torch.Tensor] = []
    keep, loss = in_loss.keep_hidden, update.policy_loss

    def cached(run: Run) -> None:
        keep(run)
        assert hidden is not None
        run.kept[in_loss.CACHE].copy_(hidden)

    def noted(*values: Any) -> torch.Tensor:
        given.append(values[3].clone())
        return loss(*values)

    with (
        patch.object(in_loss, "keep_hidden", cached),
        patch.object(update, "policy_loss", noted),
    ):
        return results(plan, prepare=prepare), given


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("method", METHODS)
def test_one_forward_with_two_outputs_gives_the_step_of_a_copy(method: str, shape: str) -> None:
    changes = {**METHODS[method], **SHAPES[shape], **LORA, "micro_batch_size": 1}
    one, expected = stepped(plan_of(method, **changes, reference="copy"))
    other, given = stepped(plan_of(method, **changes, reference="dual-output"))
    assert_same(one, other)
    for first, second in zip(expected, given, strict=True):
        torch.testing.assert_close(second, first, rtol=1e-4, atol=1e-5)
    assert bool(given) == (method != "dpo")


@pytest.mark.parametrize("tuning", [{}, LORA], ids=["full", "lora"])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("method", METHODS)
def test_cached_hidden_states_give_the_step_of_a_copy(
    method: str, shape: str, tuning: dict[str, Any]
) -> None:
    changes = {**METHODS[method], **SHAPES[shape], **tuning, "micro_batch_size": 1}
    hidden = hidden_states(plan_of(method, **METHODS[method], **tuning))
    one, expected = stepped(plan_of(method, **changes, reference="copy"))
    plan = plan_of(method, **changes, reference="cached-activations")
    other, given = stepped(plan, hidden)
    assert_same(one, other)
    for first, second in zip(expected, given, strict=True):
        torch.testing.assert_close(second, first, rtol=1e-4, atol=1e-5)
    assert other.run is not None
    assert ("reference" in other.run.models) == (not tuning)
    wrong, _ = stepped(plan, hidden.flip(0))
    with pytest.raises(AssertionError):
        assert_same(one, wrong)


def test_a_head_of_its_own_is_the_references_not_the_policys() -> None:
    plan = plan_of("grpo", **KL, reference="cached-activations")

    def flatten(run: Run) -> None:
        with torch.no_grad():
            for weight in run.models["reference"].parameters():
                weight.zero_()

    _, given = stepped(plan, torch.ones(1), prepare=flatten)
    torch.testing.assert_close(given[0], torch.full_like(given[0], -math.log(VOCAB)))


@pytest.mark.parametrize("logits", ["response", "chunked", "fused"])
@pytest.mark.parametrize("reference", ["cached-activations", "dual-output"])
def test_every_path_to_the_vocabulary_gives_the_same_step(reference: str, logits: str) -> None:
    changes = {**KL, **LORA, "gradient_checkpointing": "full"}
    hidden = hidden_states(plan_of("grpo", **KL, **LORA))
    one, _ = stepped(plan_of("grpo", **changes, reference="copy"))
    other, _ = stepped(plan_of("grpo", **changes, reference=reference, logits=logits), hidden)
    assert_same(one, other)


def test_layers_run_twice_up_and_once_again_on_the_way_down() -> None:
    calls: list[int] = []

    def count(run: Run) -> None:
        for index, layer in enumerate(models.layers(run.policy)):
            layer.post_attention_layernorm.register_forward_hook(
                lambda *_, index=index: calls.append(index)
            )

    plan = plan_of("dpo", **LORA, reference="dual-output", gradient_checkpointing="full")
    assert results(plan, prepare=count).losses
    assert calls == [0, 0, 1, 1, 2, 2, 2, 1, 0]


FAMILIES = ("llama", "qwen2", "phi3", "gemma2", "gemma3_text", "gpt2", "gpt_neox", "qwen3_moe")


@pytest.mark.parametrize("family", FAMILIES)
def test_what_is_carried_is_what_the_base_model_says(family: str) -> None:
    """In every family: the norm's name, tuples, positions, layers of several kinds."""
    changes: dict[str, Any] = {**LORA, "reference": "dual-output", "layers": 3}
    if family == "qwen3_moe":
        changes["lora_targets"] = "q_proj,v_proj"
    case = Case("dpo", family, changes)
    run = build(case.plan, Stage(), case.configs)
    model: Any = run.policy.model
    with torch.no_grad():
        for at, weight in enumerate(model.parameters()):
            weight.normal_(0, 0.1, generator=torch.Generator().manual_seed(at))
    rows = Rows(torch.arange(SEQUENCES * 8).view(SEQUENCES, 8), None, None, SEQUENCES)
    with in_loss.carried(model) as other:
        policy = models.body(model)(use_cache=False, **rows.inputs()).last_hidden_state
    found = other.taken()
    with torch.no_grad(), model.disable_adapter():
        base = models.body(model)(use_cache=False, **rows.inputs()).last_hidden_state
    torch.testing.assert_close(found, base, rtol=1e-4, atol=1e-5)
    assert (policy - base).abs().max() > 1e-3
    assert policy.requires_grad and not found.requires_grad
    again = models.body(model)(use_cache=False, **rows.inputs()).last_hidden_state
    torch.testing.assert_close(again, policy)
    assert other.hidden is None


def test_an_unknown_final_norm_is_refused_by_name() -> None:
    case = Case("sft", "llama", {})
    run = build(case.plan, Stage(), case.configs)
    del models.body(run.policy).norm
    with pytest.raises(ValueError, match="^model: .*norm, ln_f, final_layer_norm"):
        models.final_norm(run.policy)
