"""Rows of trainers whose data set has the responses: SFT's and DPO's arguments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from planner.frameworks.trl.rows import beyond, row
from planner.launch.huggingface.processes import activations_by_accelerate
from planner.launch.huggingface.resolved import Values, halves, offloads_activations
from planner.plan import Plan
from planner.values.setting import Setting

TEXT = "trainer/sft_config.py:{}"
BOTH = "trainer/dpo_config.py:{}"
MODEL = ("model_init_kwargs", None, "dtype", "attention")


def activations_by_trainer(plan: Plan) -> bool:
    """Whether TRL's trainer offloads what its whole step saves."""
    return bool(plan.activation_offload) and not activations_by_accelerate(plan)


def _shared(file: str, length: int, offload: int) -> tuple[Setting, Setting]:
    """What both of these trainers are told."""
    return (
        row(
            *(file.format(length), "max_length", 1024, "prompt_tokens", "response_tokens"),
            write=lambda plan: plan.prompt_tokens + plan.response_tokens,
            read=halves,
            unit="tokens",
        ),
        row(
            *(file.format(offload), "activation_offloading", False, "activation_offload"),
            write=lambda plan: activations_by_trainer(plan) or None,
            read=lambda value, values: {"activation_offload": offloads_activations(values)},
        ),
    )


_LENGTH, _ACTIVATIONS = _shared(TEXT, 202, 291)

GIVEN: tuple[Setting, ...] = (
    _LENGTH,
    row(
        *(TEXT.format(222), "packing", False, "batch_shape"),
        write=lambda plan: plan.batch_shape == "packed",
        read=lambda value, values: {"batch_shape": "packed" if value else "padded"},
    ),
    _ACTIVATIONS,
    row(TEXT.format(146), *MODEL),
    *beyond("text"),
)


def _cached(value: bool, values: Values) -> Mapping[str, Any]:
    if value:
        return {"reference": "cached-logprobs"}
    return {"reference": "adapter-disabled" if values["use_peft"] else "copy"}


PAIRS: tuple[Setting, ...] = (
    _shared(BOTH, 195, 320)[0],
    row(
        *(BOTH.format(227), "precompute_ref_log_probs", False, "reference"),
        write=lambda plan: plan.reference == "cached-logprobs" or None,
        read=_cached,
    ),
    _shared(BOTH, 195, 320)[1],
    row(BOTH.format(162), *MODEL),
    row(BOTH.format(185), "disable_dropout", True, "lora_dropout"),
    *beyond("pairs"),
)
