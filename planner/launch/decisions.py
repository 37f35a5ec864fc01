"""Decisions that every program has, each with its reason."""

from __future__ import annotations

from collections.abc import Iterator

from planner.formulas.lora import adapted_names, lora_weights
from planner.frameworks.program import Decision, of_fields
from planner.plan.facts import facts_of
from planner.plan.fields import PlanFields as Plan
from planner.setup.setup import setup_of


def shared_decisions(plan: Plan) -> Iterator[Decision]:
    """Model, dtypes, adapters, batches, and what saves memory."""
    policy = setup_of(plan).models[0]
    modules, tensors = lora_names(plan)
    yield from of_fields(plan, {"model": "", "gpus": _PROCESSES if plan.gpus > 1 else ""})
    yield from of_fields(
        plan, {"dtype": "What forwards compute in, and frozen models are kept in."}
    )
    yield Decision(
        name="stored_dtype",
        value=policy.stored,
        why="What the policy's weights are kept in; adapters have the master copy's dtype.",
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
        why="Tensors of all experts of a layer, which peft adapts whole.",
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
    "full": "All weights train: a gradient and the optimizer's state for each of them.",
    "lora": "Adapters train: gradients and optimizer state for those alone.",
    "qlora": "Adapters train on a base in 4 bits.",
}
_CHECKPOINTING = {
    "full": "Only each layer's input is kept; its activations are made again in the backward.",
    "none": "Every layer's activations are kept until the backward; nothing is computed twice.",
}
_REFERENCE = {
    "copy": "A frozen copy of the model beside the policy.",
    "offloaded": "A frozen copy in host RAM, on the GPU only while it is used.",
    "adapter-disabled": "The policy without its adapters: no second copy of the weights.",
    "frozen-adapter": "The policy with a second adapter, which never trains.",
    "cached-logprobs": "Computed once before training: one number for each response.",
    "cached-activations": "Computed once before training: the last hidden state of each response "
    "token; the loss runs the head on it.",
}
_PROCESSES = (
    "A process each. Every one holds all weights, and beside its gradients a flat copy of them "
    "that the others' are added to."
)
_FIELDS = {
    "lora_dropout": "Above 0 every adapter keeps its inputs a second time, thinned, and a mask.",
    "gradient_checkpointing": "",
    "attention": "eager keeps a score for every pair of tokens; sdpa and flash keep none.",
    "optimizer": "AdamW keeps two moments for every trained weight; foreach also makes copies of "
    "all of them in its step, fused does not. SGD keeps nothing.",
    "reference": "",
    "micro_batch_size": "Rows of one forward: activations grow with it, gradients add up over "
    "micro-batches.",
    "prompts_per_update": "",
    "responses_per_prompt": "",
    "prompt_tokens": "",
    "response_tokens": "",
    "batch_shape": "Padded rows bring a mask, which is memory; full rows have none.",
    "empty_cache": "Returns what the allocator keeps cached to the driver after each step, unless "
    "never.",
    "steps": "",
}
"""Fields that are constants of a program as they are; why, where that does not depend on them."""
