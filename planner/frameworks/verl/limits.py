"""What verl 0.9.1 cannot do at a plan's value, read from its wheel (2026-11-20).

Each reason names what verl does instead.
"""

from __future__ import annotations

from math import gcd, inf

from planner.catalog.classifiers import TOKEN_CLASSIFIERS
from planner.frameworks.verl import FRAMEWORK
from planner.launch.launch import Obstacle
from planner.launch.obstacles import Obstacles
from planner.numeric import round_up
from planner.plan import Plan
from planner.plan.facts import facts_of
from planner.plan.loss import foreign
from planner.plan.trainers import trainer_of
from planner.units import MIB
from planner.values.dealing import rest
from planner.values.sharding import sharding_of


def obstacles(plan: Plan) -> tuple[Obstacle, ...]:
    """Fields of the plan that stand in the way of a verl script."""
    found = Obstacles(plan)
    estimator = trainer_of(FRAMEWORK.name, plan.method).export
    if estimator is None:
        return found.without_exporter(FRAMEWORK)
    _training(found)
    _batches(found)
    _roles(found)
    _rollout(found)
    found.engine_within_node()
    return tuple(found.found)


def _batches(found: Obstacles) -> None:
    """As the rules of a verl plan have it (:func:`planner.values.dealing.whole`)."""
    plan = found.plan
    if rest(plan, 1):
        gpus = plan.gpus - plan.rollout_gpus
        update = round_up(plan.prompts_per_update, gpus // gcd(gpus, plan.responses_per_prompt))
        found.refuse(
            "prompts_per_update",
            "verl gives every training GPU equally many sequences of an update.",
            prompts_per_update=update,
            prompts_per_step=round_up(plan.prompts_per_step, update),
        )


def _positions(plan: Plan) -> float:
    """As many as the policy was made for; no end of a model that others refuse by its name."""
    try:
        return facts_of(plan).policy.max_positions
    except ValueError:
        return inf


def _training(found: Obstacles) -> None:
    plan = found.plan
    found.only("sharding", "fsdp2", "fsdp1", why="verl trains with FSDP here, on one GPU too.")
    found.only("compile", False, why="verl compiles its entropy function, never the layers.")
    if plan.offload == "optimizer":
        found.refuse(
            "offload",
            "verl keeps the optimizer alone in host RAM only between its phases.",
            offload="optimizer-between-phases",
        )
    if plan.finetuning == "lora" and plan.master_dtype == "fp32":
        found.refuse(
            "master_dtype",
            "verl keeps adapters in the dtype of the frozen weights.",
            "Set master_dtype to none and gradient_dtype to dtype's value.",
            master_dtype="none",
            gradient_dtype=plan.dtype,
        )
    else:
        gradient = plan.dtype if plan.master_dtype == "none" else "fp32"
        found.only("gradient_dtype", gradient, why="FSDP keeps gradients in the weights' dtype.")
    if plan.finetuning == "lora":
        found.only("lora_dropout", 0.0, why="verl makes its adapters without dropout.")
    found.only("finetuning", "full", "lora", why="verl's FSDP trainer loads no 4-bit weights.")
    if plan.optimizer == "adamw-8bit" and sharding_of(plan).fsdp == 1:
        # torchao's 8-bit states are DTensors; bitsandbytes' differ per flat shard.
        found.refuse(
            "optimizer",
            "The 8-bit optimizer used here (torchao) needs FSDP2's tensors.",
            sharding="fsdp2",
        )
    if plan.dtype == "fp16" and plan.optimizer == "adamw-fused":
        # torch/optim/adam.py, _fused_adam: subtracts found_inf from each step, in place.
        found.refuse(
            "optimizer",
            "verl scales fp16 by FSDP's ShardedGradScaler, whose found_inf of one value torch's "
            "fused AdamW cannot take from a step without dimensions.",
            optimizer="adamw-foreach",
        )
    found.only(
        "optimizer_step", "update", why="verl steps once for each mini-batch of prompts."
    )
    if plan.logits == "response":
        found.refuse(
            "logits",
            f"The plan's loss is {foreign(plan, FRAMEWORK)}.",
            "Set logits to full, chunked or fused.",
            logits="fused",
        )
    elif plan.logits == "full":
        found.only(
            "logits_dtype",
            "fp32" if plan.dtype == "fp32" else "bf16",
            why="verl's softmax runs in the dtype the model returns, without an fp32 copy.",
        )
    elif plan.logits == "chunked":
        found.only("logits_dtype", "fp32", why="verl's chunks of 512 tokens are in fp32.")
    found.only(
        "empty_cache",
        "between-phases",
        why="verl frees PyTorch's cached memory around each weight sync.",
    )


def _roles(found: Obstacles) -> None:
    plan = found.plan
    if plan.kl == "none":
        found.only("reference", "none", why="Without a KL term verl loads no reference.")
    elif plan.finetuning == "lora":
        found.only(
            "reference", "adapter-disabled", why="With LoRA verl's reference is the base model."
        )
    else:
        found.only(
            "reference",
            "offloaded",
            why="verl keeps the reference's shards in host RAM, whatever is set.",
        )
    if trainer_of(FRAMEWORK.name, plan.method).export.critic:
        found.only("critic", "separate", why="verl's critic is a model of its own.")
        if (family := facts_of(plan).critic.family) not in TOKEN_CLASSIFIERS:
            # utils/model.py, load_valuehead_model: falls back to a causal model of TRL's with its
            # vocabulary head, whose memory no plan here has.
            found.refuse(
                "critic_model" if plan.critic_model else "model",
                f"verl makes its critic a token classifier, and transformers has none of {family}.",
                "Set critic_model to one of a family that has one, such as llama, qwen2 or qwen3, "
                "with the policy's tokenizer, or method to one without a critic.",
            )
        if plan.finetuning == "lora":
            # transformer_impl.py, _build_lora_module: TaskType.CAUSAL_LM, whose PeftModel asks a
            # token classifier for prepare_inputs_for_generation.
            found.refuse(
                "finetuning",
                "verl asks for the policy's adapters in its critic, too, and peft refuses them in "
                "a model that does not generate.",
                "Set finetuning to full, or method to one without a critic.",
                finetuning="full",
                **({} if plan.kl == "none" else {"reference": "offloaded"}),
            )
    found.only(
        "reward",
        "rule",
        "remote",
        why="verl serves a reward model from a second engine, whose memory no field plans.",
    )


def _rollout(found: Obstacles) -> None:
    plan = found.plan
    found.only(
        "rollout",
        "vllm-colocated",
        "vllm-separate",
        why="verl generates with an engine.",
        rollout_gpus=0,
        rollout_tensor_parallel=1,
    )
    if plan.rollout == "vllm-colocated":
        found.only("rollout_gpus", 0, why="A colocated engine has no GPUs of its own.")
        found.only(
            "vllm_sleep_level",
            1 if plan.finetuning == "lora" else 2,
            0,
            why="verl chooses 2 for full fine-tuning and 1 for adapters, or lets no engine sleep.",
        )
    if plan.rollout == "vllm-separate":
        _apart(found)
    if plan.sync_bucket_bytes % MIB:
        found.refuse(
            "sync_bucket_bytes",
            "verl counts its buckets in whole MiB.",
            "Set sync_bucket_bytes to a multiple of 1,048,576.",
            sync_bucket_bytes=0,
        )
    if (longest := plan.prompt_tokens + plan.response_tokens) > (positions := _positions(plan)):
        # workers/rollout/vllm_rollout/vllm_async_server.py, _validate_configs, line 1107.
        found.refuse(
            "response_tokens",
            f"verl's engine does not start: max_model_len ({longest}) should be less than or equal "
            f"to max_position_embeddings ({positions}).",
            "Lower prompt_tokens or response_tokens, or set config to one with more positions.",
        )
    found.only(
        "resampling_factor",
        1.0,
        why="The script keeps every group: verl's filter_groups (dynamic sampling) is not set.",
    )
    found.only(
        "validation_response_tokens",
        plan.response_tokens,
        why="verl's validation uses the response length of training.",
    )
    if plan.finetuning == "lora":
        found.only(
            "rollout_quantization",
            "none",
            why="Adapters together with fp8 weights in verl's engine are not modelled.",
        )


def _apart(found: Obstacles) -> None:
    """An engine on GPUs of its own: verl.experimental.one_step_off_policy."""
    plan = found.plan
    if trainer_of(FRAMEWORK.name, plan.method).export.critic:
        # experimental/separation/ray_trainer.py, _create_critic_class: knows "fsdp" alone, and
        # reads settings of the critic's model that HFModelConfig does not have.
        found.refuse(
            "rollout",
            "verl's trainer for dedicated rollout GPUs builds no critic: it stops on FSDP2, and on "
            "settings that FSDP1's no longer have.",
            "Set rollout to vllm-colocated, or method to one without a critic.",
            rollout="vllm-colocated",
            rollout_gpus=0,
            rollout_tensor_parallel=1,
            rollout_overlap="synchronous",
        )
    found.only(
        "rollout_overlap",
        "one-step-off",
        why="verl's fully asynchronous trainer takes its own counts of samples and syncs, not "
        "steps of a batch.",
    )
    found.only(
        "finetuning",
        "full",
        why="Sending adapters to verl's engine on other GPUs is not modelled.",
    )
    per_node, training = plan.gpus_per_node, plan.gpus - plan.rollout_gpus
    if plan.gpus > per_node and (plan.rollout_gpus % per_node or training % per_node):
        found.refuse(
            "rollout_gpus",
            "On several nodes, verl's engine and trainer each take whole nodes.",
            f"Set rollout_gpus to a multiple of {per_node}.",
            rollout_gpus=per_node,
        )
