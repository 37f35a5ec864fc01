"""A plan as hydra overrides of verl 0.9.1's configuration: every key with a value from the plan.

Keys and defaults were read from the wheel (2026-11-20).
"""

from __future__ import annotations

from planner.formulas.lora import ALL_LINEAR
from planner.frameworks.verl import FRAMEWORK
from planner.frameworks.verl.estimator import Estimator
from planner.launch.script import given
from planner.launch.words import ATTENTION, lora_targets
from planner.plan import Plan
from planner.plan.trainers import trainer_of
from planner.units import MIB
from planner.values.dtypes import TORCH_NAMES

KL_COEFFICIENT = 0.001
"""verl's own default for kl_loss_coef and kl_ctrl.kl_coef."""
ENTROPY_COEFFICIENT = 0.001

STRATEGY = {"fsdp1": "fsdp", "fsdp2": "fsdp2"}
KERNELS = {"chunked": "torch", "fused": "triton"}
"""Backend of verl's fused kernels, by the logits path."""

_OPTIMIZER = {
    "adamw-fused": ("torch.optim", "AdamW", "{fused:true}"),
    "adamw-foreach": ("torch.optim", "AdamW", "{foreach:true}"),
    "adamw-8bit": ("torchao.optim", "AdamW8bit", None),
    "sgd": ("torch.optim", "SGD", None),
}


def _fsdp(plan: Plan, prefix: str) -> dict[str, object]:
    """Sharding, dtypes and offload of one trained model."""
    between = plan.offload.removesuffix("-between-phases") if plan.offload != "all" else ""
    return {
        f"{prefix}.fsdp_size": plan.shard_size or -1,
        f"{prefix}.reshard_after_forward": plan.reshard_after_forward,
        f"{prefix}.model_dtype": _kept(plan),
        # Not in the YAML, but in FSDPEngineConfig: hence the plus.
        f"+{prefix}.mixed_precision.param_dtype": plan.dtype,
        f"+{prefix}.mixed_precision.reduce_dtype": plan.reduce_dtype,
        f"+{prefix}.mixed_precision.buffer_dtype": "fp32",
        f"{prefix}.offload_policy": plan.offload == "all",
        f"{prefix}.param_offload": between in ("parameters", "all"),
        f"{prefix}.optimizer_offload": between in ("optimizer", "all"),
    }


def _kept(plan: Plan) -> str:
    """What weights are kept in; verl keeps a reference as its actor."""
    return str(plan.dtype if plan.master_dtype == "none" else plan.master_dtype)


def _optimizer(plan: Plan, prefix: str) -> dict[str, object]:
    module, name, override = _OPTIMIZER[plan.optimizer]
    return {
        f"{prefix}.optimizer_impl": module,
        f"{prefix}.optimizer": name,
        f"{prefix}.override_optimizer_config": override,
    }


def _model(plan: Plan, prefix: str, name: str, *, asks: bool = True) -> dict[str, object]:
    """The model of one role; ``asks`` is false where verl chooses the attention kernel itself.

    It does so for a critic, which runs FlashAttention-2 whatever the configuration says.
    """
    values: dict[str, object] = {
        f"{prefix}.path": name,
        f"+{prefix}.override_config.attn_implementation": (
            ATTENTION[plan.attention] if asks else None
        ),
        f"{prefix}.enable_gradient_checkpointing": plan.gradient_checkpointing == "full",
        f"{prefix}.enable_activation_offload": plan.activation_offload,
        f"{prefix}.use_remove_padding": plan.batch_shape == "packed",
        f"{prefix}.use_liger": plan.liger,
    }
    if plan.finetuning == "lora":
        modules, _ = lora_targets(plan)
        values[f"{prefix}.lora_rank"] = plan.lora_rank
        values[f"{prefix}.target_modules"] = (
            ALL_LINEAR if modules == (ALL_LINEAR,) else f"[{','.join(modules)}]"
        )
    return values


