"""Settings that move memory or seconds and that no field of a plan has: which way they move it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from planner.frameworks.verl.settings.rows import (
    ACTOR,
    CRITIC,
    MODEL,
    REFERENCE,
    ROLLOUT,
    beyond,
)
from planner.values.setting import Moves, Setting

_ULYSSES = (
    "Each row is split over so many GPUs: activations and logits fall by that factor, and GPUs "
    "wait for each other in every layer."
)
_CHUNKED = "Entropy is computed in chunks of rows: the peak of log-probs and loss falls."
_CHUNK = "Larger chunks of the entropy hold more."
_RECOMPUTED = "Entropy is computed again in the backward: memory falls, seconds rise."
_UNCOMPILED = (
    "The entropy of packed rows runs uncompiled: up to 12 bytes a token and vocabulary entry more."
)
_PADDED = "Every micro-batch is filled up to a bucket of tokens: memory and seconds rise."
_BUCKET = "Larger buckets hold more filling."
_QUANTIZED = "Weights are quantized in each forward: memory and seconds rise."
_WRAPPED = "Other layers are gathered together: larger groups raise the peak."
_ENTROPY = ("entropy_from_logits_with_chunking", "entropy_from_logits_chunk_size",
            "entropy_checkpointing")  # fmt: skip

Row = tuple[str, Any, int, str, Moves]
"""Name, default, line, which way, what of the two."""

_FSDP: tuple[Row, ...] = (
    ("wrap_policy.min_num_params", 0, 8, _WRAPPED, "memory"),
    ("forward_prefetch", False, 30,
     "The next layer is gathered while one computes: memory rises by a layer, seconds fall.",
     "both"),
    ("use_orig_params", False, 36,
     "FSDP1 shows the optimizer single weights: its step holds other copies.", "memory"),
    ("full_determinism", False, 42, "Deterministic kernels are slower and may hold more.", "both"),
    ("ulysses_sequence_parallel_size", 1, 45, _ULYSSES, "both"),
    ("use_torch_compile", True, 54, _UNCOMPILED, "memory"),
    ("use_no_sync_for_gradient_accumulation", False, 61,
     "Every GPU keeps whole gradients until the last micro-batch: memory rises by the unsharded "
     "gradients, seconds fall.", "both"),
    ("pad_to_length_bucket", 1024, 73, _BUCKET, "both"),
    ("qat.enable", False, 91, _QUANTIZED, "both"),
)  # fmt: skip

_ACTOR: tuple[Row, ...] = (
    ("use_torch_compile", True, 110, _UNCOMPILED, "memory"),
    ("calculate_entropy", False, 96, "The update's pass computes an entropy that no loss needs: "
     "memory and seconds rise.", "both"),
    ("calculate_sum_pi_squared", False, 100, "The update's pass sums squared probabilities over "
     "the vocabulary: memory and seconds rise.", "both"),
    ("use_prefix_grouper", False, 106, "Responses share the pass over their prompt: memory and "
     "seconds fall.", "both"),
    ("ppo_epochs", 1, 119, "The update goes over a step's batch as often: its seconds rise by that "
     "factor.", "seconds"),
    ("freeze_vision_tower", False, 52, "A vision tower that is frozen has no gradients or "
     "moments; plans have no tower at all.", "memory"),
    ("checkpoint.save_contents", ["model", "optimizer", "extra"], 135, "A checkpoint without the "
     "optimizer's state is smaller: writing it takes fewer seconds.", "seconds"),
    ("checkpoint.async_save", False, 142, "Checkpoints are written beside the training: host RAM "
     "rises, seconds fall.", "both"),
    ("qat.enable", False, 333, _QUANTIZED, "both"),
)  # fmt: skip
_DP_ACTOR: tuple[Row, ...] = (
    ("ulysses_sequence_parallel_size", 1, 34, _ULYSSES, "both"),
    (_ENTROPY[0], False, 37, _CHUNKED, "memory"),
    (_ENTROPY[1], 2048, 40, _CHUNK, "memory"),
    (_ENTROPY[2], False, 43, _RECOMPUTED, "both"),
    ("pad_to_length", False, 48, _PADDED, "both"),
)

_MODEL: tuple[Row, ...] = (
    ("hf_config_path", None, 13, "Another config.json than the model's own: sizes may differ.",
     "both"),
    ("use_shm", False, 19, "Weights are copied to shared memory first: host RAM rises by them.",
     "memory"),
    ("exclude_modules", None, 52, "These modules have no adapters: memory falls by theirs.",
     "memory"),
    ("tiled_mlp.enabled", False, 75, "The MLP goes over a row in pieces: its activations fall, "
     "seconds rise.", "both"),
    ("mtp.enable", False, 85, "Layers that predict further tokens are trained or generated with: "
     "memory rises by them.", "both"),
    ("lora.rank", 0, 109, "Megatron's adapters, which are not planned.", "both"),
    ("lora.merge", False, 106, "Adapters are merged before each weight sync: the engine gets whole "
     "weights.", "both"),
)  # fmt: skip

_ROLLOUT: tuple[Row, ...] = (
    ("nnodes", 0, 11, "The engine has nodes of its own.", "both"),
    ("n_gpus_per_node", "${oc.select:trainer.n_gpus_per_node,8}", 14, "GPUs of the engine's own "
     "nodes.", "both"),
    ("full_determinism", False, 27, "Deterministic kernels are slower.", "seconds"),
    ("ignore_eos", False, 49, "Every response runs to its limit: seconds rise.", "seconds"),
    ("cudagraph_capture_sizes", None, 58, "Fewer captured sizes hold less memory beside "
     "what gpu_memory_utilization gives.", "memory"),
    ("data_parallel_size", 1, 67, "Engines work together on more GPUs: each keeps whole weights "
     "besides its experts.", "both"),
    ("pipeline_model_parallel_size", 1, 75, "The engine's layers are spread over stages: weights "
     "and KV cache of a GPU fall.", "both"),
    ("enable_chunked_prefill", True, 87, "Whole prompts go through the engine at once: its "
     "workspace rises.", "both"),
    ("enable_prefix_caching", True, 90, "A group's prompt is computed for each response: seconds "
     "rise.", "seconds"),
    ("layered_summon", False, 103, "Adapters are gathered layer by layer for the weight sync: its "
     "peak falls.", "memory"),
    ("over_sample_rate", 0, 131, "Generation stops before its slowest responses: seconds fall.",
     "seconds"),
    ("multi_stage_wake_up", False, 136, "The KV cache comes back after the weight sync alone: its "
     "peak falls.", "memory"),
    ("agent.num_workers", 8, 246, "Each worker is a process in host RAM.", "memory"),
    ("enable_rollout_routing_replay", False, 337, "Each token's experts come back from the engine: "
     "host RAM rises.", "memory"),
    ("disaggregation.enabled", False, 488, "Prompts and responses have engines of their own.",
     "both"),
)  # fmt: skip

_REWARD: tuple[Row, ...] = (
    ("num_workers", 8, 5, "Each worker is a process in host RAM.", "memory"),
    ("reward_model.enable_resource_pool", False, 33, "The reward model has GPUs of its own.",
     "both"),
    ("reward_model.rollout.dtype", "bfloat16", 41, "The reward model's weights in another dtype.",
     "memory"),
    ("reward_model.rollout.gpu_memory_utilization", 0.5, 42, "The reward model's engine takes "
     "another share of each card.", "memory"),
    ("reward_model.rollout.enforce_eager", True, 43, "The reward model's engine holds CUDA graphs.",
     "memory"),
    ("reward_model.rollout.free_cache_engine", True, 45, "The reward model's engine keeps its "
     "memory between phases.", "memory"),
    ("reward_model.rollout.tensor_model_parallel_size", 2, 48, "The reward model is spread over "
     "other GPUs.", "both"),
    ("reward_model.rollout.max_num_batched_tokens", 8192, 50, "The reward model's engine takes "
     "other batches.", "both"),
    *((f"reward_model.{name}", default, line, "The reward model's engine is laid out otherwise "
       "than is planned.", "both") for name, default, line in (
        ("n_gpus_per_node", 8, 34),
        ("nnodes", 0, 35),
        ("rollout.cudagraph_capture_sizes", None, 44),
        ("rollout.data_parallel_size", 1, 46),
        ("rollout.expert_parallel_size", 1, 47),
        ("rollout.pipeline_model_parallel_size", 1, 49),
        ("rollout.max_model_len", None, 51),
        ("rollout.max_num_seqs", 1024, 52),
        ("rollout.multi_stage_wake_up", False, 58),
        ("rollout.enable_chunked_prefill", True, 61),
        ("rollout.enable_prefix_caching", True, 62),
        ("rollout.ignore_eos", False, 65),
        ("rollout.n", 1, 70),
        ("rollout.quantization", None, 75),
        ("rollout.disaggregation.enabled", False, 79),
    )),
)  # fmt: skip

_TRAINER: tuple[Row, ...] = (
    ("trainer.balance_batch", True, 141, "GPUs get unequal shares of tokens: the longest decides "
     "memory and seconds.", "both"),
    ("trainer.val_before_train", True, 199, "No validation before the first step: seconds fall.",
     "seconds"),
    ("trainer.val_only", False, 202, "Nothing trains.", "both"),
    ("trainer.critic_warmup", 0, 208, "The policy is not updated in the first steps: seconds "
     "fall.", "seconds"),
    ("trainer.device", "cuda", 229, "Another device than CUDA's or HIP's is not planned.", "both"),
    ("trainer.use_v1", True, 232, "The trainer before verl's present one holds what it holds at "
     "other times.", "both"),
    ("skip.rollout.enable", False, 467, "Responses come from a file: no generation.", "seconds"),
    ("skip.rollout_tq.enable", False, 482, "Responses come from a file: no generation.",
     "seconds"),
    ("skip.async_rollout.enable", False, 497, "Responses come from a file: no generation.",
     "seconds"),
)  # fmt: skip

_DATA: tuple[Row, ...] = (
    ("gen_batch_size", None, 45, "Prompts are generated in other batches than are trained on.",
     "seconds"),
    ("dataloader_num_workers", 8, 74, "Each worker is a process in host RAM.", "memory"),
)


def _rows(prefix: str, source: str, rows: tuple[Row, ...]) -> Iterator[Setting]:
    for name, default, line, otherwise, moves in rows:
        full = f"{prefix}.{name}" if prefix else name
        yield beyond(full, default, f"{source}:{line}", otherwise, moves)


def _follows(name: str, of: str, default: str, source: str) -> Setting:
    """A setting whose default is another one's value."""
    return beyond(name, f"${{oc.select:{of},{default}}}", source, _SAID[name.rpartition(".")[2]])


