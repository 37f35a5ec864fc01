"""A real training step, run by a plan: transformers, peft and torch's own AdamW.

It knows no formula. The tests run it on a CPU and count live storages; ``accuracy.gpu``
runs it on a card and reads the allocator's counters.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any, Protocol

import peft
import torch
import transformers

from planner.plan import Plan
from planner.steps.stage import DTYPES


class Meter(Protocol):
    """What watches a step: a context around it, and a peak that can be started anew."""

    def watch(self) -> AbstractContextManager[Any]:
        """A context in which everything is counted."""

    def reset_peak(self) -> None:
        """Forget the peak so far."""

    def read(self) -> Any:
        """The peak since the last reset, in the meter's own form."""


def real_step(
    config: Mapping[str, Any], plan: Plan, meter: Meter, device: str = "cpu"
) -> dict[str, Any]:
    """Peaks of forward, backward and optimizer step in the second of two steps.

    Args:
        config: fields of the model's config.json.
        plan: an SFT plan on one GPU without sharding.
        meter: what to read peaks from.
        device: where everything is built and run.
    """
    torch.manual_seed(0)
    length = plan.prompt_tokens + plan.response_tokens
    found: dict[str, Any] = {}
    with meter.watch(), torch.device(device):
        model = build(config, plan)
        optimizer = _optimizer(model, plan)
        for _ in range(2):
            for _ in range(plan.prompts_per_step // plan.micro_batch_size):
                ids = torch.randint(3, config["vocab_size"], (plan.micro_batch_size, length))
                mask = None
                if plan.batch_shape == "padded":
                    mask = torch.ones_like(ids)
                    mask[:, 0] = 0
                meter.reset_peak()
                loss = model(input_ids=ids, labels=ids, attention_mask=mask).loss
                found["policy forward"] = meter.read()
                meter.reset_peak()
                loss.backward()
                found["policy backward"] = meter.read()
                del loss, ids, mask
            meter.reset_peak()
            optimizer.step()
            found["optimizer step"] = meter.read()
            optimizer.zero_grad(set_to_none=True)
    return found


def build(config: Mapping[str, Any], plan: Plan) -> Any:
    """The plan's model with random weights, in training mode."""
    dtype = DTYPES[plan.dtype]
    settings = transformers.AutoConfig.for_model(
        **{**config, "torch_dtype": str(dtype).removeprefix("torch.")}
    )
    settings.use_cache = False
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        model = transformers.AutoModelForCausalLM.from_config(
            settings, attn_implementation=plan.attention
        )
    finally:
        torch.set_default_dtype(before)
    if plan.finetuning == "lora":
        model = _adapted(model, plan)
    model.train()
    if plan.gradient_checkpointing == "full":
        if plan.finetuning == "lora":
            model.enable_input_require_grads()
        model.activation_checkpointing_enable({"use_reentrant": False})
    return model


def _adapted(model: Any, plan: Plan) -> Any:
    return peft.get_peft_model(
        model,
        peft.LoraConfig(
            r=plan.lora_rank,
            target_modules=plan.lora_targets.split(","),
            lora_dropout=0.0,
            task_type="CAUSAL_LM",
        ),
        autocast_adapter_dtype=plan.master_dtype == "fp32",
    )


def _optimizer(model: Any, plan: Plan) -> torch.optim.Optimizer:
    trained = [weight for weight in model.parameters() if weight.requires_grad]
    foreach = plan.optimizer == "adamw-foreach"
    return torch.optim.AdamW(trained, foreach=foreach, fused=not foreach)
