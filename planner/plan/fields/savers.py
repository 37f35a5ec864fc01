"""The optimizer, what is kept where, and how layers and loss are computed."""

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from planner.plan.fields.kinds import FLASH, Offload, Tokens, half
from planner.rule import NOT_YET
from planner.values.dealing import data_parallel
from planner.values.field import field
from planner.values.sharding import sharding_of


class SaverFields(BaseModel):
    """Optimizer, offload, kernels and loss."""

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
        called={
            "adamw-fused": "AdamW, fused",
            "adamw-foreach": "AdamW, foreach",
            "adamw-8bit": "AdamW, 8-bit",
            "paged-adamw-8bit": "AdamW, 8-bit paged",
            "sgd": "SGD",
        },
        names="AdamW, 8-bit Adam, bitsandbytes, paged, SGD",
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
        called={
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
        called={
            "parameters": "weights",
            "all": "weights and optimizer",
            "optimizer-between-phases": "optimizer, between phases",
            "parameters-between-phases": "weights, between phases",
            "all-between-phases": "both, between phases",
        },
        names="CPU offload, optimizer offload, param offload, ZeRO-Offload",
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
        names="CPU activations",
        page=("savers", 20),
        idle=(
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
    gradient_checkpointing: Literal["none", "full", "selective"] = field(
        "full",
        "Gradient checkpointing",
        "Recompute layers in the backward instead of keeping them.",
        more="full keeps one tensor per layer and computes the rest again: about a third more "
        "time in the backward.",
        names="activation checkpointing, recompute, recomputation",
        page=("savers", 10),
        moves="activations would lie between those of none and of full",
        not_modelled=(
            lambda plan: plan.gradient_checkpointing == "selective",
            f"gradient_checkpointing selective {NOT_YET}",
            "Choose none or full.",
        ),
    )
    attention: Literal["eager", "sdpa", "flash", "flash_attention_3"] = field(
        "sdpa",
        "Attention",
        "Attention kernel.",
        more="eager stores a score for every pair of tokens; the others never do. "
        "FlashAttention-3 runs on Hopper, is faster than FlashAttention-2 and keeps as much for "
        "the backward.",
        called={
            "sdpa": "SDPA",
            "flash": "FlashAttention-2",
            "flash_attention_3": "FlashAttention-3",
        },
        names="FlashAttention, SDPA, FA2, FA3, eager",
        page=("savers", 40),
        refused=(
            (
                lambda p: p.attention in FLASH and not half(p),
                "Flash attention computes in half precision only.",
                "Set attention to sdpa, or dtype to bf16.",
            ),
        ),
    )
    logits: Literal["full", "response", "chunked", "fused"] = field(
        "response",
        "Cross-entropy",
        "How the loss computes logits over the vocabulary.",
        more="full: logits of all tokens. response: of response tokens only. chunked: a slice of "
        "tokens at a time. fused: fused linear cross-entropy, which never stores the logits whole.",
        called={
            "full": "full logits",
            "response": "logits of the response",
            "chunked": "chunked",
            "fused": "fused linear cross-entropy",
        },
        names="cross-entropy, fused linear cross-entropy, chunked loss, vocabulary, LM head",
        page=("savers", 50),
    )
    chunk_tokens: Tokens = field(
        512,
        "Chunk of the head",
        "Tokens per chunk if logits is chunked.",
        more="A chunk's logits are stored in fp32, in several copies during the backward.",
        unit="tokens",
        page=("savers", 60),
        since=4,
    )
    chunk_compile: bool = field(
        False,
        "Compile the head's chunks",
        "torch.compile of the head where logits is chunked.",
        more="With torch.compile, most of a chunk's fp32 tensors are never allocated.",
        page=("savers", 70),
        since=4,
        refused=(
            (
                lambda p: p.chunk_compile and p.dtype == "fp32",
                f"chunk_compile with dtype fp32 {NOT_YET}",
                "Set chunk_compile to false, or dtype to bf16.",
            ),
        ),
        not_run="The head's chunks ran eagerly; compiled chunks keep less.",
    )
    temperature: Annotated[float, Field(gt=0, le=100, allow_inf_nan=False)] = field(
        1.0,
        "Temperature",
        "Sampling temperature; logits are divided by it.",
        more="The loss also divides logits by the temperature. The division makes another copy of "
        "the logits in verl, and in any loss whose softmax runs in the logits' own dtype.",
        page=("rollout", 150),
        since=4,
    )
    kl: Literal["none", "loss", "reward"] = field(
        "loss",
        "KL penalty",
        "Whether the KL term is in the loss or in the reward.",
        more="Keeps the policy near the model it started from (the reference): in the loss, or "
        "taken off the reward.",
        called={"loss": "in the loss", "reward": "in the reward"},
        names="beta, KL coefficient, KL loss, reference penalty",
        page=("roles", 10),
    )
    entropy: bool = field(
        False,
        "Entropy bonus",
        "Entropy bonus in the loss.",
        more="Rewards spread-out distributions.",
        page=("roles", 20),
    )
    compile: bool = field(
        False,
        "torch.compile",
        "torch.compile of each layer.",
        names="torch compile, inductor",
        page=("savers", 90),
        not_run="Layers ran eagerly; compiled layers keep less.",
    )
    liger: bool = field(
        False,
        "Liger kernels",
        "Liger kernels in the layers.",
        more="TRL's use_liger_kernel, verl's use_liger: norms, rotation and the gated MLP in "
        "Triton, which keep fewer activations. Liger does not change the loss, which stays the "
        "framework's own.",
        names="Liger kernel, Triton kernels",
        page=("savers", 80),
        refused=(
            (
                lambda plan: (
                    plan.liger and (plan.reference == "dual-output" or plan.critic == "shared")
                ),
                f"liger with dual outputs or a shared critic {NOT_YET}",
                "Set liger to false.",
            ),
            (
                lambda plan: plan.liger and plan.compile,
                f"liger with compile {NOT_YET}",
                "Set liger to false.",
            ),
        ),
    )
