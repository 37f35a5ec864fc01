"""A reward model: whole under TRL, and loaded as the policy is; from an engine under verl."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pytest
import torch
import transformers
from trl.trainer import grpo_trainer

from accuracy import flat_runs, trl_cases
from accuracy.quantity import scene
from planner.dryrun.ask.stand_in import stand_in
from planner.estimate import estimate, phase_plans
from planner.footprint import Phase
from planner.formulas.generation import REWARD_ENGINE
from planner.frameworks.trl.own_step import arguments
from planner.frameworks.trl.run import made
from planner.frameworks.trl.run.seams import engine
from planner.plan import Plan
from planner.setup.setup import models_of
from planner.term import Term

torch.set_num_threads(1)
RANKS = flat_runs.RANKS
DDP = {"sharding": "ddp", "reduce_dtype": "fp32"}


def case_of(changes: dict[str, Any]) -> trl_cases.Case:
    told = {**flat_runs.APART, **trl_cases.AUTOCAST, "kl": "none", "reward": "model", **changes}
    return trl_cases.Case("a reward model", "grpo", told)


def weights_in(phase: Phase) -> list[Term]:
    """Its weights among what stands in a phase."""
    return [t for t in phase.terms if (t.role, t.name) == ("reward model", "weights")]


@pytest.mark.parametrize("changes", [{"sharding": "fsdp1"}, {"sharding": "fsdp2"}, DDP], ids=str)
def test_trl_makes_it_so(changes: dict[str, Any], tmp_path: Path) -> None:
    case = case_of(changes)
    settings = transformers.AutoConfig.for_model(**case.config, num_labels=1)
    whole = transformers.AutoModelForSequenceClassification.from_config(settings)
    whole.save_pretrained(tmp_path / "reward")
    policy = transformers.AutoModelForCausalLM.from_config(
        transformers.AutoConfig.for_model(**case.config)
    )
    policy.save_pretrained(tmp_path / "model")
    # As scripts/grpo.py hands it over.
    kwargs = {"dtype": arguments(case.plan)["dtype"]}
    words = SimpleNamespace(pad_token_id=0)
    tokens = SimpleNamespace(from_pretrained=lambda *_, **__: words)
    loading = patch.dict(os.environ, {"HF_DEACTIVATE_ASYNC_LOAD": "1"})
    with warnings.catch_warnings(), loading, flat_runs._others_not_there(), engine():
        warnings.simplefilter("ignore")
        with flat_runs._launched(case, tmp_path, 0, tmp_path):
            parsed = made._parsed

            def told(*given: Any) -> Any:
                config, model = parsed(*given)
                config.model_init_kwargs = kwargs
                return config, model

            with (
                patch.object(made, "_parsed", told),
                patch.object(made, "_reward", str(tmp_path / "reward")),
                patch.object(grpo_trainer, "AutoTokenizer", tokens),
            ):
                # That argument is a script's, not a trainer's.
                ruled = case.plan.changed(reward="rule")
                trainer = made.trainer_of(ruled, tmp_path, str(tmp_path / "model"))
                (reward,) = trainer.reward_funcs
    weights = list(reward.parameters())
    (model,) = [one for one in models_of(case.plan) if one.role == "reward model"]
    assert type(reward) is type(whole)
    assert sum(one.numel() for one in weights) == sum(one.numel() for one in whole.parameters())
    assert {one.dtype for one in weights} == {getattr(torch, str(kwargs["dtype"]))}
    assert kwargs["dtype"] == {"fp32": "float32", "bf16": "bfloat16"}[model.stored]
    phases = {phase.name: phase for phase in estimate(case.plan).phases}
    for name in ("reward", "policy backward"):
        (found,) = weights_in(phases[name])
        # A critic's head has a bias, which is counted here, too.
        more = found.bytes - sum(one.numel() * one.element_size() for one in weights)
        assert more in (0, weights[0].element_size()), name


@pytest.mark.parametrize("sharding", ["fsdp1", "fsdp2"])
def test_nothing_of_it_is_gathered(sharding: str) -> None:
    plan = Plan(model="Qwen/Qwen2.5-7B", method="grpo", framework="trl", sharding=sharding)
    plan = plan.changed(reward="model", kl="none")
    for phase in estimate(plan).phases:
        found = {t.name for t in phase.terms if t.role == "reward model"}
        assert not {one for one in found if "gather" in one or "reshards" in one}, phase.name
    told: dict[str, Any] = {"method": "grpo", "sharding": sharding, "reward": "model", "kl": "none"}
    plain = estimate(Plan(model="Qwen/Qwen2.5-7B", **told)).phases
    (weights,) = weights_in(next(phase for phase in plain if phase.name == "policy backward"))
    assert weights.bytes < 2e9


@pytest.mark.parametrize(
    ("changes", "stored"),
    [
        ({"gpus": 1, "sharding": "none", "master_dtype": "fp32"}, "fp32"),
        ({"gpus": 1, "sharding": "none", "master_dtype": "none"}, "bf16"),
        ({"sharding": "fsdp2", "master_dtype": "fp32"}, "bf16"),
        ({"gpus": 1, "sharding": "none", "finetuning": "lora", "base_dtype": "fp32"}, "fp32"),
        ({"gpus": 1, "sharding": "none", "finetuning": "lora"}, "bf16"),
    ],
)
def test_its_dtype_is_what_the_policy_is_loaded_in(changes: dict[str, Any], stored: str) -> None:
    usual: dict[str, Any] = {"method": "rloo", "framework": "trl", "reward": "model"}
    plan = Plan(model="Qwen/Qwen2.5-0.5B", **usual, **changes)
    (model,) = [one for one in models_of(plan) if one.role == "reward model"]
    assert model.stored == stored
    width = {"float32": "fp32", "bfloat16": "bf16"}[arguments(plan)["dtype"]]
    assert width == stored


def test_no_time_is_spent_on_gathering_it() -> None:
    told: dict[str, Any] = {"method": "grpo", "sharding": "fsdp2", "reward": "model", "kl": "none"}
    for framework, gathered in (("trl", False), ("verl", False), ("plain", True)):
        plan = Plan(model="Qwen/Qwen2.5-7B", framework=framework, **told)
        (phase,) = [one for one in phase_plans(scene(plan)) if one.name == "reward"]
        assert [row.gathered for row in phase.work] == [gathered]


SERVED: dict[str, Any] = {"framework": "verl", "reward": "model"}


@pytest.mark.parametrize("method", ["grpo", "rloo", "ppo"])
def test_verl_serves_it_from_half_of_each_card(method: str) -> None:
    """trainer/config/reward/reward.yaml: gpu_memory_utilization 0.5, on the trainer's GPUs."""
    plan = Plan(model="Qwen/Qwen2.5-7B", method=method, **SERVED)
    found = estimate(plan)
    for phase in found.phases:
        own = {t.name: int(t.bytes) for t in phase.terms if t.role == "reward model" and not t.host}
        scores = phase.name == "reward"
        assert (REWARD_ENGINE.name in own) == scores
        if scores:
            share = own[REWARD_ENGINE.name] + own["vLLM libraries"]
            assert share == found.budget_bytes // 2
    assert [one for one in found.warnings if "second engine" in one]
    ruled = estimate(plan.changed(reward="rule"))
    assert not [one for one in ruled.warnings if "second engine" in one]
    assert "reward model" not in {t.role for phase in ruled.phases for t in phase.terms}


