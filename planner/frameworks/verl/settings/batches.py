"""Lengths, batches, and how each GPU's share of one is cut (``data``, ``actor``, ``ref``)."""

from __future__ import annotations

from collections.abc import Mapping
from operator import attrgetter
from typing import Any

from planner.frameworks.verl.settings.algorithm import (
    ENTROPY_COEFFICIENT,
    KL_LOSS,
    KL_LOSS_COEFFICIENT,
)
from planner.frameworks.verl.settings.engine import (
    COMPUTED,
    OPTIMIZED,
    RESHARDING,
    SHARDED,
    SHARDING,
    SIZE,
    STORED,
    kept,
)
from planner.frameworks.verl.settings.roles import (
    always,
    budgets,
    compares,
    compares_whole,
)
from planner.frameworks.verl.settings.rows import (
    ACTOR,
    REFERENCE,
    ROLLOUT,
    Added,
    Said,
    carries,
    follows,
    joint,
    real,
    same_as,
    truth,
    whole,
)
from planner.plan import Plan
from planner.values.setting import Setting

LENGTHS = (
    carries(
        "prompts_per_step", "data.train_batch_size", 1024, "data/legacy_data.yaml:42",
        unit="prompts",
    ),
    carries(
        "prompt_tokens", "data.max_prompt_length", 512, "data/legacy_data.yaml:35", unit="tokens"
    ),
    Setting(
        name="data.max_response_length", default=512,
        source="data/legacy_data.yaml:39", unit="tokens",
        fields=("response_tokens", "validation_response_tokens"),
        write=lambda plan: plan.response_tokens,
        # Validation has the length of training.
        read=lambda value, said: dict.fromkeys(
            ("response_tokens", "validation_response_tokens"), whole(value)
        ),
    ),
    joint(
        ("prompt_tokens",), "data.filter_overlong_prompts", False, "data/legacy_data.yaml:83",
        lambda plan: True,
    ),
)  # fmt: skip


def _sequences(field: str, name: str, source: str) -> Setting:
    """How many sequences a pass takes at once, where no budget of tokens says it."""

    def read(value: Any, said: Said) -> Mapping[str, Any]:
        if budgets(said):
            return {}
        if value is None:
            raise ValueError("verl asks for it where use_dynamic_bsz is false.")
        return {field: whole(value)}

    return Setting(
        name=name, default=None, source=source, unit="sequences", fields=(field,),
        write=attrgetter(field), read=read,
    )  # fmt: skip


def _budget(said: Said) -> Mapping[str, Any]:
    told = truth(said[f"{ACTOR}.use_dynamic_bsz"])
    budget = whole(said[f"{ACTOR}.ppo_max_token_len_per_gpu"]) if told else 0
    return {"max_tokens_per_micro_batch": budget}


_BUDGET = ("max_tokens_per_micro_batch",)

DYNAMIC = joint(
    _BUDGET, f"{ACTOR}.use_dynamic_bsz", False, "actor/actor.yaml:28",
    lambda plan: plan.max_tokens_per_micro_batch > 0, _budget,
)  # fmt: skip
ROWS = _sequences(
    "micro_batch_size", f"{ACTOR}.ppo_micro_batch_size_per_gpu", "actor/actor.yaml:24"
)
TOKENS = joint(
    _BUDGET, f"{ACTOR}.ppo_max_token_len_per_gpu", 16384, "actor/actor.yaml:33",
    lambda plan: plan.max_tokens_per_micro_batch or None, _budget,
)  # fmt: skip
LOGPROB_ROWS = _sequences(
    "logprob_micro_batch_size", f"{ROLLOUT}.log_prob_micro_batch_size_per_gpu",
    "rollout/rollout.yaml:109",
)  # fmt: skip
UPDATE = carries(
    "prompts_per_update", f"{ACTOR}.ppo_mini_batch_size", 256, "actor/actor.yaml:18",
    unit="prompts",
)  # fmt: skip

TRAINED = (
    SHARDING,
    *SHARDED,
    *OPTIMIZED,
    UPDATE,
    DYNAMIC,
    ROWS,
    carries(
        "entropy", f"{ACTOR}.entropy_coeff", 0, "actor/actor.yaml:93",
        lambda value: real(value) != 0,
        write=lambda plan: ENTROPY_COEFFICIENT if plan.entropy else 0,
    ),
    KL_LOSS,
    TOKENS,
    KL_LOSS_COEFFICIENT,
)  # fmt: skip


def _whole(plan: Plan) -> bool:
    return plan.kl != "none" and plan.finetuning == "full"


_REF = f"{REFERENCE}.fsdp_config"

COMPARED = (
    same_as(
        STORED, f"{_REF}.model_dtype", "fp32", "engine/fsdp.yaml:33", compares_whole, kept,
        also=_whole,
    ),
    same_as(
        COMPUTED, f"{_REF}.mixed_precision.param_dtype", "bf16",
        "workers/engine/fsdp/transformer_impl.py:393", compares_whole,
        # Unless told, FSDP computes in bf16.
        also=lambda plan: _whole(plan) and plan.dtype != "bf16", kind=Added,
    ),
    same_as(
        SIZE, f"{_REF}.fsdp_size", -1, "engine/fsdp.yaml:26", compares_whole,
        also=lambda plan: _whole(plan) and plan.shard_size > 0,
    ),
    same_as(
        RESHARDING, f"{_REF}.reshard_after_forward", True, "engine/fsdp.yaml:23", compares_whole,
        also=_whole,
    ),
    same_as(
        LOGPROB_ROWS, f"{REFERENCE}.log_prob_micro_batch_size_per_gpu", None, "ref/ref.yaml:16",
        lambda said: compares(said) and not budgets(said), also=lambda plan: plan.kl != "none",
    ),
)  # fmt: skip


_ACTORS_WAY = f"${{oc.select:{DYNAMIC.name},false}}"
_ACTORS_BUDGET = f"${{oc.select:{TOKENS.name},16384}}"

FOLLOWING = (
    follows(
        SHARDING, f"{REFERENCE}.strategy", f"${{{SHARDING.name}}}", "ref/ref.yaml:5",
        compares_whole,
    ),
    follows(
        DYNAMIC, f"{REFERENCE}.log_prob_use_dynamic_bsz", _ACTORS_WAY, "ref/ref.yaml:20", compares
    ),
    follows(
        TOKENS, f"{REFERENCE}.log_prob_max_token_len_per_gpu", _ACTORS_BUDGET, "ref/ref.yaml:24",
        lambda said: compares(said) and budgets(said),
    ),
    follows(
        DYNAMIC, f"{ROLLOUT}.log_prob_use_dynamic_bsz", _ACTORS_WAY, "rollout/rollout.yaml:113",
        always,
    ),
    follows(
        TOKENS, f"{ROLLOUT}.log_prob_max_token_len_per_gpu", _ACTORS_BUDGET,
        "rollout/rollout.yaml:117", budgets,
    ),
    follows(
        LENGTHS[1], f"{ROLLOUT}.prompt_length", "${oc.select:data.max_prompt_length,512}",
        "rollout/rollout.yaml:35", always,
    ),
    follows(
        LENGTHS[2], f"{ROLLOUT}.response_length", "${oc.select:data.max_response_length,512}",
        "rollout/rollout.yaml:39", always,
    ),
)  # fmt: skip
