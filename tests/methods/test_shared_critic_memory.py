"""A critic that shares the policy's body, in closed form: beside dry runs, and what it spares."""

from __future__ import annotations

from typing import Any

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
from planner.launch.export import export, obstacles
from planner.launch.launch import CannotExpress
from planner.plan import Plan, try_plan
from planner.plan.relevance import without_effect
from planner.sweeps.table import sweep
from planner.wording import choices

torch.set_num_threads(1)

LORA: dict[str, Any] = {
    "finetuning": "lora",
    "lora_rank": 16,
    "lora_targets": "q_proj,v_proj",
    "reference": "adapter-disabled",
}
SHARDED: dict[str, Any] = {
    "gpus": 8,
    "sharding": "fsdp2",
    "prompts_per_step": 32,
    "rollout": "vllm-colocated",
    "rollout_gpus": 0,
    "model": "meta-llama/Llama-3.2-1B",
}
CHECKPOINTED: dict[str, Any] = {"gradient_checkpointing": "full"}
HALF: dict[str, Any] = {"master_dtype": "none"}


def plan_of(**changes: Any) -> Plan:
    """A PPO plan on one training GPU."""
    values: dict[str, Any] = {
        "model": "Qwen/Qwen2.5-0.5B",
        "method": "ppo",
        "critic": "shared",
        "gpu": "h100-80gb",
        "gpus": 2,
        "rollout": "vllm-separate",
        "rollout_gpus": 1,
        "sharding": "none",
        "prompt_tokens": 128,
        "response_tokens": 384,
        "prompts_per_step": 4,
        "micro_batch_size": 2,
        "logprob_micro_batch_size": 2,
        "batch_shape": "full",
        "logits": "response",
        "gradient_checkpointing": "none",
        "master_dtype": "fp32",
    }
    return Plan(**{**values, **changes})


PLANS: tuple[dict[str, Any], ...] = (
    {},
    {**HALF, "logits": "full", "entropy": True},
    {**HALF, **CHECKPOINTED, "logits": "fused", "micro_batch_size": 1},
    {"logits": "chunked", "batch_shape": "padded"},
    {**LORA, **HALF},
    {**LORA, **CHECKPOINTED, "logits": "full", "batch_shape": "packed"},
    {**SHARDED, "logits": "fused"},
    {**SHARDED, **LORA, **CHECKPOINTED},
)


EVIDENCE = Evidence(
    "shared-critics",
    of=("planner.dryrun.run.execute", "planner.dryrun.logs.curve", *STEPS),
    kinds={str(changes): str(changes.get("reference")) for changes in PLANS},
)


@pytest.mark.parametrize("changes", PLANS, ids=str)
@pytest.mark.filterwarnings("ignore:FSDP2-wrapped module")
def test_every_phase_is_what_the_dry_run_says(changes: dict[str, Any]) -> None:
    plan = plan_of(**changes)
    found = EVIDENCE.figures(
        str(changes),
        [plan.model_dump(), configs(plan)],
        lambda: {one.phase: one.total_bytes for one in peaks(dry_run(plan, configs(plan)))},
    )
    phases = {phase.name: phase for phase in estimate(plan).phases}
    assert not {"values", "critic update"} & (found.keys() | phases.keys())
    for name, dry in found.items():
        workspaces = sum(term.bytes for term in phases[name].terms if term.name == CUBLAS)
        closed = peak(plan, "requested", (name,)).bytes - workspaces
        assert closed == pytest.approx(dry, rel=5e-4), name


def test_a_shared_critic_is_one_row_and_a_bias() -> None:
    def state(critic: str, **changes: Any) -> int:
        phases = estimate(plan_of(critic=critic, **changes)).phases
        phase = next(each for each in phases if each.name == "optimizer step")
        return sum(
            int(term.bytes)
            for term in phase.terms
            if term.category in ("parameters", "gradients", "optimizer") and not term.host
        )

    # fp32 weights, gradients and two moments of the body, its norms and the row with its bias.
    body = 494_032_768 + 896 + 1
    assert state("separate", **HALF) - state("shared", **HALF) == (body * 3 - (896 + 1) * 4) * 2
    # Under LoRA the row and its bias train as well: bf16, as the base.
    assert state("shared", **LORA, **HALF) > state("separate", **LORA, **HALF) - 2 * body * 2


def test_a_sweep_has_the_numbers_of_single_plans() -> None:
    plan = plan_of()
    for row in sweep(plan, {"prompt_tokens": [64, 512]}).to_dict("records"):
        one = estimate(plan.changed(prompt_tokens=int(row["prompt_tokens"])))
        assert row["device_bytes"] == one.device_bytes
        assert row["step_seconds"] == pytest.approx(one.step_seconds)


def test_it_saves_memory_and_time_and_is_offered() -> None:
    shared, separate = (estimate(plan_of(critic=critic)) for critic in ("shared", "separate"))
    least = max(p.device_bytes for p in shared.phases if p.rank == "trainer")
    most = max(p.device_bytes for p in separate.phases if p.rank == "trainer")
    assert least < most
    assert shared.step_seconds is not None and separate.step_seconds is not None
    assert shared.step_seconds < separate.step_seconds
    assert {"critic": "shared"} in [dict(one.changes) for one in edits(separate.plan)]
    without = plan_of(method="grpo", critic="none", responses_per_prompt=2)
    assert {"critic": "shared"} not in [dict(one.changes) for one in edits(without)]


def test_it_can_be_chosen_for_ppo_alone_and_has_no_model_of_its_own() -> None:
    assert not choices.not_yet("critic", "shared")
    assert "critic_model" in without_effect(plan_of(critic_model="Qwen/Qwen2.5-1.5B"))
    assert "critic_model" not in without_effect(plan_of(critic="separate"))
    for changes in ({"method": "grpo"}, {"framework": "verl"}):
        _, problems = try_plan({"method": "ppo", "critic": "shared", **changes})
        assert "critic" in {problem.field for problem in problems}


def test_verl_refuses_it_by_name() -> None:
    plan = plan_of()
    found = {obstacle.field: obstacle.fix for obstacle in obstacles(plan, "verl")}
    assert "separate" in found["critic"]
    with pytest.raises(CannotExpress, match="critic"):
        export(plan, "verl")
