"""Where a framework's own code stops on a plan's values, the plan is refused; else it is not.

The assertions are listed in ``docs/verl-step.md`` and ``docs/trl-step.md``; each that a plan can
break is driven here, with the plan's values, in the framework's own code.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Callable
from importlib import import_module
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal, get_args
from unittest.mock import patch

import pytest
import torch
import trl
import verl
from transformers import TrainingArguments
from verl.utils import tensordict_utils as tu
from verl.utils.config import validate_config

from planner.frameworks.trl.own_step import arguments
from planner.frameworks.verl import limits
from planner.frameworks.verl.overrides import overrides
from planner.frameworks.verl.run import made
from planner.plan import Plan, try_plan
from planner.plan.chosen import DEFAULTS
from planner.plan.defaults import fill

SIZES = (1, 2, 3, 4, 5, 6, 8, 12)
VERL: dict[str, Any] = {
    **{"framework": "verl", "method": "grpo", "prompts_per_step": 12, "prompts_per_update": 6},
    "responses_per_prompt": 2,
}


def unchecked(values: dict[str, Any]) -> Plan:
    """The plan of these values, whatever the rules say."""
    return Plan.model_construct(**{**DEFAULTS, **fill(values)})


def stops(work: Callable[[], Any]) -> str:
    """What the framework says; empty where it goes on."""
    try:
        work()
    except (AssertionError, ValueError) as error:
        return str(error)
    return ""


def cut(plan: Plan, rows: int, size: int) -> None:
    """verl's own division of a GPU's rows into micro-batches."""
    ids = torch.nested.as_nested_tensor([torch.zeros(4)] * rows, layout=torch.jagged)
    budget = plan.max_tokens_per_micro_batch
    told = {"use_dynamic_bsz": budget > 0, "micro_batch_size_per_gpu": size}
    told["max_token_len_per_gpu"] = budget
    engine: Any = import_module("verl.workers.engine.utils")  # made has imported its package
    engine.prepare_micro_batches(tu.get_tensordict({"input_ids": ids}, told))


def divided(plan: Plan) -> None:
    """Both passes of a step."""
    gpus, n = plan.gpus - plan.rollout_gpus, plan.responses_per_prompt
    assert plan.prompts_per_update * n % gpus == 0  # engine_workers.py, line 267
    cut(plan, plan.prompts_per_update * n // gpus, plan.micro_batch_size)
    cut(plan, plan.prompts_per_step * n // gpus, plan.logprob_micro_batch_size)


@pytest.mark.parametrize("gpus", [1, 2])
@pytest.mark.parametrize("budget", [0, 8192])
def test_verl_cuts_what_is_planned_and_nothing_else(gpus: int, budget: int) -> None:
    refused = set()
    for size, scored in product(SIZES, SIZES):
        values = {**VERL, "gpus": gpus, "max_tokens_per_micro_batch": budget}
        values |= {"micro_batch_size": size, "logprob_micro_batch_size": scored}
        plan, problems = try_plan(values)
        said = stops(lambda values=values: divided(unchecked(values)))
        assert bool(said) == (plan is None), (values, said, problems)
        refused |= {problem.field for problem in problems}
        if {problem.field for problem in problems} == {"logprob_micro_batch_size"}:
            words = " ".join(problem.message for problem in problems)
            assert said.partition(" by ")[0] in words or "exceeds" in words  # by fields' names
    assert refused == ({"micro_batch_size", "logprob_micro_batch_size"} if not budget else set())


@pytest.mark.parametrize(
    ("changes", "takes"),
    [
        ({}, True),
        ({"logprob_micro_batch_size": 2}, True),
        ({"prompts_per_update": 12}, True),
        ({"gpus": 5}, False),
        ({"prompts_per_update": 24}, False),
    ],
    ids=str,
)
def test_verl_validates_what_is_planned_and_nothing_else(
    changes: dict[str, Any], takes: bool
) -> None:
    values = {**VERL, "gpus": 2, **changes}
    plan = unchecked(values)
    words = tuple(f"{key}={value}" for key, value in overrides(plan).items())
    said = stops(lambda: validate_config(made._composed(False, words), plan.kl != "none", False))
    found, _ = try_plan(values)
    assert (not said) == takes == (found is not None and not limits.obstacles(found))


def function_of(path: str, name: str, **names: Any) -> Any:
    """One function of a file of verl's whose module imports vLLM."""
    file = Path(verl.__file__).parent / path
    nodes = ast.walk(ast.parse(file.read_text("utf-8")))
    (found,) = [node for node in nodes if getattr(node, "name", "") == name]
    exec(compile(ast.Module([found], []), str(file), "exec"), names)  # noqa: S102
    return names[name]


