"""What every plan has, whatever its method: names, kinds and meanings of its fields.

Says nothing of what is usual or possible; :mod:`planner.plan.plan` adds the methods' own fields,
the defaults and the rules. What lies below the plan and is given one names this type.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic_core import PydanticCustomError

from planner.catalog.card_names import LONGEST, card_key
from planner.lengths.text import MAX_CHARACTERS, canonical
from planner.plan.frameworks import OWN, complaint, frameworks

Sharding = Literal["none", "ddp", "zero1", "zero2", "zero3", "fsdp1", "fsdp2"]
Dtype = Literal["bf16", "fp16", "fp32"]
Offload = Literal[
    "none",
    "optimizer",
    "parameters",
    "all",
    "optimizer-between-phases",
    "parameters-between-phases",
    "all-between-phases",
]


EIGHT_BIT = ("adamw-8bit", "paged-adamw-8bit")
"""Optimizers whose code is bitsandbytes' or torchao's: no step of ours runs it."""
FLASH = ("flash", "flash_attention_3")
"""Attention by the flash-attn packages: FlashAttention-2, and 3, which keeps as much."""


def _known_framework(name: str) -> str:
    if name not in frameworks():
        raise PydanticCustomError("framework", "{text}", {"text": complaint(name)})
    return name


def _distribution(text: str) -> str:
    try:
        return canonical(text)
    except ValueError as error:
        raise PydanticCustomError("lengths", "it {text}", {"text": str(error)}) from None


Tokens = Annotated[int, Field(ge=1, le=4_194_304)]
TokensOrNone = Annotated[int, Field(ge=0, le=4_194_304)]
MOST = 1_048_576
"""Of what is counted; no run has more, and what a link carries stays small."""
Count = Annotated[int, Field(ge=1, le=MOST)]
CountOrNone = Annotated[int, Field(ge=0, le=MOST)]
Bytes = Annotated[int, Field(ge=0, le=2**53)]
Framework = Annotated[str, AfterValidator(_known_framework)]
Distribution = Annotated[str, Field(max_length=MAX_CHARACTERS), AfterValidator(_distribution)]
Card = Annotated[str, Field(max_length=LONGEST), AfterValidator(card_key)]
Name = Annotated[str, Field(max_length=160, pattern=r"^[\w.\-/]*$")]
Version = Annotated[str, Field(max_length=32, pattern=r"^[\w.+]+$")]


class PlanFields(BaseModel):
    """Everything a person chooses about one post-training run; methods add fields of their own.

    ``Plan(model="Qwen/Qwen2.5-7B", method="grpo", gpu="h100-80gb", gpus=8,
    prompt_tokens=512, response_tokens=2048)`` is enough; every other field has a
    default that depends only on the fields given.

    Raises:
        pydantic.ValidationError: with one sentence per bad field, naming the field
            and the fix. :func:`try_plan` gives the same as plain values.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    model: Name = Field("Qwen/Qwen2.5-7B", description="Hub id of the policy's model.")
    config: Annotated[str, Field(max_length=8192, pattern=r"^[\w\-=]*$")] = Field(
        "", description="A pasted config.json, compressed; it replaces the catalog's entry."
    )
    critic_model: Name = Field("", description="Critic's model; empty: the policy's model.")
    reward_model: Name = Field("", description="Reward model; empty: the policy's model.")
    method: str = Field("", description="Training method.")
    variation: str = Field("", description="Published variation of the method.")
    framework: Framework = Field(OWN, description="Software that runs the step.")
    framework_version: Version = Field("1", description="Version of that software.")
    torch_version: Version = Field("2.13.0", description="Version of PyTorch.")

    gpu: Card = Field("h100-80gb", description="GPU type: a key of the catalog, or custom.")
    gpu_bytes: Bytes = Field(
        0, description="Usable bytes of a custom card; 0: the catalog's value."
    )
    gpus: Annotated[int, Field(ge=1, le=65_536)] = Field(8, description="GPUs in all.")
    gpus_per_node: Annotated[int, Field(ge=1, le=128)] = Field(8, description="GPUs of one node.")
    host_ram_per_node: Bytes = Field(0, description="Host RAM of a node in bytes; 0: unknown.")
    disk_bytes_per_second: Bytes = Field(
        0, description="Read and write speed of a node's disk; 0: unknown."
    )

    sharding: Sharding = Field("fsdp2", description="How training state is spread over GPUs.")
    shard_size: CountOrNone = Field(
        0, description="GPUs that share one copy of the training state; 0: all."
    )
    reshard_after_forward: bool = Field(
        True, description="Free gathered weights after each layer's forward (ZeRO-3)."
    )
    tensor_parallel: Count = Field(1, description="GPUs one layer is split over in training.")
    pipeline_parallel: Count = Field(1, description="Stages the layers are split into.")
    context_parallel: Count = Field(1, description="GPUs one sequence is split over.")
    expert_parallel: Count = Field(1, description="GPUs the experts are split over.")

    prompts_per_step: Count = Field(64, description="Prompts of one step, over all GPUs.")
    responses_per_prompt: Count = Field(8, description="Responses sampled for each prompt.")
    prompts_per_update: Count = Field(64, description="Prompts of one optimizer step.")
    micro_batch_size: Count = Field(1, description="Sequences per GPU per training forward.")
    logprob_micro_batch_size: Count = Field(
        1, description="Sequences per GPU per forward without gradient."
    )
    max_tokens_per_micro_batch: CountOrNone = Field(
        0, description="Token budget of a micro-batch (dynamic batching); 0: off."
    )

    prompt_tokens: Tokens = Field(512, description="Longest prompt.")
    mean_prompt_tokens: TokensOrNone = Field(
        0, description="Mean tokens per prompt; 0: every prompt has the longest length."
    )
    response_tokens: Tokens = Field(2048, description="Longest response.")
    validation_response_tokens: Tokens = Field(2048, description="Longest validation response.")
    turns: Count = Field(1, description="Turns of a conversation.")
    batch_shape: Literal["full", "padded", "packed"] = Field(
        "padded", description="Rows without padding, padded rows, or one packed row."
    )
    length_distribution: Distribution = Field(
        "",
        title="Response lengths",
        description="How long responses are; empty: all have the longest length.",
    )

    finetuning: Literal["full", "lora", "qlora"] = Field("full", description="What is trained.")
    lora_rank: Annotated[int, Field(ge=1, le=4096)] = Field(16, description="Rank of the adapters.")
    lora_targets: Annotated[str, Field(max_length=160, pattern=r"^[A-Za-z0-9_.,\-]+$")] = Field(
        "all-linear", description="Projections with adapters, separated by commas."
    )
    lora_dropout: Annotated[float, Field(ge=0, lt=1, allow_inf_nan=False)] = Field(
        0.0, description="Share of an adapter's inputs that training drops."
    )
    dtype: Dtype = Field("bf16", description="Compute dtype.")
    master_dtype: Literal["none", "fp32"] = Field(
        "fp32",
        description="Dtype of the weights that the optimizer updates; none: the compute dtype.",
    )
    autocast: bool = Field(
        False, description="Half-precision autocast around adapters that are kept in fp32."
    )
    base_dtype: Literal["compute", "fp32"] = Field(
        "compute",
        description="Dtype of the frozen weights below adapters; fp32 with QLoRA is what peft's "
        "prepare_model_for_kbit_training makes of what is not quantised.",
    )
    gradient_dtype: Dtype = Field("fp32", description="Dtype in which gradients are stored.")
    reduce_dtype: Dtype = Field("fp32", description="Dtype in which gradients are reduced.")
    logits_dtype: Literal["bf16", "fp32"] = Field(
        "fp32", description="Dtype in which the softmax over the vocabulary runs."
    )
    optimizer: Literal[
        "adamw-fused", "adamw-foreach", "adamw-8bit", "paged-adamw-8bit", "sgd"
    ] = Field("adamw-fused", description="Optimizer and its implementation.")
    optimizer_step: Literal["update", "micro-batch", "in-backward"] = Field(
        "update",
        description="When the optimizer steps, which decides how long gradients are stored.",
    )
    offload: Offload = Field(
        "none", description="Which training state is kept in host RAM, and when."
    )
    activation_offload: bool = Field(
        False, description="Keep checkpointed activations in host RAM until the backward."
    )
    gradient_checkpointing: Literal["none", "full", "selective"] = Field(
        "full", description="Recompute layers in the backward instead of keeping them."
    )
    attention: Literal["eager", "sdpa", "flash", "flash_attention_3"] = Field(
        "sdpa", description="Attention kernel."
    )
    logits: Literal["full", "response", "chunked", "fused"] = Field(
        "response", description="How the loss computes logits over the vocabulary."
    )
    chunk_tokens: Tokens = Field(512, description="Tokens per chunk if logits is chunked.")
    chunk_compile: bool = Field(
        False, description="torch.compile of the head where logits is chunked."
    )
    temperature: Annotated[float, Field(gt=0, le=100, allow_inf_nan=False)] = Field(
        1.0, description="Sampling temperature; logits are divided by it."
    )
    kl: Literal["none", "loss", "reward"] = Field(
        "loss", description="Whether the KL term is in the loss or in the reward."
    )
    entropy: bool = Field(False, description="Entropy bonus in the loss.")
    compile: bool = Field(False, description="torch.compile of each layer.")
    liger: bool = Field(False, description="Liger kernels in the layers.")

    reference: Literal[
        "none",
        "copy",
        "adapter-disabled",
        "frozen-adapter",
        "offloaded",
        "cached-logprobs",
        "cached-activations",
        "dual-output",
    ] = Field("copy", description="Where reference log-probs come from.")
    critic: Literal["none", "shared", "separate"] = Field("none", description="Value model.")
    reward: Literal["rule", "model", "remote"] = Field(
        "rule", description="Where rewards come from."
    )
    reward_seconds: Annotated[float, Field(ge=0, le=86_400, allow_inf_nan=False)] = Field(
        0.0, description="Seconds to compute one response's reward, by rule or remotely."
    )
    reward_concurrency: Count = Field(1, description="Rewards computed at the same time.")
    resampling_factor: Annotated[float, Field(ge=1, le=1000, allow_inf_nan=False)] = Field(
        1.0, description="Responses generated per response that is trained on."
    )

    rollout: Literal["none", "in-graph", "hf", "vllm-colocated", "vllm-separate"] = Field(
        "vllm-colocated", description="What generates the responses."
    )
    rollout_gpus: CountOrNone = Field(0, description="GPUs reserved for a separate engine.")
    rollout_overlap: Literal["synchronous", "one-step-off", "asynchronous"] = Field(
        "synchronous",
        description="Whether a separate engine generates while the trainer trains.",
    )
    rollout_tensor_parallel: Count = Field(1, description="GPUs one engine is split over.")
    gpu_memory_utilization: Annotated[float, Field(gt=0, lt=1, allow_inf_nan=False)] = Field(
        0.5, description="Share of a GPU's memory that the engine reserves."
    )
    vllm_sleep_level: Annotated[int, Field(ge=0, le=2)] = Field(
        2,
        description="What the engine frees while the trainer works: nothing at level 0, weights "
        "and KV cache at levels 1 and 2.",
    )
    max_num_seqs: Count = Field(256, description="Sequences that vLLM decodes at once.")
    max_num_batched_tokens: Count = Field(8192, description="Tokens of one engine forward.")
    enforce_eager: bool = Field(False, description="Engine without CUDA graphs.")
    async_scheduling: bool = Field(
        True, description="The engine's host schedules the next step while the card computes."
    )
    kv_cache_dtype: Literal["auto", "fp8"] = Field("auto", description="Dtype of the KV cache.")
    rollout_quantization: Literal["none", "fp8"] = Field(
        "none", description="Quantization that the engine applies to its layers' weights."
    )
    rollout_expert_parallel: bool = Field(
        False,
        description="Each of an engine's GPUs has whole experts, not a slice of every expert.",
    )
    sync_bucket_bytes: Bytes = Field(
        0, description="Bucket size for sending weights to the engine; 0: the framework's default."
    )

    empty_cache: Literal["never", "between-phases", "every-step"] = Field(
        "never", description="When cached memory is returned to the driver."
    )
    expandable_segments: bool = Field(False, description="Allocator grows segments in place.")
    steps: Count = Field(500, description="Steps of the run, for time and money.")
    save_steps: CountOrNone = Field(
        0, description="Steps between two checkpoints; 0: no checkpoints."
    )
    eval_steps: CountOrNone = Field(
        0, description="Steps between two validations; 0: no validation."
    )
    validation_responses: CountOrNone = Field(0, description="Responses of one validation.")
    price_per_gpu_hour: Annotated[float, Field(ge=0, le=10_000, allow_inf_nan=False)] = Field(
        0.0, description="USD per GPU hour; 0: the catalog's price."
    )

    def changed(self, **changes: Any) -> Self:
        """This plan with some fields set otherwise; validated again."""
        return type(self)(**{**self.model_dump(), **changes})
