"""verl's engines as its workers make them from what an export writes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import verl
from hydra import compose, initialize_config_dir
from omegaconf import open_dict
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
from verl.utils.config import omega_conf_to_dataclass
from verl.workers.engine.fsdp.transformer_impl import FSDPEngineWithLMHead, FSDPEngineWithValueHead
from verl.workers.utils.losses import ppo_loss, value_loss

from planner.frameworks.verl.overrides import overrides
from planner.frameworks.verl.settings.roles import apart
from planner.plan import Plan

PACKAGE = Path(verl.__file__).parent
YAML = {
    False: ("trainer/config", "ppo_trainer"),
    True: ("experimental/one_step_off_policy/config", "one_step_off_ppo_trainer"),
}
"""Folder and name of a program's configuration, by whether the engine has GPUs of its own.

Its trainer's workers make the same engines (``experimental/separation/engine_workers.py``).
"""
Config = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Made:
    """An engine, and the loss that its worker gives it."""

    engine: Any
    loss: Any

    def added(self, *, training: bool) -> dict[str, Any]:
        """What its worker adds to a batch (``TrainingWorker.train_batch``, ``infer_batch``)."""
        told = self.engine.engine_config
        kind = "" if training else "infer_"
        return {
            "use_remove_padding": self.engine.model_config.use_remove_padding,
            "use_dynamic_bsz": told.use_dynamic_bsz,
            "max_token_len_per_gpu": told[f"{kind}max_token_len_per_gpu"],
            "micro_batch_size_per_gpu": told[f"{kind}micro_batch_size_per_gpu"],
            "use_fused_kernels": told.use_fused_kernels,
        }


def settings_of(plan: Plan, folder: Path, configs: Mapping[str, Config]) -> Any:
    """Verl's configuration of a plan: its own YAML with the export's overrides.

    Args:
        plan: what to configure.
        folder: an empty folder, where config.json of each role is written.
        configs: its fields, by role.
    """
    values = overrides(plan) | {"+actor_rollout_ref.model.load_tokenizer": False}
    if "critic.model.path" in values:
        values["+critic.model.load_tokenizer"] = False
    words = tuple(f"{key}={value}" for key, value in values.items())
    config = deepcopy(_composed(apart(plan), words))
    config.actor_rollout_ref.model.path = _described(folder / "policy", configs["policy"])
    if "critic.model.path" in values:
        config.critic.model.path = _described(folder / "critic", configs["critic"])
    return config


@lru_cache(maxsize=4)
def _composed(engine_apart: bool, words: tuple[str, ...]) -> Any:
    """Half a second of reading YAML."""
    folder, name = YAML[engine_apart]
    with initialize_config_dir(str(PACKAGE / folder), version_base=None):
        return compose(name, overrides=list(words))


def _described(folder: Path, config: Config) -> str:
    """A folder with a config.json and nothing else."""
    folder.mkdir(exist_ok=True)
    architecture = MODEL_FOR_CAUSAL_LM_MAPPING_NAMES[config["model_type"]]
    values = {**config, "architectures": [architecture]}
    (folder / "config.json").write_text(json.dumps(values), "utf-8")
    return str(folder)


def made(role: str, config: Any) -> Made:
    """The engine of a role with its model and optimizer, as verl's workers make it.

    What of the roles' settings an engine is told stands in ``engine_workers.py``
    (``TrainingWorker.__init__``, ``ActorRolloutRefWorker.init_model``).
    """
    actor, critic = config.actor_rollout_ref, role == "critic"
    worker: Any = omega_conf_to_dataclass(_part(role, config))
    model: Any = worker.model if critic else omega_conf_to_dataclass(actor.model)
    model.model_type = "value_model" if critic else "language_model"
    worker.engine.use_remove_padding = model.use_remove_padding
    worker.engine.use_fused_kernels = model.use_fused_kernels
    for name, value in _batching(role, worker, config).items():
        setattr(worker.engine, name, value)
    kind = FSDPEngineWithValueHead if critic else FSDPEngineWithLMHead
    engine: Any = kind(model, worker.engine, worker.optim, worker.checkpoint)
    engine._build_model_optimizer()
    away = engine.is_param_offload_enabled
    engine.to("cpu", model=away, optimizer=engine.is_optimizer_offload_enabled, grad=away)
    return Made(engine, partial(value_loss if critic else ppo_loss, config=worker))


def _part(role: str, config: Any) -> Any:
    """A role's own settings; the reference's in an actor's words."""
    if role == "critic":
        return config.critic
    actor = config.actor_rollout_ref.actor
    if role == "policy":
        return actor
    part = config.actor_rollout_ref.ref
    with open_dict(part):
        part.ppo_mini_batch_size = actor.ppo_mini_batch_size
        for own, of_an_actor in OF_AN_ACTOR.items():
            part[of_an_actor] = part.pop(own)
    return part


def _batching(role: str, worker: Any, config: Any) -> dict[str, Any]:
    """How an engine's batches are cut, as whoever makes it copies that to its own settings.

    A critic's trainer (``v1/trainer_base.py``) copies one budget for both passes, and neither how
    many rows there are nor whether there is a budget: those stand in its engine's own settings.
    """
    if role == "critic":
        budget = worker.ppo_infer_max_token_len_per_gpu
        return {"max_token_len_per_gpu": budget, "infer_max_token_len_per_gpu": budget}
    told = {
        "use_dynamic_bsz": worker.use_dynamic_bsz,
        "max_token_len_per_gpu": worker.ppo_max_token_len_per_gpu,
        "micro_batch_size_per_gpu": worker.ppo_micro_batch_size_per_gpu,
    }
    if role == "reference":  # it has no other pass
        return told | {f"infer_{name}": told[name] for name in SIZES}
    rollout = config.actor_rollout_ref.rollout
    return told | {f"infer_{name}": rollout[f"log_prob_{name}"] for name in SIZES}


SIZES = ("max_token_len_per_gpu", "micro_batch_size_per_gpu")


OF_AN_ACTOR = {
    "log_prob_micro_batch_size": "ppo_micro_batch_size",
    "log_prob_micro_batch_size_per_gpu": "ppo_micro_batch_size_per_gpu",
    "log_prob_use_dynamic_bsz": "use_dynamic_bsz",
    "log_prob_max_token_len_per_gpu": "ppo_max_token_len_per_gpu",
}
