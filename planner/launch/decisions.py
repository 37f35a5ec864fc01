"""Decisions that every program has, each with its reason."""

from __future__ import annotations

from collections.abc import Iterator

from planner.formulas.lora import adapted_names, lora_weights
from planner.launch.templates import Decision, of_fields
from planner.plan import Plan
from planner.plan.facts import facts_of
from planner.setup.setup import setup_of


def shared_decisions(plan: Plan) -> Iterator[Decision]:
    """Model, dtypes, adapters, batches, and what saves memory."""
    policy = setup_of(plan).models[0]
    modules, tensors = lora_names(plan)
    yield from of_fields(plan, {"model": "", "gpus": _PROCESSES if plan.gpus > 1 else ""})
    yield from of_fields(
        plan, {"dtype": "Dtype in which forwards compute and frozen models are stored."}
    )
    yield Decision(
        name="stored_dtype",
        value=policy.stored,
        why="Dtype of the policy's stored weights; adapters have the master copy's dtype.",
    )
    yield from of_fields(plan, {"master_dtype": ""})
    yield Decision(
        name="autocast",
        value=policy.autocast,
        why="Half-precision compute on fp32 weights, which are cast in each forward.",
    )
    yield from of_fields(plan, {"finetuning": _ADAPTERS[plan.finetuning], "lora_rank": ""})
    yield Decision(name="lora_targets", value=list(modules))
    yield Decision(
        name="lora_parameters",
        value=list(tensors),
        why="Tensors that hold all experts of a layer; peft adapts each tensor as a whole.",
    )
    checkpointing = _CHECKPOINTING[plan.gradient_checkpointing]
    reference = _REFERENCE.get(plan.reference, "")
    own = {"gradient_checkpointing": checkpointing, "reference": reference}
    yield from of_fields(plan, {**_FIELDS, **own})


def lora_names(plan: Plan) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What this model's family calls the planned adapters' modules, and tensors of experts."""
    if plan.finetuning == "full":
        return (), ()
    targets = tuple(name.strip() for name in plan.lora_targets.split(","))
    return adapted_names(lora_weights(facts_of(plan).policy, targets))


_ADAPTERS = {
    "full": "All weights train: each has a gradient and optimizer state.",
    "lora": "Only adapters train: only they have gradients and optimizer state.",
    "qlora": "Only adapters train; the base model is stored in 4 bits.",
}
_CHECKPOINTING = {
    "full": "Only each layer's input is stored; the backward recomputes the layer's activations.",
    "none": "Every layer's activations are kept until the backward; nothing is computed twice.",
}
_REFERENCE = {
    "copy": "A frozen copy of the model beside the policy.",
    "offloaded": "A frozen copy in host RAM, on the GPU only while it is used.",
    "adapter-disabled": "The policy without its adapters: no second copy of the weights.",
    "frozen-adapter": "The policy with a second adapter, which never trains.",
    "cached-logprobs": "Reference log-probs are computed once before training: one number per "
    "response.",
    "cached-activations": "The reference's last hidden states are computed once before training, "
    "one per response token; the loss runs the head on them.",
}
_PROCESSES = (
    "One process per GPU. Each process holds all weights, its own gradients and a flat buffer "
    "in which the gradients of all processes are summed."
)
_FIELDS = {
    "lora_dropout": "Above 0, every adapter also stores its inputs after dropout, and the dropout "
    "mask.",
    "gradient_checkpointing": "",
    "attention": "eager keeps a score for every pair of tokens; sdpa and flash keep none.",
    "optimizer": "AdamW stores two moments per trained weight. In its step, foreach also holds the "
    "square roots of all second moments at once; fused does not. SGD stores nothing.",
    "reference": "",
    "micro_batch_size": "Rows per forward: activations grow with this number; gradients are "
    "accumulated over micro-batches.",
    "prompts_per_update": "",
    "responses_per_prompt": "",
    "prompt_tokens": "",
    "response_tokens": "",
    "batch_shape": "Padded rows need a mask, which takes memory; full rows need none.",
    "empty_cache": "Except with never, the program returns the allocator's cached memory to the "
    "driver after each step.",
    "steps": "",
}
"""Fields that are constants of a program as they are; why, where that does not depend on them."""
