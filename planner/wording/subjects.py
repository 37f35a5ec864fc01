"""What people look for among the settings: fields, what moves no memory, and what is not there yet.

A subject is a field of a plan under all its names, or something a plan has no field for. Names
that frameworks give them are in the frameworks' own tables. Imports no Streamlit.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cache

from planner.plan import FIELDS
from planner.plan.frameworks import frameworks
from planner.plan.relevance import UNMODELLED
from planner.wording.fields import TEXTS, FieldText, meaning, short_label


@dataclass(frozen=True, slots=True)
class Subject:
    """Something to look for.

    ``key`` is a field's name, whose title is its label, or one of its own; ``names`` what people
    type for it, ``says`` what is to be known of it; ``missing`` where Headroom cannot plan it yet.
    """

    key: str
    title: str
    names: str
    says: str = ""
    missing: bool = False


FIELD_NAMES: Mapping[str, str] = {
    "model": "hub id, hugging face, config.json, checkpoint, llm",
    "method": "algorithm, GRPO, PPO, DPO, RLOO, REINFORCE++, DAPO, GSPO, Dr. GRPO, SFT, Intuitor",
    "framework": "TRL, verl, PyTorch, trainer, library",
    "finetuning": "LoRA, QLoRA, PEFT, adapter, 4-bit, full",
    "gpu": "card, H100, A100, H200, 4090, accelerator, VRAM",
    "gpus": "GPU count, world size, number of cards",
    "gpus_per_node": "nodes, multi-node, nnodes, machines",
    "host_ram_per_node": "CPU memory, system RAM, host memory",
    "sharding": "FSDP, FSDP2, ZeRO, ZeRO-3, DeepSpeed, DDP, data parallel",
    "shard_size": "HSDP, hybrid sharding, fsdp size",
    "reshard_after_forward": "ZeRO-3, full shard",
    "prompts_per_step": "batch size, global batch, train batch",
    "responses_per_prompt": "group size, n, num generations, rollouts",
    "prompts_per_update": "mini-batch, gradient accumulation, off-policy updates",
    "micro_batch_size": "batch per GPU, per device batch, gradient accumulation",
    "max_tokens_per_micro_batch": "dynamic batch, token budget, packing",
    "batch_shape": "remove padding, packing, varlen, sequence packing",
    "prompt_tokens": "prompt length, input length, context length",
    "response_tokens": "response length, max tokens, completion length, context length, CoT, "
    "long tail, length histogram",
    "master_dtype": "fp32 master, mixed precision",
    "dtype": "bf16, fp16, fp32, mixed precision",
    "optimizer": "AdamW, 8-bit Adam, bitsandbytes, paged, SGD",
    "offload": "CPU offload, optimizer offload, param offload, ZeRO-Offload",
    "gradient_checkpointing": "activation checkpointing, recompute, recomputation",
    "activation_offload": "CPU activations",
    "attention": "FlashAttention, SDPA, FA2, FA3, eager",
    "logits": "cross-entropy, fused linear cross-entropy, chunked loss, vocabulary, LM head",
    "liger": "Liger kernel, Triton kernels",
    "compile": "torch compile, inductor",
    "empty_cache": "empty cache, fragmentation",
    "expandable_segments": "fragmentation, PYTORCH_CUDA_ALLOC_CONF, allocator",
    "kl": "beta, KL coefficient, KL loss, reference penalty",
    "reference": "ref model, reference policy",
    "critic": "value model, value head",
    "reward": "reward model, verifier, rule, judge, RM",
    "rollout": "vLLM, engine, colocate, generation, inference, HF generate, SGLang",
    "rollout_gpus": "separate engine, disaggregated, dedicated rollout GPUs",
    "rollout_overlap": "async, one-step off-policy, staleness",
    "rollout_tensor_parallel": "TP, tensor parallel, vLLM TP",
    "rollout_expert_parallel": "EP, expert parallel, MoE",
    "gpu_memory_utilization": "KV cache size, vLLM memory, engine memory",
    "vllm_sleep_level": "sleep mode, free cache engine, wake up",
    "max_num_seqs": "concurrency, decode batch",
    "max_num_batched_tokens": "chunked prefill, prefill",
    "enforce_eager": "CUDA graphs, cudagraph",
    "kv_cache_dtype": "KV cache, fp8 KV",
    "rollout_quantization": "fp8 rollout, quantized inference",
    "sync_bucket_bytes": "weight sync, update weights bucket",
    "resampling_factor": "DAPO, dynamic sampling, filter groups, resampling",
    "price_per_gpu_hour": "cost, dollars, spot price",
    "reward_seconds": "tool time, sandbox, reward latency",
    "validation_responses": "evaluation, eval set",
    "save_steps": "checkpoint, save frequency",
}
"""Other names of fields, beside their label, their key and the frameworks' options."""
ONLY_TIME = (
    *("steps", "validation_responses", "price_per_gpu_hour", "resampling_factor"),
    *("reward_seconds", "reward_concurrency", "disk_bytes_per_second"),
)
"""Fields of which a test holds that no GPU memory follows from them."""

