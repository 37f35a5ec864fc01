"""Decisions that every program has, each with its reason."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from planner.formulas.lora import adapted_names, lora_weights
from planner.frameworks.program import Decision
from planner.plan.facts import facts_of
from planner.setup.setup import setup_of

if TYPE_CHECKING:
    from planner.plan.fields import PlanFields as Plan


def shared_decisions(plan: Plan) -> Iterator[Decision]:
    """Model, dtypes, adapters, batches, and what saves memory."""
    policy = setup_of(plan).models[0]
    yield Decision(name="model", value=plan.model)
    yield Decision(
        name="gpus",
        value=plan.gpus,
        why="A process each. Every one holds all weights, and beside its gradients a flat copy of "
        "them that the others' are added to."
        if plan.gpus > 1
        else "",
    )
    yield Decision(
        name="dtype",
        value=plan.dtype,
        why="What forwards compute in, and frozen models are kept in.",
    )
    yield Decision(
        name="stored_dtype",
        value=policy.stored,
        why="What the policy's weights are kept in; adapters have the master copy's dtype.",
    )
    yield Decision(name="master_dtype", value=plan.master_dtype)
    yield Decision(
        name="autocast",
        value=policy.autocast,
        why="Half-precision compute on fp32 weights, which are cast in each forward.",
    )
    yield Decision(name="finetuning", value=plan.finetuning, why=_ADAPTERS[plan.finetuning])
    yield Decision(name="lora_rank", value=plan.lora_rank)
    modules, tensors = lora_names(plan)
    yield Decision(name="lora_targets", value=list(modules))
    yield Decision(
        name="lora_parameters",
        value=list(tensors),
        why="Tensors of all experts of a layer, which peft adapts whole.",
    )
    yield Decision(
        name="lora_dropout",
        value=plan.lora_dropout,
        why="Above 0 every adapter keeps its inputs a second time, thinned, and a mask.",
    )
    yield Decision(
        name="gradient_checkpointing",
        value=plan.gradient_checkpointing,
        why=_CHECKPOINTING[plan.gradient_checkpointing],
    )
    yield Decision(
        name="attention",
        value=plan.attention,
        why="eager keeps a score for every pair of tokens; sdpa and flash keep none.",
    )
    yield Decision(
        name="optimizer",
        value=plan.optimizer,
        why="AdamW keeps two moments for every trained weight; foreach also makes copies of all "
        "of them in its step, fused does not. SGD keeps nothing.",
    )
    yield Decision(name="reference", value=plan.reference, why=_REFERENCE.get(plan.reference, ""))
    yield Decision(
        name="micro_batch_size",
        value=plan.micro_batch_size,
        why="Rows of one forward: activations grow with it, gradients add up over micro-batches.",
    )
    for name in ("prompts_per_update", "responses_per_prompt", "prompt_tokens", "response_tokens"):
        yield Decision(name=name, value=getattr(plan, name))
    yield Decision(
        name="batch_shape",
        value=plan.batch_shape,
        why="Padded rows bring a mask, which is memory; full rows have none.",
    )
    yield Decision(
        name="empty_cache",
        value=plan.empty_cache,
        why="Returns what the allocator keeps cached to the driver after each step, unless never.",
    )
    yield Decision(name="steps", value=plan.steps)


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
