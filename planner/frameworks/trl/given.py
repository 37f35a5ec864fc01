"""Rows of trainers whose data set has the responses: SFT's and DPO's arguments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from planner.frameworks.trl.rows import beyond, row
from planner.launch.huggingface.processes import activations_by_accelerate
from planner.launch.huggingface.resolved import Values
from planner.plan import Plan
from planner.values.setting import Setting

TEXT = "trainer/sft_config.py:{}"
BOTH = "trainer/dpo_config.py:{}"
MODEL = ("model_init_kwargs", None, "dtype", "attention")


def activations_by_trainer(plan: Plan) -> bool:
    """Whether TRL's trainer offloads what its whole step saves."""
    return bool(plan.activation_offload) and not activations_by_accelerate(plan)


def _lengths(value: int | None, values: Values) -> Mapping[str, Any]:
    """Half each for prompt and response: only the data says where a response begins."""
    if value is None or value < 2:
        raise ValueError("The data set says how long rows are; set the lengths by hand.")
    return {"prompt_tokens": value // 2, "response_tokens": value - value // 2}


def _offloaded(value: bool, values: Values) -> Mapping[str, Any]:
    name = "accelerate.fsdp_config.fsdp_activation_checkpointing_offload"
    fsdp = values["accelerate.distributed_type"] == "FSDP"
    return {"activation_offload": bool(value) or bool(fsdp and values[name])}


def _length(at: str) -> Setting:
    return row(
        *(at, "max_length", 1024, "prompt_tokens", "response_tokens"),
        write=lambda plan: plan.prompt_tokens + plan.response_tokens,
        read=_lengths,
        unit="tokens",
    )


def _activations(at: str) -> Setting:
    return row(
        *(at, "activation_offloading", False, "activation_offload"),
        write=lambda plan: activations_by_trainer(plan) or None,
        read=_offloaded,
    )


GIVEN: tuple[Setting, ...] = (
    _length(TEXT.format(202)),
    row(
        *(TEXT.format(222), "packing", False, "batch_shape"),
        write=lambda plan: plan.batch_shape == "packed",
        read=lambda value, values: {"batch_shape": "packed" if value else "padded"},
    ),
    _activations(TEXT.format(291)),
    row(TEXT.format(146), *MODEL),
    *beyond("text"),
)


def _cached(value: bool, values: Values) -> Mapping[str, Any]:
    if value:
        return {"reference": "cached-logprobs"}
    return {"reference": "adapter-disabled" if values["use_peft"] else "copy"}


PAIRS: tuple[Setting, ...] = (
    _length(BOTH.format(195)),
    row(
        *(BOTH.format(227), "precompute_ref_log_probs", False, "reference"),
        write=lambda plan: plan.reference == "cached-logprobs" or None,
        read=_cached,
    ),
    _activations(BOTH.format(320)),
    row(BOTH.format(162), *MODEL),
    row(BOTH.format(185), "disable_dropout", True, "lora_dropout"),
    *beyond("pairs"),
)