def test_between_scores_it_keeps_what_no_sleep_gives_back() -> None:
    """reward.yaml: two GPUs an engine, eager, 8,192 tokens; vllm_async_server.py: sleep level 1."""
    plan = Plan(model="Qwen/Qwen2.5-7B", method="grpo", gpus=8, **SERVED)
    rules = {phase.name: phase for phase in estimate(plan.changed(reward="rule")).phases}
    for phase in estimate(plan).phases:
        own = [t for t in phase.terms if t.role == "reward model"]
        card = {t.name: int(t.bytes) for t in own if not t.host}
        card.pop(REWARD_ENGINE.name, None)
        assert card.keys() == {"CUDA context", "vLLM libraries", "vLLM input buffers"}
        assert card["vLLM input buffers"] == 8192 * 3584 * 2
        (asleep,) = [t for t in own if t.host]
        # Halves of bf16 weights on eight GPUs, each tensor rounded up to a power of two.
        halves = 8 * 7_070_619_136  # Qwen2.5-7B with one number in place of its vocabulary's head
        assert halves <= asleep.bytes < 2 * halves
        if phase.name in rules:
            more = phase.device_bytes - rules[phase.name].device_bytes
            assert abs(more - sum(card.values())) < 2**20, phase.name


def test_a_dry_run_leaves_it_to_the_engine() -> None:
    plan = Plan(model="Qwen/Qwen2.5-0.5B", method="grpo", gpus=8, **SERVED)
    executed = stand_in(plan)
    assert executed.plan.reward == "rule"
    assert any("engine for the reward model did not run" in note for note in executed.notes)
    phases = {phase.name: phase for phase in estimate(plan).phases}
    assert not phases["reward"].executed and phases["policy backward"].executed
    # TRL's and ours are models of the trainer's process.
    ours = Plan(model="Qwen/Qwen2.5-0.5B", method="grpo", gpus=8, reward="model")
    assert stand_in(ours).plan.reward == "model"