@pytest.mark.parametrize("rank", [8, 320, 512, 513, 1024])
def test_verls_engine_takes_the_ranks_that_are_planned(rank: int) -> None:
    """Without vLLM, whose list it asks first, it has one of its own."""
    file = "workers/rollout/vllm_rollout/utils.py"
    asked = function_of(file, "get_vllm_max_lora_rank", Literal=Literal, get_args=get_args)
    said = stops(lambda: asked(rank))
    told = {"framework": "verl", "method": "grpo", "finetuning": "lora", "lora_rank": rank}
    plan, problems = try_plan(told)
    assert (plan is None) == bool(said) == (rank > 512)
    assert all(said.partition(",")[0] in problem.message for problem in problems)


def test_trls_adapters_are_those_that_are_planned() -> None:
    source = Path(trl.__file__).parent / "trainer" / "sft_trainer.py"
    said = "Applying a PEFT adapter to `lm_head` is not supported"
    assert said in source.read_text("utf-8")
    told = {"framework": "trl", "method": "sft", "finetuning": "lora"}
    plan, problems = try_plan({**told, "lora_targets": "q_proj,lm_head"})
    assert plan is None
    assert any(said[1:].replace("`", "") in problem.message for problem in problems)


@pytest.mark.parametrize("tokens", [2048, 4096, 4097, 8192])
def test_verls_engine_starts_where_rows_are_within_the_models_positions(tokens: int) -> None:
    file = "workers/rollout/vllm_rollout/vllm_async_server.py"
    positions = {"get_max_position_embeddings": lambda config: config}
    check = function_of(file, "_validate_configs", **positions)
    plan = Plan(framework="verl", model="Qwen/Qwen2.5-Math-7B", response_tokens=tokens - 512)
    engine = SimpleNamespace(max_model_len=tokens, enable_chunked_prefill=True)
    server = SimpleNamespace(config=engine, model_config=SimpleNamespace(hf_config=4096))
    said = stops(lambda: check(server))
    found = [one for one in limits.obstacles(plan) if one.field == "response_tokens"]
    assert bool(found) == bool(said) == (tokens > 4096)
    assert all(said in one.why for one in found)


TRAINERS = {"grpo": trl.GRPOConfig, "rloo": trl.RLOOConfig}


@pytest.mark.parametrize("method", TRAINERS)
def test_trl_groups_what_is_planned(method: str, tmp_path: Path) -> None:
    """TRL may take batches that no plan has; it refuses none that one has."""
    said = {}
    for gpus, prompts, responses, size in product((1, 2), (2, 3), (1, 2, 3), (1, 2, 3)):
        values = {"framework": "trl", "method": method, "gpus": gpus, "prompts_per_step": prompts}
        values |= {"responses_per_prompt": responses, "micro_batch_size": size}
        plan, _ = try_plan(values)
        told = {key: arguments(unchecked(values))[key] for key in GROUPED}
        told |= {"output_dir": str(tmp_path), "use_cpu": True, "bf16": False}
        with patch.object(TrainingArguments, "world_size", gpus), warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            why = stops(lambda told=told: TRAINERS[method](**told))
        said[why[:16]] = plan
        assert plan is None or not why, (values, why)
    assert len(said) == 3, said  # full groups, at least two responses, or nothing


GROUPED = (
    "per_device_train_batch_size",
    "gradient_accumulation_steps",
    "num_generations",
    "steps_per_generation",
)
