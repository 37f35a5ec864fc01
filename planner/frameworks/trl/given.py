"""Rows of trainers whose data set has the responses: SFT's and DPO's arguments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from planner.frameworks.trl.rows import other, row
from planner.launch.huggingface.processes import activations_by_accelerate
from planner.launch.huggingface.resolved import Values, halves, offloads_activations
from planner.plan import Plan
from planner.values.setting import Setting

TEXT = "trainer/sft_config.py:{}"
BOTH = "trainer/dpo_config.py:{}"


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


def _beside(file: str, *lines: int) -> tuple[Setting, ...]:
    """What both have and no field has."""
    init, aux, free, padded = (file.format(line) for line in lines)
    return (
        row(init, "model_init_kwargs", None, "dtype", "attention"),
        other(aux, "router_aux_loss_coef", None, "memory", "More: logits of the routers stay."),
        other(free, "padding_free", False, "both", "Less: rows are joined without padding."),
        other(padded, "pad_to_multiple_of", "auto", "memory", "More: rows are padded further."),
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
    *_beside(TEXT, 146, 161, 238, 248),
    other(TEXT.format(229), "packing_strategy", "bfd", "seconds", "Rows are filled otherwise."),
    other(TEXT.format(255), "eval_packing", None, "both", "Validation's rows are packed or not."),
    other(TEXT.format(261), "completion_only_loss", None, "both", "Less: the head scores fewer."),
    other(TEXT.format(273), "assistant_only_loss", False, "both", "Less: the head scores fewer."),
    other(TEXT.format(283), "loss_type", "nll", "memory", "Another loss over the vocabulary."),
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
    *_beside(BOTH, 162, 177, 210, 220),
    row(BOTH.format(185), "disable_dropout", True, "lora_dropout"),
    other(BOTH.format(235), "precompute_ref_batch_size", None, "memory", "Rows it scores before."),
    other(BOTH.format(245), "loss_type", ["sigmoid"], "both", "Other losses may keep more."),
    other(BOTH.format(262), "ld_alpha", None, "both", "More: log-probs are split by length."),
    other(BOTH.format(305), "use_weighting", False, "both", "More: log-probs of whole logits."),
    other(BOTH.format(324), "sync_ref_model", False, "seconds", "More: weights are mixed."),
)
