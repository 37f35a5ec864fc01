"""Rows of trainers that sample: GRPO's and RLOO's arguments, and their scripts' of rewards."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from planner.frameworks.trl import FRAMEWORK
from planner.frameworks.trl.rows import beyond, row
from planner.frameworks.trl.script import Script
from planner.launch import reward
from planner.launch.huggingface.resolved import (
    Values,
    generated,
    offloads_all,
    sequences,
    shares_gpus,
)
from planner.launch.huggingface.training import accumulation, updates
from planner.plan import Plan
from planner.plan.trainers import trainer_of
from planner.values.setting import Setting

FILE = "trainer/grpo_config.py:{}"
SCRIPT = "scripts/grpo.py:{}"

BETA = 0.001
"""KL coefficient: what GRPOConfig's documentation quotes of DeepSeek-R1; TRL's default is 0."""
ENTROPY_COEFFICIENT = 0.001


def script_of(plan: Plan) -> Script:
    """What the exporter knows of a plan's method."""
    found: Script = trainer_of(FRAMEWORK.name, plan.method).export
    return found


def asks_reward_file(plan: Plan) -> bool:
    """Whether an export has a file that scores responses."""
    script = script_of(plan)
    return script.samples and script.rewarded and plan.reward != "model"


def _colocated(plan: Plan, value: object) -> object:
    return value if plan.rollout == "vllm-colocated" else None


