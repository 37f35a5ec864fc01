"""How long a run is, what it reads, and what scores its responses (``trainer``, ``data``)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from planner.frameworks.verl.settings.algorithm import SAMPLING
from planner.frameworks.verl.settings.rows import (
    ACTOR,
    MODEL,
    ROLLOUT,
    Said,
    carries,
    joint,
    refuses,
    shown,
    truth,
    whole,
)
from planner.values.setting import Setting

TRAIN_FILES, VAL_FILES = "data.train_files", "data.val_files"


def _every(value: Any) -> int:
    return max(whole(value), 0)


RUN = (
    Setting(
        name="trainer.total_training_steps", default=None, moves="seconds",
        source="ppo_trainer.yaml:147", fields=("steps",), write=lambda plan: plan.steps,
        read=lambda value, said: {} if value is None else {"steps": whole(value)},
    ),
    carries(
        "save_steps", "trainer.save_freq", -1, "ppo_trainer.yaml:174", _every,
        write=lambda plan: plan.save_steps or None, unit="steps",
    ),
    carries(
        "eval_steps", "trainer.test_freq", -1, "ppo_trainer.yaml:205", _every,
        write=lambda plan: plan.eval_steps or None, unit="steps", moves="seconds",
    ),
)  # fmt: skip


def _reward_model(value: Any, said: Said) -> Mapping[str, Any]:
    if not said["reward.reward_model.enable"]:
        return {}
    if not isinstance(value, str):
        raise ValueError(f"{shown(value)} is no model of the catalog.")
    return {"reward_model": value}


_STEPS = ("steps",)

SOURCES = (
    joint(_STEPS, "trainer.total_epochs", 30, "ppo_trainer.yaml:144", moves="seconds"),
    joint(
        _STEPS, TRAIN_FILES, "~/data/rlhf/gsm8k/train.parquet", "data/legacy_data.yaml:11",
        moves="seconds",
    ),
    joint(_STEPS, "data.train_max_samples", -1, "data/legacy_data.yaml:19", moves="seconds"),
    joint(
        ("validation_responses",), VAL_FILES, "~/data/rlhf/gsm8k/test.parquet",
        "data/legacy_data.yaml:14", moves="seconds",
    ),
    joint(
        ("validation_responses",), "data.val_max_samples", -1, "data/legacy_data.yaml:24",
        moves="seconds",
    ),
    joint(
        ("validation_responses",), f"{ROLLOUT}.val_kwargs.n", 1, "rollout/rollout.yaml:167",
        moves="seconds",
    ),
    Setting(
        name="reward.reward_model.enable", default=False,
        source="reward/reward.yaml:29", fields=("reward",),
        read=lambda value, said: {"reward": "model" if truth(value) else "rule"},
    ),
    Setting(
        name="reward.reward_model.model_path", default=None,
        source="reward/reward.yaml:37", fields=("reward_model",), read=_reward_model,
    ),
    *SAMPLING,
    refuses(
        "turns", f"{ROLLOUT}.multi_turn.enable", False, "rollout/rollout.yaml:183", (False,),
        "Responses of several turns grow by what tools say between them: memory and seconds rise.",
    ),
    refuses(
        "rollout_overlap", "trainer.v1.trainer_mode", "sync", "ppo_trainer.yaml:238", ("sync",),
        "Generation runs beside training: the engine's memory stays, and steps overlap.",
    ),
    # Whole dictionaries, whose entries have rows of their own.
    joint(("attention",), f"{MODEL}.override_config", {}, "model/hf_model.yaml:31"),
    joint(
        ("kv_cache_dtype", "async_scheduling"), f"{ROLLOUT}.engine_kwargs.vllm", {},
        "rollout/rollout.yaml:142",
    ),
    refuses(
        "micro_batch_size", f"{ACTOR}.ppo_micro_batch_size", None, "actor/actor.yaml:21", (None,),
        "verl counts it over all GPUs and gave it up: set ppo_micro_batch_size_per_gpu.",
    ),
    refuses(
        "logprob_micro_batch_size", f"{ROLLOUT}.log_prob_micro_batch_size", None,
        "rollout/rollout.yaml:106", (None,),
        "verl counts it over all GPUs and gave it up: set log_prob_micro_batch_size_per_gpu.",
    ),
    refuses(
        "rollout", f"{ROLLOUT}.mode", "async", "rollout/rollout.yaml:8", ("async",),
        "verl removed every mode but async.",
    ),
)  # fmt: skip