_SAID = {
    "ulysses_sequence_parallel_size": _ULYSSES,
    "use_torch_compile": _UNCOMPILED,
    "pad_to_length": _PADDED,
    "pad_to_length_bucket": _BUCKET,
    "ppo_epochs": "The critic's update goes over a step's batch as often.",
    **dict(zip(_ENTROPY, (_CHUNKED, _CHUNK, _RECOMPUTED), strict=True)),
}
_SELECTED = {_ENTROPY[0]: "False", _ENTROPY[1]: "2048", _ENTROPY[2]: "False",
             "pad_to_length": "False"}  # fmt: skip
_LINES = {_ENTROPY[0]: 48, _ENTROPY[1]: 51, _ENTROPY[2]: 57, "pad_to_length": 67}
_REF, _ENGINES = f"{REFERENCE}.fsdp_config", (f"{ACTOR}.fsdp_config", f"{CRITIC}.fsdp")


def _sharded() -> Iterator[Setting]:
    """What the three engines of FSDP are told alike."""
    for prefix in (*_ENGINES, _REF):
        rows = tuple(row for row in _FSDP if prefix != _REF or row[0] != "pad_to_length_bucket")
        yield from _rows(prefix, "engine/fsdp.yaml", rows)
    for name, line in _LINES.items():
        for role in (ACTOR, REFERENCE):
            of, source = f"{role}.{name}", f"engine/fsdp.yaml:{line}"
            yield _follows(f"{role}.fsdp_config.{name}", of, _SELECTED[name], source)
        default = 2048 if name == _ENTROPY[1] else False
        yield beyond(f"{CRITIC}.fsdp.{name}", default, f"engine/fsdp.yaml:{line}", _SAID[name])
    yield _follows(
        f"{_REF}.pad_to_length_bucket", f"{_ENGINES[0]}.pad_to_length_bucket", "1024",
        "ref/dp_ref.yaml:35",
    )  # fmt: skip


