"""What of the model trains, in which number formats, by which optimizer, and where it is kept."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from planner.plan.fields.kinds import Dtype, Offload, adapted, half
from planner.plan.frameworks import framework_named
from planner.rule import NOT_YET
from planner.values.dealing import data_parallel
from planner.values.field import IN_SIGHT, Idle, field
from planner.values.sharding import sharding_of

ALL_TRAIN: Idle = "all weights train", lambda plan: plan.finetuning == "full"


class TrainingFields(BaseModel):
    """Adapters, dtypes, optimizer and offload."""

    finetuning: Literal["full", "lora", "qlora"] = field(
        "full",
        "Fine-tuning",
        "What is trained.",
        more="full trains every weight; LoRA trains two thin matrices (an adapter) beside each "
        "projection and leaves the weights frozen; QLoRA also stores those in 4 bits.",
        choice_labels={"full": "Full", "lora": "LoRA", "qlora": "QLoRA"},
        synonyms="LoRA, QLoRA, PEFT, adapter, 4-bit, full",
        page=IN_SIGHT,
        refused=(
            (
                lambda plan: plan.finetuning == "qlora" and plan.compile,
                f"finetuning qlora with compile {NOT_YET}",
                "Choose full or lora, or set compile to false.",
            ),
            (
                lambda plan: plan.finetuning == "qlora" and not sharding_of(plan).replicated,
                f"finetuning qlora with sharded weights {NOT_YET}",
                "Set sharding to none or ddp, or finetuning to lora.",
            ),
            (
                lambda plan: plan.finetuning == "qlora" and plan.rollout == "hf",
                f"finetuning qlora with rollout hf {NOT_YET}",
                "Set rollout to vllm-colocated, or finetuning to lora.",
            ),
            (
                lambda plan: plan.finetuning == "qlora" and plan.reference in ("copy", "offloaded"),
                f"finetuning qlora with another copy as reference {NOT_YET}",
                "Set reference to adapter-disabled or cached-logprobs.",
            ),
            (
                lambda plan: (
                    plan.finetuning == "qlora"
                    and (
                        plan.reference in ("cached-activations", "dual-output")
                        or plan.critic == "shared"
                    )
                ),
                f"finetuning qlora with this reference form or a shared critic {NOT_YET}",
                "Choose lora, or reference adapter-disabled and critic separate.",
            ),
        ),
    )
    lora_rank: Annotated[int, Field(ge=1, le=4096)] = field(
        16,
        "LoRA rank",
        "Rank of the adapters.",
        more="The rank is the number of columns of an adapter's thin matrices.",
        page=("precision", 90),
        no_effect=(ALL_TRAIN,),
    )
    lora_targets: Annotated[str, Field(max_length=160, pattern=r"^[A-Za-z0-9_.,\-]+$")] = field(
        "all-linear",
        "LoRA targets",
        "Projections with adapters, separated by commas.",
        more="all-linear, or names such as q_proj,v_proj; gate_up_proj and down_proj are all "
        "experts of a mixture.",
        page=("precision", 100),
        no_effect=(ALL_TRAIN,),
    )
    lora_dropout: Annotated[float, Field(ge=0, lt=1, allow_inf_nan=False)] = field(
        0.0,
        "LoRA dropout",
        "Share of an adapter's inputs that training drops.",
        more="Each adapter stores a mask of the dropped inputs for the backward.",
        page=("precision", 110),
        step=0.05,
        since=3,
        no_effect=(ALL_TRAIN,),
        refused=(
            (
                lambda plan: adapted(plan) and plan.lora_dropout > 0 and plan.compile,
                f"lora_dropout with compile {NOT_YET}",
                "Set lora_dropout to 0, or compile to false.",
            ),
        ),
    )
    dtype: Dtype = field(
        "bf16",
        "Compute dtype",
        "Compute dtype.",
        more="bf16 and fp16 take two bytes a number, fp32 takes four.",
        synonyms="bf16, fp16, fp32, mixed precision",
        page=("precision", 10),
    )
    master_dtype: Literal["none", "fp32"] = field(
        "fp32",
        "Master weights",
        "Dtype of the weights that the optimizer updates; none: the compute dtype.",
        more="An fp32 copy keeps small updates that bf16 would round away.",
        synonyms="fp32 master, mixed precision",
        page=("precision", 20),
        refused=(
            (
                lambda p: p.dtype == "fp32" and p.master_dtype != "none",
                "With dtype fp32 the weights are fp32 already.",
                "Set master_dtype to none.",
            ),
            (
                lambda p: sharding_of(p).zero > 0 and half(p) and p.master_dtype == "none",
                "DeepSpeed keeps an fp32 copy of half-precision weights.",
                "Set master_dtype to fp32, or sharding to fsdp2.",
            ),
        ),
    )
    autocast: bool = field(
        False,
        "Autocast of adapters",
        "Half-precision autocast around adapters that are kept in fp32.",
        more="With autocast, adapters multiply with half-precision copies of their fp32 weights, "
        "as under Trainer's bf16. Without autocast, the adapters' inputs are cast to fp32 and the "
        "adapters compute in fp32.",
        page=("precision", 120),
        since=4,
        no_effect=(
            (
                "no adapters compute in fp32",
                lambda plan: (
                    plan.finetuning == "full"
                    or plan.master_dtype == "none"
                    or not sharding_of(plan).replicated
                ),
            ),
            (
                "the framework asks for it",
                lambda plan: framework_named(plan.framework).autocasts_adapters,
            ),
            ("frozen weights in fp32 need it", lambda plan: plan.base_dtype == "fp32"),
        ),
        refused=(
            (
                lambda p: p.autocast and p.dtype == "fp32",
                "Autocast computes in half precision.",
                "Set dtype to bf16, or autocast to false.",
            ),
        ),
    )
    base_dtype: Literal["compute", "fp32"] = field(
        "compute",
        "Frozen weights",
        "Dtype of the frozen weights below adapters; fp32 with QLoRA is what peft's "
        "prepare_model_for_kbit_training makes of what is not quantised.",
        more="fp32: what adapters leave alone is loaded in fp32 and computed with in half "
        "precision. With QLoRA that is what peft's prepare_model_for_kbit_training does to "
        "embeddings, norms and the head.",
        choice_labels={"compute": "compute dtype"},
        page=("precision", 30),
        since=4,
        no_effect=(
            ("no weights are frozen below adapters", lambda plan: plan.finetuning == "full"),
            ("dtype is fp32 already", lambda plan: plan.dtype == "fp32"),
        ),
        refused=(
            (
                lambda p: p.base_dtype == "fp32" and sharding_of(p).zero > 0,
                "DeepSpeed keeps all weights in the compute dtype.",
                "Set base_dtype to compute, or sharding to fsdp2.",
            ),
            (
                lambda p: (
                    p.base_dtype == "fp32"
                    and p.finetuning == "lora"
                    and p.master_dtype == "none"
                    and p.dtype != "fp32"
                ),
                "Adapters of fp32 weights are fp32.",
                "Set master_dtype to fp32, or base_dtype to compute.",
            ),
        ),
    )
    gradient_dtype: Dtype = field(
        "fp32",
        "Gradients",
        "Dtype in which gradients are stored.",
        page=("precision", 40),
        refused=(
            (
                lambda p: p.master_dtype == "none" and p.gradient_dtype != p.dtype,
                "Without a master copy, gradients have the dtype of their weights.",
                "Set gradient_dtype to the value of dtype.",
            ),
            (
                lambda p: (
                    p.master_dtype == "fp32"
                    and p.gradient_dtype != "fp32"
                    and not sharding_of(p).zero
                ),
                "Gradients of fp32 weights are fp32 (only ZeRO keeps them in half precision).",
                "Set gradient_dtype to fp32.",
            ),
            (
                lambda p: p.gradient_dtype not in (p.dtype, "fp32"),
                "Gradients are stored in the compute dtype or in fp32.",
                "Set gradient_dtype to one of the two.",
            ),
        ),
    )
    reduce_dtype: Dtype = field(
        "fp32",
        "Gradient reduction",
        "Dtype in which gradients are reduced.",
        more="Dtype in which GPUs add up their gradients.",
        page=("precision", 50),
        no_effect=(
            ("gradients are reduced as they are", lambda plan: sharding_of(plan).replicated),
        ),
    )
    logits_dtype: Literal["bf16", "fp32"] = field(
        "fp32",
        "Logits dtype",
        "Dtype in which the softmax over the vocabulary runs.",
        more="Logits are one number per token and vocabulary entry; the upcast to fp32 makes a "
        "second copy of all logits.",
        page=("precision", 60),
        refused=(
            (
                lambda p: p.dtype == "fp32" and p.logits_dtype != "fp32",
                "With dtype fp32 the logits are fp32.",
                "Set logits_dtype to fp32.",
            ),
        ),
    )
    optimizer: Literal[
        "adamw-fused", "adamw-foreach", "adamw-8bit", "paged-adamw-8bit", "sgd"
    ] = field(
        "adamw-fused",
        "Optimizer",
        "Optimizer and its implementation.",
        more="AdamW keeps two numbers (moments) per trained weight. fused updates in place; "
        "foreach needs a temporary of a moment's size; 8-bit stores the moments in one byte each; "
        "paged (bitsandbytes) keeps those in memory that the driver moves to host RAM when the "
        "GPU has no room.",
        choice_labels={
            "adamw-fused": "AdamW, fused",
            "adamw-foreach": "AdamW, foreach",
            "adamw-8bit": "AdamW, 8-bit",
            "paged-adamw-8bit": "AdamW, 8-bit paged",
            "sgd": "SGD",
        },
        synonyms="AdamW, 8-bit Adam, bitsandbytes, paged, SGD",
        page=("precision", 70),
        refused=(
            (
                lambda p: p.optimizer == "paged-adamw-8bit" and not sharding_of(p).replicated,
                "bitsandbytes pages whole tensors, not shards.",
                "Set optimizer to adamw-8bit, or sharding to none or ddp.",
            ),
            (
                lambda p: p.optimizer == "paged-adamw-8bit" and p.offload != "none",
                "A paged optimizer moves to host RAM by itself when GPU memory is short.",
                "Set offload to none, or optimizer to adamw-8bit.",
            ),
        ),
    )
    optimizer_step: Literal["update", "micro-batch", "in-backward"] = field(
        "update",
        "Optimizer steps",
        "When the optimizer steps, which decides how long gradients are stored.",
        more="update: once for all micro-batches of a mini-batch, whose gradients add up "
        "(gradient accumulation). micro-batch: after each of them. in-backward: each weight as "
        "soon as its gradient is there, which is freed at once; their norm cannot be clipped then.",
        choice_labels={
            "update": "after each update",
            "micro-batch": "after each micro-batch",
            "in-backward": "in the backward",
        },
        page=("precision", 80),
        since=4,
        refused=(
            (
                lambda p: (
                    p.optimizer_step == "in-backward"
                    and not (sharding_of(p).alone or sharding_of(p).fsdp == 2)
                ),
                f"optimizer_step in-backward with gradients that are reduced in buckets {NOT_YET}",
                "Set sharding to none on one GPU, or to fsdp2.",
            ),
            (
                lambda p: p.optimizer_step == "in-backward" and p.optimizer == "adamw-foreach",
                "An optimizer in the backward updates one weight at a time.",
                "Set optimizer to adamw-fused.",
            ),
            (
                lambda p: p.optimizer_step == "in-backward" and p.offload == "all",
                f"optimizer_step in-backward on the CPU {NOT_YET}",
                "Set offload to none.",
            ),
            (
                lambda p: (
                    (p.optimizer_step == "in-backward")
                    & (p.shard_size != 0)
                    & (p.shard_size != data_parallel(p))
                ),
                f"optimizer_step in-backward with several copies of the shards {NOT_YET}",
                "Set shard_size to 0.",
            ),
        ),
    )
    offload: Offload = field(
        "none",
        "Offload weights and optimizer",
        "Which training state is kept in host RAM, and when.",
        more="between-phases moves it out only while it is not needed (verl); otherwise it stays "
        "out and the optimizer runs on the CPU.",
        choice_labels={
            "parameters": "weights",
            "all": "weights and optimizer",
            "optimizer-between-phases": "optimizer, between phases",
            "parameters-between-phases": "weights, between phases",
            "all-between-phases": "both, between phases",
        },
        synonyms="CPU offload, optimizer offload, param offload, ZeRO-Offload",
        page=("savers", 30),
        refused=(
            (
                lambda p: p.offload == "parameters",
                "Weights cannot stay in host RAM without the optimizer that updates them.",
                "Set offload to all or to parameters-between-phases.",
            ),
            (
                lambda p: p.offload == "all" and not sharding_of(p).streams,
                "Weights can stay in host RAM for the whole step only under fsdp2 or zero3.",
                "Set sharding to fsdp2, or offload to all-between-phases.",
            ),
            (
                lambda p: p.offload == "optimizer" and not sharding_of(p).zero,
                "Only ZeRO can keep just the optimizer in host RAM for the whole step.",
                "Set sharding to zero2, or offload to optimizer-between-phases.",
            ),
        ),
    )
    activation_offload: bool = field(
        False,
        "Offload activations",
        "Keep checkpointed activations in host RAM until the backward.",
        more="Needs full checkpointing; takes host RAM and PCIe traffic.",
        synonyms="CPU activations",
        page=("savers", 20),
        no_effect=(
            (
                "only checkpointed activations are offloaded",
                lambda plan: plan.gradient_checkpointing != "full",
            ),
        ),
        refused=(
            (
                lambda p: p.activation_offload and p.gradient_checkpointing != "full",
                "Only checkpointed activations are offloaded.",
                "Set gradient_checkpointing to full.",
            ),
        ),
    )



def stored(plan: Any) -> Dtype:
    """What trained models' weights are kept in: the master copy's dtype, where that is kept.

    DeepSpeed keeps its fp32 copy apart, as optimizer state. A frozen base under adapters is in a
    dtype of its own.
    """
    frozen_base = plan.finetuning != "full"
    if frozen_base and plan.base_dtype == "fp32":
        return "fp32"
    if plan.master_dtype == "none" or sharding_of(plan).zero > 0 or frozen_base:
        return plan.dtype  # type: ignore[no-any-return]
    return "fp32"


def autocasts(plan: Any) -> bool:
    """Whether trained models' forwards compute in half precision on fp32 weights."""
    return stored(plan) == "fp32" != plan.dtype and sharding_of(plan).replicated
