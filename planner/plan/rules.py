"""What cannot be, and what is not modelled yet: each with the field and the fix.

A rule is a condition over a plan (or over a sweep's grid, where fields are arrays)
and a sentence. :func:`problems_of` judges one plan, :func:`valid` a whole grid.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from planner.frameworks import framework_named
from planner.methods import method_of, methods
from planner.numeric import Num
from planner.plan.facts import fact_problems
from planner.plan.trainers import able, trainer_for
from planner.problem import Problem
from planner.references import IN_LOSS
from planner.rule import NOT_YET, Rule
from planner.workload import FLASH

if TYPE_CHECKING:
    from planner.plan.fields import PlanFields as Plan


def _is(field: str, *values: Any) -> Callable[[Any], Num]:
    return lambda plan: getattr(plan, field) in values


def _above_one(field: str) -> Callable[[Any], Num]:
    return lambda plan: getattr(plan, field) != 1


# One rule a line: condition, sentence and fix read best as a table. A rule of UNMODELLED looks at
# its own field alone: lists of choices ask it about a value without a plan.
# fmt: off
UNMODELLED: tuple[Rule, ...] = (
    Rule("gradient_checkpointing", _is("gradient_checkpointing", "selective"), f"gradient_checkpointing selective {NOT_YET}", "Choose none or full."),
    Rule("turns", lambda plan: plan.turns != 1, f"turns above 1 {NOT_YET}", "Set turns to 1 and response_tokens to the whole conversation's."),
    *(
        Rule(field, _above_one(field), f"{field} above 1 {NOT_YET}", "Set it to 1.")
        for field in ("tensor_parallel", "pipeline_parallel", "context_parallel", "expert_parallel")
    ),
)
# fmt: on


def _training_gpus(plan: Plan) -> Num:
    return plan.gpus - plan.rollout_gpus


def _half(plan: Plan) -> bool:
    return plan.dtype in ("bf16", "fp16")


def _adapters(plan: Plan) -> bool:
    return plan.finetuning in ("lora", "qlora")


def _fsdp(plan: Plan) -> bool:
    return plan.sharding in ("fsdp1", "fsdp2")


def _rollouts(plan: Plan) -> tuple[str, ...]:
    return method_of(plan).rollouts


def _most(plan: Plan) -> int | None:
    return method_of(plan).most_responses


# fmt: off
IMPOSSIBLE: tuple[Rule, ...] = (
    Rule("lora_dropout", lambda plan: _adapters(plan) and plan.lora_dropout > 0 and plan.compile, f"lora_dropout with compile {NOT_YET}", "Set lora_dropout to 0, or compile to false."),
    Rule("lora_dropout", lambda plan: _adapters(plan) and plan.lora_dropout > 0 and "lm_head" in plan.lora_targets, f"lora_dropout at the language-model head {NOT_YET}", "Set lora_dropout to 0, or leave lm_head out of lora_targets."),
    Rule("finetuning", lambda plan: plan.finetuning == "qlora" and plan.compile, f"finetuning qlora with compile {NOT_YET}", "Choose full or lora, or set compile to false."),
    Rule("finetuning", lambda plan: plan.finetuning == "qlora" and plan.sharding not in ("none", "ddp"), f"finetuning qlora with sharded weights {NOT_YET}", "Set sharding to none or ddp, or finetuning to lora."),
    Rule("finetuning", lambda plan: plan.finetuning == "qlora" and plan.rollout == "hf", f"finetuning qlora with rollout hf {NOT_YET}", "Set rollout to vllm-colocated, or finetuning to lora."),
    Rule("finetuning", lambda plan: plan.finetuning == "qlora" and plan.reference in ("copy", "offloaded"), f"finetuning qlora with another copy as reference {NOT_YET}", "Set reference to adapter-disabled or cached-logprobs."),
    Rule("finetuning", lambda plan: plan.finetuning == "qlora" and (plan.reference in ("cached-activations", "dual-output") or plan.critic == "shared"), f"finetuning qlora with this reference form or a shared critic {NOT_YET}", "Choose lora, or reference adapter-disabled and critic separate."),
    Rule("liger", lambda plan: plan.liger and (plan.reference == "dual-output" or plan.critic == "shared"), f"liger with dual outputs or a shared critic {NOT_YET}", "Set liger to false."),
    Rule("liger", lambda plan: plan.liger and plan.compile, f"liger with compile {NOT_YET}", "Set liger to false."),
    Rule("sharding", lambda p: (p.sharding == "none") & (_training_gpus(p) > 1), "sharding none trains on one GPU only.", "Set sharding to ddp or fsdp2, or gpus to 1."),
    Rule("sharding", lambda p: (p.sharding == "ddp") & (_training_gpus(p) < 2), "sharding ddp needs at least two training GPUs.", "Set sharding to none."),
    Rule("shard_size", lambda p: (p.shard_size != 0) & (p.shard_size > _training_gpus(p)), "shard_size exceeds the GPUs that train.", "Lower it, or set it to 0 for all."),
    Rule("shard_size", lambda p: (p.shard_size != 0) & (_training_gpus(p) % np.maximum(p.shard_size, 1) != 0), "shard_size must divide the GPUs that train.", "Choose a divisor, or 0 for all."),
    Rule("gpus_per_node", lambda p: (p.gpus > p.gpus_per_node) & (p.gpus % p.gpus_per_node != 0), "gpus must fill whole nodes.", "Make gpus a multiple of gpus_per_node."),
    Rule("rollout_gpus", lambda p: (p.rollout_gpus >= p.gpus) & (p.rollout_gpus > 0), "rollout_gpus leaves no GPU to train on.", "Lower rollout_gpus or raise gpus."),
    Rule("rollout_gpus", lambda p: (p.rollout == "vllm-separate") & (p.rollout_gpus == 0), "A separate engine needs GPUs of its own.", "Set rollout_gpus."),
    Rule("rollout_gpus", lambda p: (p.rollout != "vllm-separate") & (p.rollout_gpus != 0), "rollout_gpus is for rollout vllm-separate.", "Set rollout_gpus to 0."),
    Rule("rollout_overlap", lambda p: p.rollout_overlap != "synchronous" and p.rollout != "vllm-separate", "Only an engine with GPUs of its own generates while the trainer trains.", "Set rollout_overlap to synchronous, or rollout to vllm-separate."),
    Rule("rollout_tensor_parallel", lambda p: (p.rollout == "vllm-colocated") & (p.gpus % p.rollout_tensor_parallel != 0), "rollout_tensor_parallel must divide gpus.", "Choose a divisor of gpus."),
    Rule("rollout_tensor_parallel", lambda p: (p.rollout == "vllm-separate") & (p.rollout_gpus % p.rollout_tensor_parallel != 0), "rollout_tensor_parallel must divide rollout_gpus.", "Choose a divisor of rollout_gpus."),
    Rule("rollout", lambda p: not method_of(p).generates and p.rollout != "none", "This method generates nothing.", "Set rollout to none."),
    Rule("rollout", lambda p: method_of(p).engines and method_of(p).generates and p.rollout == "none", "This method needs responses.", "Set rollout to hf, vllm-colocated or vllm-separate."),
    Rule("rollout", lambda p: not method_of(p).engines and method_of(p).generates and p.rollout != "in-graph", "This method generates inside its training graph.", "Set rollout to in-graph."),
    Rule("rollout", lambda p: p.rollout == "in-graph" and "in-graph" not in _rollouts(p), "This method does not generate inside its training graph.", "Set rollout to hf, vllm-colocated or vllm-separate, or choose a method that does."),
    Rule("responses_per_prompt", lambda p: (_most(p) is not None) & (p.responses_per_prompt != _most(p)), "This method has one response per prompt.", "Set responses_per_prompt to 1."),
    Rule("responses_per_prompt", lambda p: p.responses_per_prompt < method_of(p).least_responses, "Group advantages need at least two responses per prompt.", "Set responses_per_prompt to 2 or more."),
    Rule("prompts_per_update", lambda p: p.prompts_per_update > p.prompts_per_step, "prompts_per_update exceeds prompts_per_step.", "Lower it, or raise prompts_per_step."),
    Rule("prompts_per_update", lambda p: p.prompts_per_step % p.prompts_per_update != 0, "prompts_per_update must divide prompts_per_step.", "Choose a divisor of prompts_per_step."),
    Rule("prompts_per_update", lambda p: p.prompts_per_update * p.responses_per_prompt % np.maximum(_training_gpus(p), 1) != 0, "Sequences of one update (prompts_per_update × responses_per_prompt) must be a multiple of the GPUs that train.", "Change prompts_per_update, responses_per_prompt or gpus."),
    Rule("micro_batch_size", lambda p: (p.max_tokens_per_micro_batch == 0) & (p.prompts_per_update * p.responses_per_prompt % (np.maximum(_training_gpus(p), 1) * p.micro_batch_size) != 0), "micro_batch_size must divide the sequences of one update on each GPU (prompts_per_update × responses_per_prompt ÷ training GPUs).", "Choose a divisor."),
    Rule("logprob_micro_batch_size", lambda p: (method_of(p).objective == "policy") & (p.max_tokens_per_micro_batch == 0) & (p.logprob_micro_batch_size * np.maximum(_training_gpus(p), 1) > p.prompts_per_step * p.responses_per_prompt), "logprob_micro_batch_size exceeds the sequences of one step on each GPU.", "Lower it."),
    Rule("max_tokens_per_micro_batch", lambda p: (p.max_tokens_per_micro_batch > 0) & (p.max_tokens_per_micro_batch < p.prompt_tokens + p.response_tokens), "The token budget is smaller than one row (prompt_tokens + response_tokens).", "Raise max_tokens_per_micro_batch, or set it to 0."),
    Rule("master_dtype", lambda p: p.dtype == "fp32" and p.master_dtype != "none", "With dtype fp32 the weights are fp32 already.", "Set master_dtype to none."),
    Rule("autocast", lambda p: p.autocast and p.dtype == "fp32", "Autocast computes in half precision.", "Set dtype to bf16, or autocast to false."),
    Rule("chunk_compile", lambda p: p.chunk_compile and p.dtype == "fp32", f"chunk_compile with dtype fp32 {NOT_YET}", "Set chunk_compile to false, or dtype to bf16."),
    Rule("base_dtype", lambda p: p.base_dtype == "fp32" and p.sharding.startswith("zero"), "DeepSpeed keeps all weights in the compute dtype.", "Set base_dtype to compute, or sharding to fsdp2."),
    Rule("base_dtype", lambda p: p.base_dtype == "fp32" and p.finetuning == "lora" and p.master_dtype == "none" and p.dtype != "fp32", "Adapters of fp32 weights are fp32.", "Set master_dtype to fp32, or base_dtype to compute."),
    Rule("gradient_dtype", lambda p: p.master_dtype == "none" and p.gradient_dtype != p.dtype, "Gradients have the dtype of the weights they belong to when there is no master copy.", "Set gradient_dtype to the value of dtype."),
    Rule("gradient_dtype", lambda p: p.master_dtype == "fp32" and p.gradient_dtype != "fp32" and not p.sharding.startswith("zero"), "Gradients of fp32 weights are fp32 (only ZeRO keeps them in half precision).", "Set gradient_dtype to fp32."),
    Rule("gradient_dtype", lambda p: p.gradient_dtype not in (p.dtype, "fp32"), "Gradients are kept in dtype or in fp32.", "Set gradient_dtype to one of the two."),
    Rule("logits_dtype", lambda p: p.dtype == "fp32" and p.logits_dtype != "fp32", "With dtype fp32 the logits are fp32.", "Set logits_dtype to fp32."),
    Rule("attention", lambda p: p.attention in FLASH and not _half(p), "Flash attention computes in half precision only.", "Set attention to sdpa, or dtype to bf16."),
    Rule("rollout_quantization", lambda p: p.rollout_quantization == "fp8" and not _half(p), "An engine makes fp8 weights of half-precision ones.", "Set rollout_quantization to none, or dtype to bf16."),
    Rule("batch_shape", lambda p: p.batch_shape == "packed" and p.attention == "eager", "Packed rows need a kernel that keeps sequences apart.", "Set attention to flash or sdpa."),
    Rule("length_distribution", lambda p: p.length_distribution != "" and p.batch_shape == "full", "With batch_shape full all rows have one length.", "Set batch_shape to padded or packed, or leave length_distribution empty."),
    Rule("length_distribution", lambda p: p.length_distribution != "" and p.rollout == "in-graph", "Generated in the training graph, every response has response_tokens.", "Leave length_distribution empty."),
    Rule("reference", lambda p: p.reference == "adapter-disabled" and not _adapters(p), "Only adapters can be disabled to get the reference.", "Set reference to copy or offloaded, or finetuning to lora."),
    Rule("reference", lambda p: p.reference == "frozen-adapter" and not _adapters(p), "A second adapter needs a model with adapters.", "Set finetuning to lora, or reference to copy or offloaded."),
    Rule("reference", lambda p: p.reference == "dual-output" and not _adapters(p), "Only a model with adapters has the reference's weights in the forward that trains.", "Set finetuning to lora, or reference to copy."),
    Rule("reference", lambda p: p.reference in IN_LOSS and p.kl == "reward", "This form makes reference log-probs in the loss, too late for a KL term in the reward.", "Set kl to loss, or reference to copy, adapter-disabled or cached-logprobs."),
    Rule("reference", lambda p: p.reference in IN_LOSS and not framework_named(p.framework).loss_makes_reference, "No framework's trainer has this reference form.", "Set framework to plain, or reference to copy, offloaded, adapter-disabled or cached-logprobs."),
    Rule("reference", lambda p: p.kl != "none" and p.reference == "none", "A KL term needs a reference.", "Set reference to copy (or adapter-disabled with LoRA), or kl to none."),
    Rule("critic", lambda p: p.critic not in ("none", *method_of(p).critics), "This method has no such critic.", "Set critic to none."),
    Rule("offload", lambda p: p.offload == "parameters", "Weights cannot stay in host RAM without the optimizer that updates them.", "Set offload to all or to parameters-between-phases."),
    Rule("offload", lambda p: p.offload == "all" and p.sharding not in ("fsdp2", "zero3"), "Weights can stay in host RAM throughout only under fsdp2 or zero3.", "Set sharding to fsdp2, or offload to all-between-phases."),
    Rule("offload", lambda p: p.offload == "optimizer" and p.sharding not in ("zero1", "zero2", "zero3"), "The optimizer alone can stay in host RAM only under ZeRO.", "Set sharding to zero2, or offload to optimizer-between-phases."),
    Rule("optimizer", lambda p: p.optimizer == "paged-adamw-8bit" and p.sharding not in ("none", "ddp"), "bitsandbytes pages whole tensors, not shards.", "Set optimizer to adamw-8bit, or sharding to none or ddp."),
    Rule("optimizer", lambda p: p.optimizer == "paged-adamw-8bit" and p.offload != "none", "A paged optimizer leaves the GPU by itself, when room is short.", "Set offload to none, or optimizer to adamw-8bit."),
    Rule("optimizer_step", lambda p: p.optimizer_step == "in-backward" and p.sharding not in ("none", "fsdp2"), f"optimizer_step in-backward with gradients that are reduced in buckets {NOT_YET}", "Set sharding to none on one GPU, or to fsdp2."),
    Rule("optimizer_step", lambda p: p.optimizer_step == "in-backward" and p.optimizer == "adamw-foreach", "An optimizer in the backward updates one weight at a time.", "Set optimizer to adamw-fused."),
    Rule("optimizer_step", lambda p: p.optimizer_step == "in-backward" and p.offload == "all", f"optimizer_step in-backward on the CPU {NOT_YET}", "Set offload to none."),
    Rule("optimizer_step", lambda p: (p.optimizer_step == "in-backward") & (p.shard_size != 0) & (p.shard_size != _training_gpus(p)), f"optimizer_step in-backward with several copies of the shards {NOT_YET}", "Set shard_size to 0."),
    Rule("activation_offload", lambda p: p.activation_offload and p.gradient_checkpointing != "full", "Only checkpointed activations are offloaded.", "Set gradient_checkpointing to full."),
    Rule("master_dtype", lambda p: p.sharding.startswith("zero") and _half(p) and p.master_dtype == "none", "DeepSpeed keeps an fp32 copy of half-precision weights.", "Set master_dtype to fp32, or sharding to fsdp2."),
)
# fmt: on


def rules_of(plan: Plan) -> tuple[Rule, ...]:
    """Every rule that a plan, or a sweep's grid, is held to: its method's and framework's too.

    A framework has nothing to say of a method that it does not train.
    """
    trainer = trainer_for(plan)
    return (
        *UNMODELLED,
        *IMPOSSIBLE,
        *_of_other_methods(plan.method),
        *method_of(plan).rules,
        *(() if trainer.missing else framework_named(plan.framework).rules),
        *trainer.rules,
    )


@cache
def _of_other_methods(name: str) -> tuple[Rule, ...]:
    """What one method alone has, and this one cannot have."""
    return tuple(
        Rule(
            field,
            _differs(field, plain := other.fields.model_fields[field].default),
            f"Only {other.title} has it.",
            f"Set {field} to {str(plain).lower()}, or method to {other.name}.",
        )
        for other in methods().values()
        if other.name != name and other.fields
        for field in other.refused_elsewhere
    )


def _differs(field: str, plain: Any) -> Callable[[Any], Num]:
    return lambda plan: getattr(plan, field) != plain


def untrained(plan: Plan) -> tuple[Problem, ...]:
    """A problem where the framework has no step for the method, or none that was read."""
    missing = trainer_for(plan).missing
    if not missing:
        return ()
    return (Problem("framework", missing, f"Set framework to {' or '.join(able(plan.method))}."),)


def problems_of(plan: Plan) -> tuple[Problem, ...]:
    """Every rule a single plan breaks; empty when it is possible and modelled."""
    found = [*fact_problems(plan), *untrained(plan)]
    for rule in rules_of(plan):
        if rule.broken(plan):
            value = getattr(plan, rule.field)
            found.append(Problem(rule.field, rule.message.format(value=value), rule.fix))
    return tuple(found)


def valid(grid: Any) -> Num:
    """Where a sweep's grid is possible: True or False, or an array of them."""
    result: Num = not untrained(grid)
    for rule in rules_of(grid):
        result = result & ~np.asarray(rule.broken(grid), dtype=bool)
    return result
