"""The models of a run, as the plan has them, from safetensors alone."""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import peft
import torch
import transformers
from torch import nn

DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}
ATTENTION = {
    "eager": "eager",
    "sdpa": "sdpa",
    "flash": "flash_attention_2",
    "flash_attention_3": "flash_attention_3",
}


def loaded(
    kind: Any, name: str, revision: str | None, dtype: str, plan: Mapping[str, Any], **more: Any
) -> Any:
    """A model of transformers' ``kind``; never code that comes with the weights, never pickles.

    Stops where weights are missing, which transformers would begin at random.
    """
    model, info = kind.from_pretrained(
        name,
        revision=revision,
        dtype=DTYPES[dtype],
        attn_implementation=ATTENTION[plan["attention"]],
        use_safetensors=True,
        trust_remote_code=False,
        output_loading_info=True,
        **more,
    )
    if missing := sorted(info["missing_keys"]):
        raise SystemExit(f"{name} has no {missing[0]}: it is no {type(model).__name__}.")
    model.config.use_cache = False
    return model


def language_model(plan: Mapping[str, Any], given: argparse.Namespace, dtype: str) -> Any:
    """The run's model, in host RAM."""
    return loaded(transformers.AutoModelForCausalLM, given.model, given.revision, dtype, plan)


def frozen_reference(
    plan: Mapping[str, Any], given: argparse.Namespace, device: torch.device
) -> Any:
    """The frozen model beside the policy, where the plan has one."""
    if plan["reference"] not in ("copy", "offloaded"):
        return None
    model = frozen(language_model(plan, given, plan["dtype"]))
    return model.to("cpu" if plan["reference"] == "offloaded" else device)


def trained_policy(plan: Mapping[str, Any], model: nn.Module) -> nn.Module:
    """The model with adapters if planned, in training mode, recomputing its layers if planned."""
    policy: Any = model
    if plan["finetuning"] == "lora":
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            policy = peft.get_peft_model(
                model,
                peft.LoraConfig(
                    r=plan["lora_rank"],
                    target_modules=list(plan["lora_targets"]),
                    target_parameters=list(plan["lora_parameters"]) or None,
                    lora_dropout=plan["lora_dropout"],
                    task_type="CAUSAL_LM",
                ),
                autocast_adapter_dtype=plan["master_dtype"] == "fp32",
            )
    # from_pretrained leaves evaluation mode, in which transformers recomputes nothing.
    policy.train()
    if plan["gradient_checkpointing"] == "full":
        inner = policy.get_base_model() if hasattr(policy, "get_base_model") else policy
        inner.gradient_checkpointing_enable({"use_reentrant": False})
        if not policy.get_input_embeddings().weight.requires_grad:
            # A frozen embedding's output would have no gradient to pass on.
            inner.enable_input_require_grads()
    return policy


def optimizer_of(plan: Mapping[str, Any], policy: nn.Module, rate: float) -> torch.optim.Optimizer:
    """The planned optimizer over the weights that train."""
    trained = [weight for weight in policy.parameters() if weight.requires_grad]
    if plan["optimizer"] == "sgd":
        return torch.optim.SGD(trained, lr=rate, foreach=False)
    if plan["optimizer"] == "adamw-foreach":
        return torch.optim.AdamW(trained, lr=rate, foreach=True)
    return torch.optim.AdamW(trained, lr=rate, fused=True)


@contextmanager
def without_adapters(policy: Any) -> Iterator[None]:
    """The base model alone answers inside; its adapters stay trainable."""
    layers = [each for each in policy.modules() if isinstance(each, peft.tuners.lora.LoraLayer)]
    for layer in layers:
        layer._disable_adapters = True
    try:
        yield
    finally:
        for layer in layers:
            layer._disable_adapters = False


@contextmanager
def on_device(model: nn.Module | None, device: torch.device, waits: bool) -> Iterator[None]:
    """Bring a frozen model that waits in host RAM to the device, and send it back after."""
    moved = list(model.parameters()) if waits and model is not None else []
    for weight in moved:
        weight.data = weight.data.to(device)
    yield
    for weight in moved:
        weight.data = weight.data.to("cpu")


@contextmanager
def answering(
    plan: Mapping[str, Any], policy: Any, reference: Any, device: torch.device
) -> Iterator[Any]:
    """The model that answers as the reference inside, on the device."""
    if reference is None:
        with without_adapters(policy):
            yield policy
        return
    with on_device(reference, device, plan["reference"] == "offloaded"):
        yield reference


def casting(plan: Mapping[str, Any], device: torch.device) -> AbstractContextManager[Any]:
    """Half-precision compute on fp32 weights, where it is planned."""
    if not plan["autocast"]:
        return nullcontext()
    return torch.autocast(device.type, DTYPES[plan["dtype"]], enabled=True)


def tokenizer_of(name: str, revision: str | None) -> Any:
    """The model's tokenizer, with something to pad with."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(
        name, revision=revision, trust_remote_code=False
    )
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    return tokenizer


def frozen(model: Any) -> Any:
    """The model without gradient, in evaluation mode."""
    return model.eval().requires_grad_(False)
