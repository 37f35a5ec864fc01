"""What verl calls a plan's batches, lengths and engine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from planner.values.framework import Word

if TYPE_CHECKING:
    from planner.plan.fields import PlanFields as Plan

_ACTOR, _ROLLOUT = "actor_rollout_ref.actor", "actor_rollout_ref.rollout"
_FSDP, _MODEL = f"{_ACTOR}.fsdp_config", "actor_rollout_ref.model"

WORDS = {
    "prompts_per_step": Word("data.train_batch_size", "Train batch size"),
    "responses_per_prompt": Word(f"{_ROLLOUT}.n", "Rollout n"),
    "prompts_per_update": Word(f"{_ACTOR}.ppo_mini_batch_size", "PPO mini-batch size"),
    "micro_batch_size": Word(f"{_ACTOR}.ppo_micro_batch_size_per_gpu", "PPO micro-batch size"),
    "logprob_micro_batch_size": Word(
        f"{_ROLLOUT}.log_prob_micro_batch_size_per_gpu", "Log-prob micro-batch size"
    ),
    "max_tokens_per_micro_batch": Word(f"{_ACTOR}.ppo_max_token_len_per_gpu", "PPO max tokens"),
    "prompt_tokens": Word("data.max_prompt_length"),
    "response_tokens": Word("data.max_response_length"),
    "gpu_memory_utilization": Word(f"{_ROLLOUT}.gpu_memory_utilization"),
    "rollout_tensor_parallel": Word(f"{_ROLLOUT}.tensor_model_parallel_size"),
    "max_num_seqs": Word(f"{_ROLLOUT}.max_num_seqs"),
    "max_num_batched_tokens": Word(f"{_ROLLOUT}.max_num_batched_tokens"),
    "enforce_eager": Word(f"{_ROLLOUT}.enforce_eager"),
    "vllm_sleep_level": Word(f"{_ROLLOUT}.free_cache_engine"),
    "kv_cache_dtype": Word(f"{_ROLLOUT}.engine_kwargs.vllm.kv_cache_dtype"),
    "async_scheduling": Word(f"{_ROLLOUT}.engine_kwargs.vllm.async_scheduling"),
    "rollout_quantization": Word(f"{_ROLLOUT}.quantization"),
    "rollout_expert_parallel": Word(f"{_ROLLOUT}.expert_parallel_size"),
    "sync_bucket_bytes": Word(f"{_ROLLOUT}.checkpoint_engine.update_weights_bucket_megabytes"),
    "temperature": Word(f"{_ROLLOUT}.temperature"),
    "sharding": Word(f"{_ACTOR}.strategy"),
    "shard_size": Word(f"{_FSDP}.fsdp_size"),
    "reshard_after_forward": Word(f"{_FSDP}.reshard_after_forward"),
    "offload": Word(f"{_FSDP}.param_offload"),
    "optimizer": Word(f"{_ACTOR}.optim.optimizer"),
    "entropy": Word(f"{_ACTOR}.entropy_coeff"),
    "kl": Word(f"{_ACTOR}.use_kl_loss"),
    "attention": Word(f"{_MODEL}.override_config.attn_implementation"),
    "gradient_checkpointing": Word(f"{_MODEL}.enable_gradient_checkpointing"),
    "activation_offload": Word(f"{_MODEL}.enable_activation_offload"),
    "batch_shape": Word(f"{_MODEL}.use_remove_padding"),
    "logits": Word(f"{_MODEL}.use_fused_kernels"),
    "liger": Word(f"{_MODEL}.use_liger"),
    "lora_rank": Word(f"{_MODEL}.lora_rank"),
    "lora_targets": Word(f"{_MODEL}.target_modules"),
    "gpus_per_node": Word("trainer.n_gpus_per_node"),
    "steps": Word("trainer.total_training_steps"),
    "save_steps": Word("trainer.save_freq"),
    "eval_steps": Word("trainer.test_freq"),
}

BESIDE = {
    "learning rate": Word(f"{_ACTOR}.optim.lr"),
    "clipping": Word(f"{_ACTOR}.clip_ratio_high"),
    "overlong": Word("reward.reward_kwargs.overlong_buffer_cfg"),
    "loss form": Word(f"{_ACTOR}.loss_agg_mode"),
    "advantage": Word("algorithm.norm_adv_by_std_in_grpo"),
    "sampling": Word(f"{_ROLLOUT}.top_p"),
    "gradient clipping": Word(f"{_ACTOR}.grad_clip"),
    "weight decay": Word(f"{_ACTOR}.optim.weight_decay"),
    "epochs": Word(f"{_ACTOR}.ppo_epochs"),
    "resampling_factor": Word("algorithm.filter_groups"),
    "context_parallel": Word(f"{_ACTOR}.ulysses_sequence_parallel_size"),
    "tensor_parallel": Word(f"{_ACTOR}.megatron.tensor_model_parallel_size"),
    "pipeline_parallel": Word(f"{_ACTOR}.megatron.pipeline_model_parallel_size"),
    "turns": Word(f"{_ROLLOUT}.multi_turn.max_assistant_turns"),
}
"""Its options that no field of a plan has, by the subject of :mod:`planner.wording.subjects`."""


def batch_options(plan: Plan) -> Mapping[str, int]:
    """Prompts of a step and of an update, before each is sampled ``n`` times; rows of a GPU."""
    budget = plan.max_tokens_per_micro_batch
    micro = "max_tokens_per_micro_batch" if budget else "micro_batch_size"
    fields = ("prompts_per_step", "responses_per_prompt", "prompts_per_update", micro)
    return {WORDS[name].short: getattr(plan, name) for name in fields}