def _actor(plan: Plan) -> dict[str, object]:
    actor, reference = "actor_rollout_ref.actor", "actor_rollout_ref.ref"
    budget = plan.max_tokens_per_micro_batch
    whole = plan.kl != "none" and plan.finetuning == "full"
    return {
        f"{actor}.strategy": STRATEGY[plan.sharding],
        **_fsdp(plan, f"{actor}.fsdp_config"),
        **_optimizer(plan, f"{actor}.optim"),
        f"{actor}.ppo_mini_batch_size": plan.prompts_per_update,
        f"{actor}.use_dynamic_bsz": budget > 0,
        f"{actor}.ppo_micro_batch_size_per_gpu": plan.micro_batch_size,
        f"{actor}.entropy_coeff": ENTROPY_COEFFICIENT if plan.entropy else 0,
        f"{actor}.use_kl_loss": plan.kl == "loss",
        f"{actor}.ppo_max_token_len_per_gpu": budget or None,
        f"{actor}.kl_loss_coef": KL_COEFFICIENT if plan.kl == "loss" else None,
        f"{reference}.fsdp_config.model_dtype": _kept(plan) if whole else None,
        # Unless told, FSDP computes in bf16.
        f"+{reference}.fsdp_config.mixed_precision.param_dtype": (
            plan.dtype if whole and plan.dtype != "bf16" else None
        ),
        f"{reference}.fsdp_config.fsdp_size": plan.shard_size or None if whole else None,
        f"{reference}.fsdp_config.reshard_after_forward": (
            plan.reshard_after_forward if whole else None
        ),
        f"{reference}.log_prob_micro_batch_size_per_gpu": (
            plan.logprob_micro_batch_size if plan.kl != "none" else None
        ),
    }


def _rollout(plan: Plan) -> dict[str, object]:
    rollout = "actor_rollout_ref.rollout"
    cache = plan.kv_cache_dtype
    return {
        f"{rollout}.name": "vllm",
        f"{rollout}.dtype": TORCH_NAMES[plan.dtype],
        f"{rollout}.n": plan.responses_per_prompt,
        f"{rollout}.temperature": plan.temperature,
        f"{rollout}.tensor_model_parallel_size": plan.rollout_tensor_parallel,
        f"{rollout}.expert_parallel_size": (
            plan.rollout_tensor_parallel if plan.rollout_expert_parallel else None
        ),
        f"{rollout}.gpu_memory_utilization": plan.gpu_memory_utilization,
        f"{rollout}.max_model_len": plan.prompt_tokens + plan.response_tokens,
        f"{rollout}.max_num_seqs": plan.max_num_seqs,
        f"{rollout}.max_num_batched_tokens": plan.max_num_batched_tokens,
        f"{rollout}.enforce_eager": plan.enforce_eager,
        f"{rollout}.free_cache_engine": not apart(plan) and plan.vllm_sleep_level > 0,
        f"{rollout}.log_prob_micro_batch_size_per_gpu": plan.logprob_micro_batch_size,
        f"{rollout}.quantization": (
            None if plan.rollout_quantization == "none" else plan.rollout_quantization
        ),
        f"{rollout}.checkpoint_engine.update_weights_bucket_megabytes": (
            plan.sync_bucket_bytes // MIB or None
        ),
        f"+{rollout}.engine_kwargs.vllm.kv_cache_dtype": None if cache == "auto" else cache,
        f"+{rollout}.engine_kwargs.vllm.async_scheduling": (
            None if plan.async_scheduling else False
        ),
        # Adapters are synced alone, so the engine has to read the base weights itself.
        f"{rollout}.load_format": "safetensors" if plan.finetuning == "lora" else None,
    }