_FSDP_INSTEAD = (
    "Meanwhile plan the same GPUs with FSDP2: it spreads weights, gradients and optimizer state "
    "over as many GPUs, but its activations and times differ from those of your run."
)
OTHERS: tuple[Subject, ...] = (
    Subject(
        "clipping",
        "Clip range",
        "clip, clip-higher, clip ratio, epsilon, DAPO, cliprange",
        "The clip range does not change memory: the same tensors are clamped at other values.",
    ),
    Subject(
        "overlong",
        "Overlong responses",
        "overlong, soft overlong punishment, overlong filtering, DAPO, truncated",
        "Treatment of overlong responses does not change memory: only the values of rewards or of "
        "the loss's mask change.",
    ),
    Subject(
        "loss form",
        "How the loss is averaged",
        "loss aggregation, token mean, token-level loss, Dr. GRPO, DAPO, GSPO, loss type, sequence "
        "level",
        "Averaging does not change memory: the same per-token losses are summed in another way.",
    ),
    Subject(
        "advantage",
        "Advantage normalisation",
        "std normalization, advantages, Dr. GRPO, scale rewards, GAE, lambda, gamma",
        "Normalisation does not change memory: one number per response or token is scaled in "
        "another way.",
    ),
    Subject(
        "learning rate",
        "Learning rate",
        "lr, warmup, scheduler, cosine",
        "The learning rate does not change memory or time.",
    ),
    Subject(
        "weight decay",
        "Weight decay",
        "regularization, betas",
        "Weight decay does not change memory or time.",
    ),
    Subject(
        "gradient clipping",
        "Gradient clipping",
        "max grad norm, clip grad, grad norm",
        "The estimate includes gradient clipping: the norm of all gradients is computed before "
        "each step, whatever the limit is.",
    ),
    Subject(
        "sampling",
        "Top-p and top-k",
        "top p, top k, min p, nucleus, seed, repetition penalty",
        "Top-p and top-k do not change the GPU's peak: vLLM's sampler works inside the memory that "
        "vLLM reserves.",
    ),
    Subject(
        "epochs",
        "Passes over a batch",
        "ppo epochs, num iterations, mu, reuse",
        "Headroom plans one pass. More passes repeat the training phases with the same memory.",
    ),
    Subject(
        "tensor parallel",
        "Tensor parallel training (Megatron)",
        "TP, tensor parallel, Megatron, Megatron-Core, mcore, sequence parallel, SP",
        f"Headroom cannot plan training split by tensor parallelism yet. {_FSDP_INSTEAD}",
        missing=True,
    ),
    Subject(
        "pipeline",
        "Pipeline parallel training (Megatron)",
        "PP, pipeline parallel, Megatron, stages, virtual pipeline, 3D parallelism",
        f"Headroom cannot plan pipeline stages yet. {_FSDP_INSTEAD}",
        missing=True,
    ),
    Subject(
        "ulysses",
        "Sequence and context parallel training",
        "Ulysses, CP, SP, context parallel, sequence parallel, ring attention",
        "Headroom cannot plan a sequence split over GPUs yet. Meanwhile plan the sequence unsplit, "
        "with full gradient checkpointing: the plan's activations are then an upper limit for your "
        "run, but times differ.",
        missing=True,
    ),
    Subject(
        "expert parallel",
        "Expert parallel training",
        "EP, expert parallel, MoE parallelism, DeepEP",
        f"Headroom cannot plan training with experts spread over GPUs yet. {_FSDP_INSTEAD}",
        missing=True,
    ),
    Subject(
        "slurm",
        "Slurm and Ray clusters",
        "Slurm, sbatch, srun, partition, ray job submit, torchrun",
        "Launch writes a job for sbatch or for ray job submit: choose it under Launched by. It "
        "moves no number of the estimate.",
    ),
    Subject(
        "schedulers",
        "Kubernetes and other schedulers",
        "container, Kubernetes, k8s, SkyPilot, PBS, LSF",
        "Launch writes jobs for Slurm and Ray alone. Meanwhile start launch.sh on every node from "
        "a job of your own, with NODE_RANK and MASTER_ADDR set as its head says.",
        missing=True,
    ),
    Subject(
        "OpenRLHF",
        "OpenRLHF",
        "OpenRLHF, Ray PPO",
        "Headroom does not know OpenRLHF's memory and writes no OpenRLHF script yet. Meanwhile "
        "plan the nearest layout, which is TRL with ZeRO-3 and vLLM on separate GPUs, and leave "
        "some memory free: OpenRLHF was not measured.",
        missing=True,
    ),
    Subject(
        "nemo-rl",
        "NeMo-RL and NeMo-Aligner",
        "NeMo-RL, NeMo, NeMo Aligner, NVIDIA NeMo, DTensor",
        "Headroom does not know NeMo-RL's memory and writes no NeMo-RL script yet. Meanwhile plan "
        "the nearest layout, which is verl with FSDP2 and colocated vLLM, and leave some memory "
        "free: NeMo-RL was not measured.",
        missing=True,
    ),
    Subject(
        "unsloth",
        "Unsloth",
        "unsloth, FastLanguageModel",
        "Headroom does not know Unsloth's kernels and writes no Unsloth script yet. Meanwhile plan "
        "TRL with QLoRA: Unsloth says that it needs less memory than that, so a plan that fits "
        "here should fit in Unsloth.",
        missing=True,
    ),
    Subject(
        "other frameworks",
        "Other frameworks",
        "Axolotl, LLaMA-Factory, torchtune, ms-swift, slime, AReaL, PRIME-RL, SkyRL, ROLL",
        "Headroom plans plain PyTorch, TRL and verl, and no other framework yet. Meanwhile plan "
        "with the supported framework that shards and generates as yours does, and leave some "
        "memory free: your framework was not measured.",
        missing=True,
    ),
    Subject(
        "vision",
        "Vision and audio models",
        "vision, VL, VLM, multimodal, images, video, audio, Qwen2.5-VL, vision tower, pixels",
        "Headroom plans only the text part of a multimodal model; the vision tower and its image "
        "tokens come on top. Meanwhile add the image tokens to the prompt's length, and keep two "
        "bytes free for each weight of a frozen tower, or sixteen if the tower is trained.",
        missing=True,
    ),
    Subject(
        "turns",
        "Turns and tool calls",
        "turns, multi-turn, tools, tool calls, agent, agentic, environment, search, sandbox",
        "Headroom plans one response per prompt, without turns or waiting for tools. Meanwhile set "
        "the response's length to the length of the whole conversation, tool output included, and "
        "Seconds per reward to the time that the tools take.",
        missing=True,
    ),
    Subject(
        "oom",
        "An out-of-memory message",
        "OOM, out of memory, CUDA out of memory, error, traceback, crash",
        "Paste it on the Import page, with your launch script: it says which phase and tensor "
        "failed, how sure that is, and what to change.",
    ),
    Subject(
        "script",
        "A script, a configuration or a log",
        "script, paste, upload, yaml, hydra, overrides, accelerate config, deepspeed json, log, "
        "import, trainer_state",
        "Paste or drop it on the Import page: the plan fills itself in, says what was understood, "
        "and your own file comes back with the lines changed that make it fit.",
    ),
    Subject(
        "fp8 training",
        "FP8 training",
        "fp8 training, Transformer Engine, torchao float8, NVFP4",
        "Headroom cannot plan training in 8-bit floats yet. Meanwhile plan bf16, which needs at "
        "least as much memory.",
        missing=True,
    ),
)
"""What no field of a plan is."""
ELSEWHERE = ("schedulers", "OpenRLHF", "nemo-rl", "unsloth", "other frameworks")
"""Subjects that Launch writes no files for."""
NO_INPUT = ("config", "gpu_bytes", "length_distribution", *UNMODELLED)
"""Fields that have no input of their own in the sidebar."""
NO_MEMORY = "This setting changes time and money, not GPU memory."
EXACT, HOLDS, LIKE = 3.0, 2.0, 0.75
"""A name in full; words that all begin words of a name; how alike a misspelt one has to be."""