def _reference() -> Iterator[Setting]:
    for name, default, line in (
        ("ulysses_sequence_parallel_size", "1", "dp_ref.yaml:39"),
        ("pad_to_length", "False", "dp_ref.yaml:51"),
        ("use_torch_compile", "true", "ref.yaml:9"),
    ):
        yield _follows(f"{REFERENCE}.{name}", f"{ACTOR}.{name}", default, f"ref/{line}")
    yield from _rows(REFERENCE, "ref/dp_ref.yaml", (
        (_ENTROPY[0], False, 42, _CHUNKED, "memory"),
        (_ENTROPY[1], 2048, 45, _CHUNK, "memory"),
        (_ENTROPY[2], False, 48, _RECOMPUTED, "both"),
    ))  # fmt: skip


def _critic() -> Iterator[Setting]:
    yield beyond(
        f"{CRITIC}.ulysses_sequence_parallel_size", 1, "critic/dp_critic.yaml:36", _ULYSSES, "both"
    )
    yield _follows(
        f"{CRITIC}.ppo_epochs", f"{ACTOR}.ppo_epochs", "1", "critic/critic.yaml:52"
    )
    lines = {"checkpoint.save_contents": 78, "checkpoint.async_save": 84}
    for name, default, _, otherwise, moves in (row for row in _ACTOR if row[0] in lines):
        source = f"critic/critic.yaml:{lines[name]}"
        yield beyond(f"{CRITIC}.{name}", default, source, otherwise, moves)
    yield beyond(
        f"{CRITIC}.model.lora_rank", 0, "model/hf_model.yaml:43",
        "The critic would have adapters, which peft refuses.", "both",
    )  # fmt: skip
    yield beyond(
        f"{CRITIC}.model.use_fused_kernels", False, "model/hf_model.yaml:61",
        "The critic's head has one row, which is never fused.", "both",
    )  # fmt: skip


