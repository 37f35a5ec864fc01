"""References that the loss makes, in closed form: beside dry runs, in sweeps, in seconds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from accuracy.grid import configs
from accuracy.quantity import peak
from evidence import STEPS, Evidence
from planner.advice.edits import edits
from planner.dryrun.ask.answer import CUBLAS
from planner.dryrun.logs.curve import peaks
from planner.dryrun.run.execute import dry_run
from planner.estimate import estimate
from planner.footprint import Phase
from planner.plan import Plan, try_plan
from planner.plan.relevance import without_effect
from planner.sweeps.grid import Grid
from planner.sweeps.table import sweep
from planner.wording import choices

torch.set_num_threads(1)

LORA: dict[str, Any] = {
    "finetuning": "lora",
    "lora_rank": 16,
    "lora_targets": "q_proj,v_proj",
    "master_dtype": "fp32",
}
CACHED: dict[str, Any] = {"reference": "cached-activations"}
DUAL: dict[str, Any] = {**LORA, "reference": "dual-output"}
SHARDED: dict[str, Any] = {
    "gpus": 8,
    "sharding": "fsdp2",
    "prompts_per_step": 32,
    "rollout": "vllm-colocated",
    "rollout_gpus": 0,
}
CHECKPOINTED: dict[str, Any] = {"gradient_checkpointing": "full"}
LLAMA: dict[str, Any] = {"model": "meta-llama/Llama-3.2-1B"}
PAIRS: dict[str, Any] = {
    "method": "dpo",
    "kl": "none",
    "rollout": "none",
    "rollout_gpus": 0,
    "gpus": 1,
    "responses_per_prompt": 1,
}


def plan_of(**changes: Any) -> Plan:
    """A GRPO plan on one training GPU whose KL term is in the loss."""
    values: dict[str, Any] = {
        "model": "Qwen/Qwen2.5-0.5B",
        "method": "grpo",
        "gpu": "h100-80gb",
        "gpus": 2,
        "rollout": "vllm-separate",
        "rollout_gpus": 1,
        "sharding": "none",
        "prompt_tokens": 128,
        "response_tokens": 384,
        "prompts_per_step": 4,
        "responses_per_prompt": 2,
        "micro_batch_size": 2,
        "logprob_micro_batch_size": 2,
        "batch_shape": "full",
        "logits": "fused",
        "gradient_checkpointing": "none",
        "kl": "loss",
    }
    return Plan(**{**values, **changes})


PLANS: tuple[dict[str, Any], ...] = (
    {**CACHED, "logits": "full"},
    {**CACHED, **CHECKPOINTED, **LLAMA, "batch_shape": "packed"},
    {**CACHED, **SHARDED, **CHECKPOINTED, "logits": "chunked", "method": "ppo"},
    {**CACHED, **SHARDED, **LORA, **CHECKPOINTED},
    {**CACHED, **PAIRS, **LORA, "logits": "response"},
    {**DUAL, **LLAMA},
    {**DUAL, **LLAMA, **CHECKPOINTED, "batch_shape": "packed", "micro_batch_size": 4},
    {**DUAL, **SHARDED, **LLAMA, "method": "ppo"},
    {**DUAL, "batch_shape": "padded", "attention": "eager", "method": "intuitor"},
    {**DUAL, **CHECKPOINTED, **PAIRS, "logits": "response"},
)


EVIDENCE = Evidence(
    "loss-references",
    of=("planner.dryrun.run.execute", "planner.dryrun.logs.curve", *STEPS),
    kinds={str(changes): str(changes.get("reference")) for changes in PLANS},
)


@pytest.mark.parametrize("changes", PLANS, ids=str)
@pytest.mark.filterwarnings("ignore:FSDP2-wrapped module")
def test_the_update_is_what_the_dry_run_says(changes: dict[str, Any]) -> None:
    plan = plan_of(**changes)
    found = EVIDENCE.figures(
        str(changes),
        [plan.model_dump(), configs(plan)],
        lambda: {one.phase: one.total_bytes for one in peaks(dry_run(plan, configs(plan)))},
    )
    phases = {phase.name: phase for phase in estimate(plan).phases}
    assert "reference log-probs" not in found
    # Where responses are sampled a phase stands for the wait for other GPUs, and runs nothing.
    waits = CACHED.items() <= changes.items() and changes.get("method") != "dpo"
    assert ("reference log-probs" in phases) == waits
    assert not waits or not phases["reference log-probs"].executed
    for name in ("policy forward", "policy backward", "optimizer step"):
        workspaces = sum(term.bytes for term in phases[name].terms if term.name == CUBLAS)
        closed = peak(plan, "requested", (name,)).bytes - workspaces
        assert closed == pytest.approx(found[name], rel=5e-4), name


def _forward(plan: Plan) -> Phase:
    return next(phase for phase in estimate(plan).phases if phase.name == "policy forward")


def test_hidden_states_wait_until_the_step_ends_and_only_a_head_stays() -> None:
    plan = plan_of(**CACHED)
    for phase in estimate(plan).phases:
        sizes = {term.name: int(term.bytes) for term in phase.terms}
        cached = sizes.get("cached reference hidden states")
        updates = phase.name in ("policy forward", "policy backward", "optimizer step")
        # 8 sequences of 384 tokens, 896 numbers of two bytes.
        assert cached == (8 * 384 * 896 * 2 if updates else None), phase.name
        heads = [t for t in phase.terms if t.role == "reference" and t.name == "weights"]
        if phase.rank == "trainer":
            assert [int(term.bytes) for term in heads] == [151_936 * 896 * 2], phase.name
    with_adapters = estimate(plan_of(**CACHED, **LORA))
    roles = {t.role for phase in with_adapters.phases for t in phase.terms if t.name == "weights"}
    assert "reference" not in roles


def test_one_forward_has_no_weights_of_a_reference() -> None:
    def weights(form: str) -> int:
        phase = _forward(plan_of(**{**DUAL, "reference": form}))
        return sum(int(term.bytes) for term in phase.terms if term.name == "weights")

    # Qwen2.5-0.5B in bf16.
    assert weights("copy") - weights("dual-output") == 494_032_768 * 2


@pytest.mark.parametrize("changes", PLANS, ids=str)
def test_a_sweep_has_the_numbers_of_single_plans(changes: dict[str, Any]) -> None:
    plan = plan_of(**changes)
    axes = {"response_tokens": [128, 384], "micro_batch_size": [1, 2]}
    table = sweep(plan, axes)
    assert table["valid"].all()
    # Scoring follows the axis, unless the plan has a batch of its own for it.
    scoring = np.broadcast_to(Grid(plan, axes).logprob_micro_batch_size, (2, 2)).ravel()
    for row, scored in zip(table.to_dict("records"), scoring, strict=True):
        size, length = int(row["micro_batch_size"]), int(row["response_tokens"])
        one = estimate(
            plan.changed(
                micro_batch_size=size,
                logprob_micro_batch_size=int(scored),
                response_tokens=length,
                validation_response_tokens=length,
            )
        )
        assert row["device_bytes"] == one.device_bytes
        assert row["step_seconds"] == pytest.approx(one.step_seconds)


def test_seconds_are_of_what_runs() -> None:
    def policy_forward(**changes: Any) -> float:
        seconds = _forward(plan_of(**changes)).seconds
        assert seconds is not None
        return seconds

    def reference(**changes: Any) -> float:
        plan = plan_of(**changes)
        phase = next(p for p in estimate(plan).phases if p.name == "reference log-probs")
        assert phase.seconds is not None
        return phase.seconds

    apart = {**LORA, "reference": "adapter-disabled"}
    alone = policy_forward(**apart)
    # On one GPU nothing is gathered: the same products, in another phase.
    assert policy_forward(**DUAL) == pytest.approx(alone + reference(**apart))
    # Cached: the head's product of the response tokens alone, 2 FLOPs a weight.
    share = 2 * 896 * 151_936 * 8 * 384
    base = 2 * (494_032_768 - 896 * 151_936) * 8 * 512
    more = policy_forward(**LORA, **CACHED) - alone
    assert more < reference(**apart) * share / base
    assert more > 0
    # Sharded, layers that run twice are gathered once.
    apart, dual = {**apart, **SHARDED}, {**DUAL, **SHARDED}
    assert policy_forward(**dual) < policy_forward(**apart) + reference(**apart)


def test_forms_can_be_chosen_and_say_when_they_cannot() -> None:
    for form in ("cached-activations", "dual-output"):
        assert not choices.not_yet("reference", form)
        assert "not modelled" not in choices.name("reference", form)
    _, problems = try_plan({**plan_of().model_dump(), "reference": "dual-output"})
    assert [problem.field for problem in problems] == ["reference"]
    assert "lora" in problems[0].fix


@pytest.mark.parametrize(
    ("changes", "less"), [(CACHED, "cached-logprobs"), (DUAL, "adapter-disabled")], ids=str
)
def test_a_form_that_holds_less_is_a_candidate(changes: dict[str, Any], less: str) -> None:
    plan = plan_of(**changes)
    assert {"reference": less} in [dict(one.changes) for one in edits(plan)]
    other = plan.changed(reference=less)
    assert {"reference": less} not in [dict(one.changes) for one in edits(other)]
    after = _forward(other)
    assert after.requested_bytes < _forward(plan).requested_bytes


def test_dpo_has_no_forward_without_gradient_left() -> None:
    for changes in (CACHED, DUAL):
        assert "logprob_micro_batch_size" in without_effect(plan_of(**PAIRS, **changes))
    assert "logprob_micro_batch_size" not in without_effect(plan_of(**CACHED))
