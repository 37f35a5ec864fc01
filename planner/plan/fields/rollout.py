"""What generates responses, and the run as a whole: its steps, checkpoints and price."""

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from planner.plan.fields.kinds import UNSAMPLED, Bytes, Count, CountOrNone, half
from planner.values.field import Idle, field

NO_ENGINE: Idle = "no vLLM engine generates", lambda plan: not plan.rollout.startswith("vllm")
NOT_SEPARATE: Idle = "no separate engine", lambda plan: plan.rollout != "vllm-separate"
NOT_SAMPLED: Idle = (
    "no engine generates for a validation",
    lambda plan: plan.rollout in UNSAMPLED,
)


class RolloutFields(BaseModel):
    """The engine, and the run."""

    rollout: Literal["none", "in-graph", "hf", "vllm-colocated", "vllm-separate"] = field(
        "vllm-colocated",
        "Engine",
        "What generates the responses.",
        more="vllm-colocated shares the training GPUs; vllm-separate has GPUs of its own; hf is "
        "transformers' generate.",
        choice_labels={
            "in-graph": "in the graph",
            "hf": "Transformers' generate",
            "vllm-colocated": "vLLM, colocated",
            "vllm-separate": "vLLM, GPUs of its own",
        },
        synonyms="vLLM, engine, colocate, generation, inference, HF generate, SGLang",
        page=("rollout", 10),
    )
    rollout_gpus: CountOrNone = field(
        0,
        "GPUs of the engine",
        "GPUs reserved for a separate engine.",
        synonyms="separate engine, disaggregated, dedicated rollout GPUs",
        page=("rollout", 30),
        no_effect=(NOT_SEPARATE,),
        refused=(
            (
                lambda p: (p.rollout_gpus >= p.gpus) & (p.rollout_gpus > 0),
                "rollout_gpus leaves no GPU to train on.",
                "Lower rollout_gpus or raise gpus.",
            ),
            (
                lambda p: (p.rollout == "vllm-separate") & (p.rollout_gpus == 0),
                "A separate engine needs GPUs of its own.",
                "Set rollout_gpus.",
            ),
            (
                lambda p: (p.rollout != "vllm-separate") & (p.rollout_gpus != 0),
                "rollout_gpus is for rollout vllm-separate.",
                "Set rollout_gpus to 0.",
            ),
        ),
    )
    rollout_overlap: Literal["synchronous", "one-step-off", "asynchronous"] = field(
        "synchronous",
        "Overlap",
        "Whether a separate engine generates while the trainer trains.",
        more="With one step off policy, engine and trainer work at the same time on successive "
        "batches. Asynchronously, the engine also does not wait for a batch to end.",
        choice_labels={"one-step-off": "one step off policy"},
        synonyms="async, one-step off-policy, staleness",
        page=("rollout", 40),
        since=5,
        no_effect=(NOT_SEPARATE,),
        refused=(
            (
                lambda p: p.rollout_overlap != "synchronous" and p.rollout != "vllm-separate",
                "Only dedicated rollout GPUs generate while the trainer trains.",
                "Set rollout_overlap to synchronous, or rollout to vllm-separate.",
            ),
        ),
    )
    rollout_tensor_parallel: Count = field(
        1,
        "Tensor parallel size",
        "GPUs one engine is split over.",
        more="GPUs of one engine.",
        synonyms="TP, tensor parallel, vLLM TP",
        page=("rollout", 50),
        no_effect=(NO_ENGINE,),
        refused=(
            (
                lambda p: (
                    (p.rollout == "vllm-colocated") & (p.gpus % p.rollout_tensor_parallel != 0)
                ),
                "rollout_tensor_parallel must divide gpus.",
                "Choose a divisor of gpus.",
            ),
            (
                lambda p: (
                    (p.rollout == "vllm-separate")
                    & (p.rollout_gpus % p.rollout_tensor_parallel != 0)
                ),
                "rollout_tensor_parallel must divide rollout_gpus.",
                "Choose a divisor of rollout_gpus.",
            ),
        ),
    )
    gpu_memory_utilization: Annotated[float, Field(gt=0, lt=1, allow_inf_nan=False)] = field(
        0.5,
        "GPU memory utilization",
        "Share of a GPU's memory that the engine reserves.",
        more="Share of the GPU that vLLM reserves: weights, working memory, and the rest as KV "
        "cache (keys and values of tokens already processed). Between 0 and 1.",
        synonyms="KV cache size, vLLM memory, engine memory",
        page=("rollout", 20),
        step=0.05,
        no_effect=(NO_ENGINE,),
    )
    vllm_sleep_level: Annotated[int, Field(ge=0, le=2)] = field(
        2,
        "Sleep level",
        "What the engine frees while the trainer works: nothing at level 0, weights and KV cache "
        "at levels 1 and 2.",
        synonyms="sleep mode, free cache engine, wake up",
        page=("rollout", 60),
        no_effect=(
            ("no engine shares the trainer's GPUs", lambda plan: plan.rollout != "vllm-colocated"),
        ),
        search_values=(2, 1, 0),
    )
    max_num_seqs: Count = field(
        256,
        "Max sequences",
        "Sequences that vLLM decodes at once.",
        synonyms="concurrency, decode batch",
        page=("rollout", 70),
        step=32,
        no_effect=(NO_ENGINE,),
    )
    max_num_batched_tokens: Count = field(
        8192,
        "Max batched tokens",
        "Tokens of one engine forward.",
        synonyms="chunked prefill, prefill",
        page=("rollout", 80),
        step=1024,
        no_effect=(NO_ENGINE,),
    )
    enforce_eager: bool = field(
        False,
        "Eager mode",
        "Engine without CUDA graphs.",
        more="CUDA graphs replay recorded kernels, so decoding is faster, and keep their buffers "
        "in memory.",
        synonyms="CUDA graphs, cudagraph",
        page=("rollout", 100),
        no_effect=(NO_ENGINE,),
        search_values=(False, True),
    )
    async_scheduling: bool = field(
        True,
        "Async scheduling",
        "The engine's host schedules the next step while the card computes.",
        more="The engine's host schedules the next step while the GPU computes, as vLLM does "
        "since 0.14. With this off, or in older engines, host and GPU take turns at every token.",
        page=("rollout", 110),
        since=7,
        no_effect=(NO_ENGINE,),
    )
    kv_cache_dtype: Literal["auto", "fp8"] = field(
        "auto",
        "KV cache",
        "Dtype of the KV cache.",
        more="fp8 halves the memory of each token.",
        choice_labels={"auto": "compute dtype"},
        synonyms="KV cache, fp8 KV",
        page=("rollout", 120),
        no_effect=(NO_ENGINE,),
    )
    rollout_quantization: Literal["none", "fp8"] = field(
        "none",
        "Quantization",
        "Quantization that the engine applies to its layers' weights.",
        more="fp8 (verl's rollout.quantization): the engine's layers have weights of one byte, "
        "which it reads and multiplies faster; embeddings and head stay. The engine then samples "
        "with weights that differ from the trained ones.",
        choice_labels={"none": "none: the compute dtype"},
        synonyms="fp8 rollout, quantized inference",
        page=("rollout", 130),
        since=6,
        no_effect=(NO_ENGINE,),
        refused=(
            (
                lambda p: p.rollout_quantization == "fp8" and not half(p),
                "vLLM quantizes half-precision weights to fp8, not fp32 ones.",
                "Set rollout_quantization to none, or dtype to bf16.",
            ),
        ),
    )
    rollout_expert_parallel: bool = field(
        False,
        "Expert parallel",
        "Each of an engine's GPUs has whole experts, not a slice of every expert.",
        more="vLLM's enable_expert_parallel, verl's rollout.expert_parallel_size: each of an "
        "engine's GPUs has some experts whole, where it otherwise has a slice of every one.",
        synonyms="EP, expert parallel, MoE",
        page=("rollout", 90),
        since=7,
        no_effect=(
            NO_ENGINE,
            ("each engine has one GPU", lambda plan: plan.rollout_tensor_parallel == 1),
        ),
    )
    sync_bucket_bytes: Bytes = field(
        0,
        "Weight sync bucket",
        "Bucket size for sending weights to the engine; 0: the framework's default.",
        more="verl's update_weights_bucket_megabytes: updated weights travel to the engine in "
        "buckets of this size, one beside the trainer, and three on each GPU of a separate engine.",
        unit="GiB",
        empty="framework's own",
        synonyms="weight sync, update weights bucket",
        page=("rollout", 140),
        since=7,
        no_effect=(NO_ENGINE,),
    )
    empty_cache: Literal["never", "between-phases", "every-step"] = field(
        "never",
        "torch.cuda.empty_cache()",
        "When cached memory is returned to the driver.",
        more="PyTorch caches freed memory for reuse; until that memory is returned, the driver "
        "counts it as used.",
        choice_labels={"between-phases": "between phases", "every-step": "every step"},
        synonyms="empty cache, fragmentation",
        page=("savers", 100),
    )
    expandable_segments: bool = field(
        False,
        "Expandable segments",
        "Allocator grows segments in place.",
        more="PYTORCH_ALLOC_CONF; less fragmentation.",
        synonyms="fragmentation, PYTORCH_CUDA_ALLOC_CONF, allocator",
        page=("savers", 110),
    )
    steps: Count = field(
        500,
        "Steps of the run",
        "Steps of the run, for time and money.",
        page=("money", 10),
        step=100,
        only_time=True,
    )
    save_steps: CountOrNone = field(
        0,
        "Checkpoint every",
        "Steps between two checkpoints; 0: no checkpoints.",
        more="TRL's save_steps, verl's trainer.save_freq. All GPUs wait while a checkpoint is "
        "written; the run's time and cost include this wait.",
        unit="steps",
        empty="never",
        synonyms="checkpoint, save frequency",
        page=("money", 20),
        since=6,
    )
    eval_steps: CountOrNone = field(
        0,
        "Validate every",
        "Steps between two validations; 0: no validation.",
        more="verl's trainer.test_freq. Training waits while responses to the validation set are "
        "generated; the run's time and cost include this wait.",
        unit="steps",
        empty="never",
        page=("money", 30),
        since=6,
        no_effect=(NOT_SAMPLED,),
    )
    validation_responses: CountOrNone = field(
        0,
        "Responses of a validation",
        "Responses of one validation.",
        more="The number of prompts in the validation set times the responses to each prompt.",
        empty="none",
        synonyms="evaluation, eval set",
        page=("money", 40),
        since=6,
        only_time=True,
        no_effect=(
            NOT_SAMPLED,
            ("nothing is validated", lambda plan: plan.eval_steps == 0),
        ),
    )
    price_per_gpu_hour: Annotated[float, Field(ge=0, le=10_000, allow_inf_nan=False)] = field(
        0.0,
        "Price per GPU-hour",
        "USD per GPU hour; 0: the catalog's price.",
        unit="USD",
        empty="list price",
        synonyms="cost, dollars, spot price",
        page=("money", 50),
        step=0.1,
        only_time=True,
    )
