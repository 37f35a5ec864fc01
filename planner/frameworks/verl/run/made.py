"""verl's engines as its workers make them from what an export writes, and their batches."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import torch
import verl
from hydra import compose, initialize_config_dir
from omegaconf import open_dict
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
from verl.utils import tensordict_utils as tu
from verl.utils.config import omega_conf_to_dataclass
from verl.workers.engine.fsdp.transformer_impl import FSDPEngineWithLMHead, FSDPEngineWithValueHead
from verl.workers.utils.losses import ppo_loss, value_loss

from planner.frameworks.verl.overrides import apart, overrides
from planner.plan import Plan
from planner.setup.quantities import quantities

PACKAGE = Path(verl.__file__).parent
YAML = {
    False: ("trainer/config", "ppo_trainer"),
    True: ("experimental/one_step_off_policy/config", "one_step_off_ppo_trainer"),
}
"""Folder and name of a program's configuration, by whether the engine has GPUs of its own.

Its trainer's workers make the same engines (``experimental/separation/engine_workers.py``).
"""
ENOUGH = 2
"""Micro-batches of a pass that are run: the second finds what the first has left."""

Config = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Made:
    """An engine, and the loss that its worker gives it."""

    engine: Any
    loss: Any


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
    kind = FSDPEngineWithValueHead if critic else FSDPEngineWithLMHead
    engine: Any = kind(model, worker.engine, worker.optim, worker.checkpoint)
    engine._build_model_optimizer()
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


OF_AN_ACTOR = {
    "log_prob_micro_batch_size": "ppo_micro_batch_size",
    "log_prob_micro_batch_size_per_gpu": "ppo_micro_batch_size_per_gpu",
    "log_prob_use_dynamic_bsz": "use_dynamic_bsz",
    "log_prob_max_token_len_per_gpu": "ppo_max_token_len_per_gpu",
}


def batch(plan: Plan, *, training: bool) -> Any:
    """As many sequences as ``ENOUGH`` micro-batches of a pass have, as a worker is given them.

    Nested rows at the plan's caps; of padded ones the last of a micro-batch has one token less.
    """
    q = quantities(plan)
    size, per_pass = (
        (q.micro_sequences, q.sequences_per_gpu_update)
        if training
        else (q.logprob_sequences, q.sequences_per_gpu_step)
    )
    count = int(size) * min(ENOUGH, int(per_pass) // int(size))
    lengths = list(_lengths(plan, int(size), count))
    rows = [plan.prompt_tokens + length for length in lengths]
    ids = partial(torch.zeros, dtype=torch.int64)
    fields = {
        "input_ids": map(ids, rows),
        "position_ids": map(torch.arange, rows),
        "loss_mask": map(partial(torch.ones, dtype=torch.int64), rows),
        "prompts": map(ids, [plan.prompt_tokens] * count),
        "responses": map(ids, lengths),
        "response_mask": (torch.ones(length, dtype=torch.int64) for length in lengths),
    }
    names = ("old_log_probs", "advantages", "values", "returns")
    numbers = (*names, *(("ref_log_prob",) if plan.kl == "loss" else ())) if training else ()
    fields |= {name: map(torch.zeros, lengths) for name in numbers}
    return tu.get_tensordict(
        {
            name: torch.nested.as_nested_tensor(list(of_rows), layout=torch.jagged)
            for name, of_rows in fields.items()
        },
        {
            # trainer_base.py and what engine_workers.py adds to it
            "temperature": plan.temperature,
            "global_batch_size": plan.prompts_per_update * plan.responses_per_prompt,
            "use_dynamic_bsz": False,
            "micro_batch_size_per_gpu": int(size),
            "use_remove_padding": plan.batch_shape == "packed",
            "use_fused_kernels": False,
        },
    )


def _lengths(plan: Plan, size: int, count: int) -> Iterator[int]:
    """Tokens of each response."""
    for place in range(count):
        short = plan.batch_shape == "padded" and size > 1 and place % size == size - 1
        yield plan.response_tokens - short