def _critic(plan: Plan) -> dict[str, object]:
    """The critic's engine is given none of the critic's own sizes but a budget for inference.

    Its trainer (``trainer/ppo/v1/trainer_base.py``) copies that one for both passes, 32,768 tokens
    unless told, and its engine then cuts by a budget unless told. These stand in no YAML.
    """
    budget = plan.max_tokens_per_micro_batch
    return {
        "critic.strategy": STRATEGY[plan.sharding],
        **_fsdp(plan, "critic.fsdp"),
        **_optimizer(plan, "critic.optim"),
        **_model(plan, "critic.model", plan.critic_model or plan.model, asks=False),
        "critic.ppo_micro_batch_size_per_gpu": plan.micro_batch_size,
        "critic.forward_micro_batch_size_per_gpu": plan.logprob_micro_batch_size,
        "critic.ppo_max_token_len_per_gpu": budget or None,
        "+critic.ppo_infer_max_token_len_per_gpu": budget or None,
        "+critic.fsdp.use_dynamic_bsz": budget > 0,
        "+critic.fsdp.micro_batch_size_per_gpu": plan.micro_batch_size,
        "+critic.fsdp.infer_micro_batch_size_per_gpu": plan.logprob_micro_batch_size,
    }


def overrides(plan: Plan) -> dict[str, object]:
    """Every hydra override with a value from the plan; those with a path are in the script."""
    model = "actor_rollout_ref.model"
    values: dict[str, object] = {
        "algorithm.adv_estimator": _estimator(plan).name(plan),
        "algorithm.use_kl_in_reward": plan.kl == "reward",
        "data.train_batch_size": plan.prompts_per_step,
        "data.max_prompt_length": plan.prompt_tokens,
        "data.max_response_length": plan.response_tokens,
        "data.filter_overlong_prompts": True,
        **_model(plan, model, plan.model),
        f"{model}.use_fused_kernels": plan.logits in KERNELS,
        **_actor(plan),
        **trainer_of(FRAMEWORK.name, plan.method).told(plan),
        **_rollout(plan),
        "algorithm.kl_ctrl.kl_coef": KL_COEFFICIENT if plan.kl == "reward" else None,
        f"{model}.fused_kernel_options.impl_backend": KERNELS.get(plan.logits),
        **(_critic(plan) if _estimator(plan).critic else {}),
        **_pool(plan, "trainer", plan.gpus - plan.rollout_gpus),
        **(_engine_apart(plan) if apart(plan) else {}),
        "trainer.total_training_steps": plan.steps,
        "trainer.save_freq": plan.save_steps or None,
        "trainer.test_freq": plan.eval_steps or None,
        "trainer.logger": "[console]",
    }
    return given(values)


def _estimator(plan: Plan) -> Estimator:
    found: Estimator = trainer_of(FRAMEWORK.name, plan.method).export
    return found


def nodes(plan: Plan, gpus: int) -> int:
    """Nodes of so many GPUs: whole ones, or a part of one."""
    return max(1, int(gpus) // int(plan.gpus_per_node))


def apart(plan: Plan) -> bool:
    """Whether the engine has GPUs of its own."""
    return bool(plan.rollout == "vllm-separate")


def _pool(plan: Plan, side: str, gpus: int) -> dict[str, object]:
    """So many GPUs of one node, or whole nodes."""
    return {
        f"{side}.nnodes": nodes(plan, gpus),
        f"{side}.n_gpus_per_node": min(gpus, plan.gpus_per_node),
    }


def _engine_apart(plan: Plan) -> dict[str, object]:
    """What one_step_off_policy has beside the trainer's own configuration."""
    return {
        # Its own is a path below the folder that a program is started in.
        "hydra.searchpath": "[pkg://verl.trainer.config]",
        "actor_rollout_ref.hybrid_engine": False,
        # The engine's log-probs would take the place of the old ones, which the plan computes.
        "algorithm.rollout_correction.bypass_mode": False,
        **_pool(plan, "rollout", plan.rollout_gpus),
    }
