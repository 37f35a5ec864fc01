"""verl 0.9.1: what its FSDP trainer does, read from the wheel (2026-10)."""

from collections.abc import Mapping
from typing import Any

from planner.frameworks.verl.words import BESIDE, WORDS, batch_options
from planner.numeric import maximum
from planner.rule import NoEffect, Rule
from planner.units import GIB, MIB
from planner.values.dealing import whole
from planner.values.framework import Framework
from planner.values.loss_code import LossCode
from planner.values.model_setup import ModelSetup
from planner.values.sharding import sharding_of

MOST_RANK = 512
"""The largest of vLLM's ``MaxLoRARanks`` (vllm.config.lora)."""


def _defaults(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """Verl casts adapters to the base model's dtype, and lets the engine sleep at level 1."""
    defaults = {
        "batch_shape": "packed",
        # One GPU too: its workers wrap every model.
        "sharding": "fsdp2",
        "master_dtype": "fp32",
        "gpu_memory_utilization": 0.5,
        "max_num_seqs": 256,
        "max_num_batched_tokens": 8192,
        "logits": "full",
        "logits_dtype": "bf16",
        # FSDP's CPU offload wraps a frozen reference, whatever its settings say.
        "reference": "offloaded",
    }
    if values.get("rollout") == "vllm-separate":
        # Its checkpoint engine empties the cache after each weight sync.
        defaults |= {"rollout_overlap": "one-step-off", "empty_cache": "between-phases"}
    half = values.get("dtype", "bf16") != "fp32"
    if half:
        # workers/config/model.py: override_config's attn_implementation, FlashAttention-2.
        defaults["attention"] = "flash"
    if values.get("finetuning") in ("lora", "qlora"):
        defaults |= {"vllm_sleep_level": 1, **({"master_dtype": "none"} if half else {})}
    return defaults


EMBEDDINGS = frozenset({"embeddings"})
CRITIC_ATTENTION = "flash"
"""utils/model.py, load_valuehead_model, lines 645 to 651 and 670 to 676."""


def _models(plan: Any, model: ModelSetup) -> Mapping[str, Any]:
    """A critic's attention; a reference loaded as the policy is, and streamed from host RAM.

    A frozen base below adapters is stored like them, in the master dtype. transformer_impl.py:
    _build_lora_module calls enable_input_require_grads whatever else is set, and
    forward_backward_batch still names a micro-batch's loss while the next one goes forward.
    """
    if model.trained:
        attention = {"attention": CRITIC_ATTENTION} if model.role == "critic" else {}
        stored = plan.dtype if plan.master_dtype == "none" else "fp32"
        return {"stored": stored, "requires_gradients": EMBEDDINGS, **attention}
    if model.role != "reference":
        return {}
    wide = plan.finetuning == "full" and plan.master_dtype == "fp32"
    waits = "host, streamed" if model.waits == "host" else model.waits
    return {"stored": "fp32" if wide else plan.dtype, "waits": waits}


FRAMEWORK = Framework(
    name="verl",
    label="verl",
    order=2,
    versions=("0.9.1",),
    loop_read="verl 0.9.1, trainer/ppo/ray_trainer.py and workers/engine/fsdp/transformer_impl.py",
    loss={
        "0.9.1": LossCode(
            # Full logits, or chunks of 512 tokens with use_fused_kernels.
            paths={
                "full": "whole rows outside the model",
                **dict.fromkeys(("chunked", "fused"), "chunks of whole rows"),
            },
            told={"fused": "verl's Triton kernels are planned as its chunks of 512 tokens"},
        )
    },
    defaults=_defaults,
    models=_models,
    words=WORDS,
    beside=BESIDE,
    batch_options=batch_options,
    rules=(
        NoEffect(("base_dtype",), "the framework keeps frozen weights like the adapters"),
        # engine_workers.py, line 267: mini_batch_size % get_data_parallel_size() == 0;
        # engine/utils.py, line 125: data size must be divisible by … micro_batch_size_per_gpu.
        *whole(
            "verl asserts that GPUs divide a mini-batch",
            "verl asserts that the data size is divisible by a micro-batch",
        ),
        Rule(
            "max_tokens_per_micro_batch",
            lambda p: (
                (p.max_tokens_per_micro_batch > 0)
                & (p.max_tokens_per_micro_batch < p.prompt_tokens + p.response_tokens)
            ),
            # utils/seqlen_balancing.py, line 384: max_token_len >= max_seq_len.
            "verl asserts that the token budget is no smaller than one row (prompt_tokens + "
            "response_tokens).",
            "Raise max_tokens_per_micro_batch, or set it to 0.",
        ),
        Rule(
            "optimizer_step",
            lambda p: p.optimizer_step == "in-backward",
            "verl's optimizer steps after the backward.",
            "Set optimizer_step to update, or framework to plain.",
        ),
        Rule(
            "finetuning",
            lambda p: p.finetuning == "qlora",
            "verl trains no 4-bit weights.",
            "Set finetuning to lora, or framework to plain or trl.",
        ),
        Rule(
            "reference",
            lambda p: p.reference == "frozen-adapter",
            "With LoRA verl's reference is the base model.",
            "Set reference to adapter-disabled.",
        ),
        Rule(
            "chunk_compile",
            lambda p: p.chunk_compile,
            "verl's chunks are not compiled.",
            "Set chunk_compile to false.",
        ),
        Rule(
            "chunk_tokens",
            lambda p: p.chunk_tokens != 512,
            "verl's chunks have 512 tokens.",
            "Set chunk_tokens to 512.",
        ),
        Rule(
            "critic",
            lambda p: p.critic == "shared",
            "verl's critic is a model of its own.",
            "Set critic to separate, or framework to plain.",
        ),
        Rule(
            "reference",
            lambda p: p.reference == "copy",
            "verl keeps a whole reference in host RAM.",
            "Set reference to offloaded.",
        ),
        Rule(
            "sharding",
            lambda p: not sharding_of(p).fsdp,
            "verl trains with FSDP here.",
            "Set sharding to fsdp2 or fsdp1.",
        ),
        Rule(
            "rollout",
            lambda p: p.rollout not in ("vllm-colocated", "vllm-separate", "none"),
            "verl generates with an engine.",
            "Set rollout to vllm-colocated.",
        ),
        # workers/engine/utils.py, prepare_micro_batches, line 125.
        Rule(
            "logprob_micro_batch_size",
            lambda p: (
                (p.max_tokens_per_micro_batch == 0)
                & (
                    p.prompts_per_step
                    * p.responses_per_prompt
                    % (maximum(p.gpus - p.rollout_gpus, 1) * p.logprob_micro_batch_size)
                    != 0
                )
            ),
            "verl cuts a step's sequences on each GPU (prompts_per_step × responses_per_prompt ÷ "
            "training GPUs) into even micro-batches: data size must be divisible by "
            "logprob_micro_batch_size.",
            "Set logprob_micro_batch_size to a divisor.",
        ),
        # workers/rollout/vllm_rollout/utils.py, get_vllm_max_lora_rank, line 98.
        Rule(
            "lora_rank",
            lambda p: (p.finetuning == "lora") & (p.lora_rank > MOST_RANK),
            "verl stops where it builds its engine: lora_rank must be less than or equal to "
            f"{MOST_RANK}.",
            f"Set lora_rank to {MOST_RANK} or less.",
        ),
        # experimental/one_step_off_policy and experimental/fully_async_policy.
        Rule(
            "rollout_overlap",
            lambda p: p.rollout == "vllm-separate" and p.rollout_overlap == "synchronous",
            "verl's engine on GPUs of its own generates while the trainer trains.",
            "Set rollout_overlap to one-step-off or asynchronous, or rollout to vllm-colocated.",
        ),
    ),
    # transformer_impl.py: nothing follows a pass of infer_batch but EngineEvalModeCtx, which
    # reshards the root's own weights where fsdp_size is above 1.
    leaves_gathered=True,
    # trainer/config/reward/reward.yaml: reward_model.rollout, eager, free_cache_engine.
    reward_engine={
        "gpu_memory_utilization": 0.5,
        "rollout_tensor_parallel": 2,
        "max_num_batched_tokens": 8192,
        "dtype": "bf16",
    },
    # fsdp_utils.py, _select_fsdp2_wrap_targets: embed_tokens and lm_head where they are not tied.
    units=(("embedding",), ("head",), ("norm",)),
    # Its engine takes adapters by the names of modules, which adapted tensors of experts are not.
    adapts_modules_alone=True,
    # transformer_impl.py, prepare_model_inputs: position_ids of each row.
    numbers_rows=True,
    # workers/config/optimizer.py: weight_decay 0.01.
    decays_weights=True,
    # trainer.balance_batch, true unless told otherwise: _balance_batch of ray_trainer.py.
    balances_tokens=True,
    # transformer_impl.py, prepare_model_inputs: to_padded_tensor to a micro-batch's max_seq_len.
    pads_to="micro-batch",
    # trainer.val_before_train, true unless told otherwise.
    validates="first",
    sync=lambda plan: (
        "weights" if plan.finetuning == "full" else "adapters", "bucket", 2 * GIB
    ),
    # verl 0.9.1 METADATA: transformers>=5.5.3; ulysses_sequence_parallel_size shares rows, over a
    # node's GPUs at most where its examples use it.
    looped_experts=("an earlier verl", 8),
    # A task runner and 8 agent loops; 8 reward workers, each response's own (agent_loop.py,
    # _compute_score); and replicas are servers of their own, whose engine core starts a worker for
    # each GPU.
    helpers={"run": 9, "reward": 8, "vllm-colocated": 2, "vllm-separate": 2},
    # transformer_impl.py, forward_step: micro_batch.to(get_device_id()).
    host_bytes={"process": 351 * MIB, "services": 35 * MIB, "token": 4 * 8 + 6 * 4},
    pinned={"between-phases": 0, "activations": 1},
    # init_empty_weights on other ranks, but of tied weights: transformers converts there, too.
    copies=lambda plan, ranks, tied: (ranks if tied else 1, ranks),
    # checkpoint.save_contents of actor.yaml and critic.yaml: model, optimizer, extra.
    checkpoint="shards",
)