def _step(value: object, values: Values) -> Mapping[str, Any]:
    rows = sequences(values, generated(values) or 1)
    generations = int(values["num_generations"])
    if rows is None:
        return {}
    if rows % generations:
        raise ValueError(f"A rollout of {rows} is no whole number of {generations} responses.")
    return {"prompts_per_step": rows // generations}


def _engine(value: bool, values: Values) -> Mapping[str, Any]:
    if not value:
        return {"rollout": "hf"}
    where = {"colocate": "vllm-colocated", "server": "vllm-separate"}
    if values["vllm_mode"] not in where:
        raise ValueError(f"TRL has no vllm_mode {values['vllm_mode']}.")
    return {"rollout": where[values["vllm_mode"]]}


def _of_shared(field: str) -> Any:
    return lambda value, values: {field: value} if shares_gpus(values) else {}


def _engine_gpus(value: int, values: Values) -> Mapping[str, Any]:
    """TRL has an engine decode all of its sequences at once (``max_num_seqs``)."""
    if not shares_gpus(values):
        return {}
    at_once = int(values["per_device_train_batch_size"]) * (generated(values) or 1) * int(value)
    return {"rollout_tensor_parallel": int(value), "max_num_seqs": at_once}


def _longest(value: int | None, values: Values) -> Mapping[str, Any]:
    """None is the model's own context: nothing says how long prompts are."""
    if value is None or not shares_gpus(values) or values.get("max_prompt_length"):
        return {}
    prompt = int(value) - int(values["max_completion_length"])
    if prompt < 1:
        raise ValueError(f"{value} tokens leave no room for a prompt.")
    return {"prompt_tokens": prompt}


def _kl(place: str) -> Any:
    """Where a trainer has its term, and the reference that it then needs."""

    def read(value: float, values: Values) -> Mapping[str, Any]:
        if not value:
            return {"kl": "none", "reference": "none"}
        whole = "offloaded" if offloads_all(values) else "copy"
        return {"kl": place, "reference": "adapter-disabled" if values["use_peft"] else whole}

    return read


def _reward(value: object, values: Values) -> Mapping[str, Any]:
    name = values["reward_model_name_or_path"]
    if name:
        own = name == values["model_name_or_path"]
        return {"reward": "model", "reward_model": "" if own else name}
    return {"reward": "remote" if values["environment.REWARD_URL"] else "rule"}


def sampled(kl: str) -> tuple[Setting, ...]:
    """What every export of a trainer that samples says first; ``kl``: where its term enters."""
    return (
        row(
            *(FILE.format(480), "num_generations", 8, "responses_per_prompt"),
            write=lambda plan: plan.responses_per_prompt,
            read=lambda value, values: {"responses_per_prompt": int(value)},
            unit="responses",
        ),
        row(
            *(FILE.format(494), "max_completion_length", 512, "response_tokens"),
            write=lambda plan: plan.response_tokens,
            read=lambda value, values: {"response_tokens": int(value)},
            unit="tokens",
        ),
        row(
            *(FILE.format(528), "steps_per_generation", None, "prompts_per_step"),
            write=lambda plan: accumulation(plan) * updates(plan),
            read=_step,
            unit="micro-batches",
        ),
        row(
            *(FILE.format(532), "temperature", 1.0, "temperature"),
            moves="memory",
            write=lambda plan: plan.temperature,
            read=lambda value, values: {"temperature": float(value)},
        ),
        row(
            *(FILE.format(681), "beta", 0.0, "kl", "reference"),
            write=lambda plan: 0.0 if plan.kl == "none" else BETA,
            read=_kl(kl),
        ),
        row(
            *(FILE.format(876), "entropy_coef", 0.0, "entropy"),
            write=lambda plan: ENTROPY_COEFFICIENT if plan.entropy else 0.0,
            read=lambda value, values: {"entropy": bool(value)},
        ),
        row(
            *(FILE.format(587), "use_vllm", False, "rollout"),
            write=lambda plan: plan.rollout != "hf",
            read=_engine,
        ),
    )


def _told(name: str) -> Any:
    return lambda plan: trainer_of(FRAMEWORK.name, plan.method).told(plan).get(name)


def varied(variations: Mapping[str, Mapping[str, Any]]) -> tuple[Setting, ...]:
    """What together makes a published variation of a trainer's method."""

    def read(value: object, values: Values) -> Mapping[str, Any]:
        for name, told in variations.items():
            if all(values[setting] == wanted for setting, wanted in told.items()):
                return {"variation": name}
        return {"variation": "none"} if variations else {}

    return tuple(
        row(FILE.format(line), name, default, "variation", write=_told(name), read=how)
        for line, name, default, how in (
            (801, "loss_type", None, read),
            (789, "scale_rewards", "group", None),
            (760, "importance_sampling_level", "token", None),
            (693, "epsilon", 0.2, None),
            (705, "epsilon_high", None, None),
            (836, "mask_truncated_completions", False, None),
        )
    )

SAMPLES: tuple[Setting, ...] = (
    row(
        *(FILE.format(487), "num_generations_eval", None, "validation_responses"),
        moves="seconds",
        write=lambda plan: 1 if plan.eval_steps else None,
    ),
    row(
        *(SCRIPT.format(51), "reward_model_name_or_path", None, "reward", "reward_model"),
        write=lambda plan: (
            (plan.reward_model or plan.model)
            if plan.reward == "model" and script_of(plan).rewarded
            else None
        ),
        read=_reward,
    ),
    row(
        *(SCRIPT.format(58), "reward_funcs", None, "reward"),
        write=lambda plan: (
            [f"{reward.NAME.removesuffix('.py')}.{reward.FUNCTION}"]
            if asks_reward_file(plan)
            else None
        ),
    ),
    row(
        *(FILE.format(594), "vllm_mode", "colocate", "rollout"),
        write=lambda plan: {"vllm-colocated": "colocate", "vllm-separate": "server"}.get(
            plan.rollout
        ),
    ),
    row(
        *(FILE.format(656), "vllm_gpu_memory_utilization", 0.3, "gpu_memory_utilization"),
        write=lambda plan: _colocated(plan, plan.gpu_memory_utilization),
        read=_of_shared("gpu_memory_utilization"),
    ),
    row(
        *(FILE.format(671), "vllm_tensor_parallel_size", 1),
        *("rollout_tensor_parallel", "max_num_seqs"),
        unit="GPUs",
        write=lambda plan: _colocated(plan, plan.rollout_tensor_parallel),
        read=_engine_gpus,
    ),
    row(
        *(FILE.format(664), "vllm_max_model_length", None, "prompt_tokens"),
        write=lambda plan: _colocated(plan, plan.prompt_tokens + plan.response_tokens),
        read=_longest,
        unit="tokens",
    ),
    row(
        *(FILE.format(612), "vllm_enable_sleep_mode", False, "vllm_sleep_level"),
        write=lambda plan: _colocated(plan, plan.vllm_sleep_level == 2),
        read=lambda value, values: (
            {"vllm_sleep_level": 2 if value else 0} if shares_gpus(values) else {}
        ),
    ),
    row(FILE.format(521), "generation_batch_size", None, "prompts_per_step", unit="responses"),
    row(FILE.format(453), "disable_dropout", False, "lora_dropout"),
    row(FILE.format(429), "model_init_kwargs", None, "dtype", "attention"),
    *beyond("prompts"),
)