BEYOND = (
    beyond(
        "model_engine", "dp", "ppo_trainer.yaml:10",
        "Another engine than FSDP trains, whose memory and seconds are not planned.", "both",
    ),
    *_rows(ACTOR, "actor/actor.yaml", _ACTOR),
    *_rows(ACTOR, "actor/dp_actor.yaml", _DP_ACTOR),
    *_sharded(),
    *_reference(),
    *_critic(),
    *_rows(MODEL, "model/hf_model.yaml", _MODEL),
    *_rows(f"{CRITIC}.model", "model/hf_model.yaml", _MODEL),
    *_rows(ROLLOUT, "rollout/rollout.yaml", _ROLLOUT),
    *_rows("reward", "reward/reward.yaml", _REWARD),
    *_rows("", "ppo_trainer.yaml", _TRAINER),
    *_rows("data", "data/legacy_data.yaml", _DATA),
    beyond(
        "distillation.enabled", False, "distillation/distillation.yaml:14",
        "A teacher scores responses: memory and seconds rise by its engine.", "both",
    ),
    beyond(
        "transfer_queue.enable", False, "transfer_queue/transfer_queue.yaml:2",
        "A step's batch waits in storage processes: host RAM rises.", "memory",
    ),
)  # fmt: skip

ENGINES = {"megatron": "Megatron", "veomni": "VeOmni", "torchtitan": "TorchTitan"}
"""Engines with settings of their own, by the part of a name that says whose they are."""


def other_engine(name: str) -> str:
    """Which way a setting of an engine moves that is not planned; empty of another one."""
    label = next((ENGINES[part] for part in name.split(".") if part in ENGINES), "")
    return f"A setting of {label}'s, whose memory and seconds are not planned." if label else ""