@cache
def subjects() -> tuple[Subject, ...]:
    """Everything that can be found, fields first, in the order of the plan."""
    fields = [name for name in FIELDS if name not in NO_INPUT]
    said = {name: f"{meaning(name)} {NO_MEMORY * (name in ONLY_TIME)}" for name in fields}
    return (*(Subject(name, "", FIELD_NAMES.get(name, ""), said[name]) for name in fields), *OTHERS)


def options(subject: Subject) -> dict[str, str]:
    """The option's name by the framework's label; frameworks without one are left out."""
    every = [(one.label, {**one.beside, **one.words}) for one in frameworks().values()]
    return {name: words[subject.key].option for name, words in every if subject.key in words}


def find(text: str, most: int = 5) -> tuple[Subject, ...]:
    """The subjects that somebody may mean, the likeliest first; names in full leave others out."""
    asked = _plain(text)
    ranked = [(max(_score(name, asked) for name in _names(one)), one) for one in subjects()]
    ranked.sort(key=lambda row: -row[0])
    least = next((level for level in (EXACT, HOLDS, LIKE) if ranked[0][0] >= level), EXACT)
    return tuple(one for score, one in ranked[:most] if score >= least)


def _score(name: str, asked: str) -> float:
    if name == asked:
        return EXACT
    words = name.split()
    if all(any(word.startswith(part) for word in words) for part in asked.split()):
        return HOLDS + name.startswith(asked) / 2
    # Short words are alike by chance.
    pairs = [SequenceMatcher(None, part, asked) for part in (name, *words) if len(asked) > 3]
    return max((pair.ratio() for pair in pairs), default=0.0)


@cache
def _names(subject: Subject) -> tuple[str, ...]:
    text = TEXTS.get(subject.key, FieldText(subject.title or short_label(subject.key)))
    shorts = (option.rpartition(".")[2] for option in options(subject).values())
    every = (text.label, text.said, subject.key, *subject.names.split(","), *shorts)
    return tuple(filter(None, map(_plain, every)))


def _plain(text: str) -> str:
    return " ".join(re.findall(r"[a-z0-9+.]+", text.lower()))
