"""What is trained, with which software, on which GPUs, and how state is spread over them."""

from typing import Annotated

import numpy as np
from pydantic import BaseModel, Field

from planner.plan.fields.kinds import (
    Bytes,
    Card,
    Count,
    CountOrNone,
    Framework,
    Name,
    Sharding,
    Version,
    not_yet,
)
from planner.plan.frameworks import OWN
from planner.values.dealing import data_parallel
from planner.values.field import IN_SIGHT, field
from planner.values.sharding import sharding_of

ANOTHER = "every figure would be another"
FSDP_INSTEAD = (
    "Meanwhile plan the same GPUs with FSDP2: it spreads weights, gradients and optimizer state "
    "over as many GPUs, but its activations and times differ from those of your run."
)


class MachineFields(BaseModel):
    """The models, the software, and the GPUs."""

    model: Name = field(
        "Qwen/Qwen2.5-7B",
        "Model",
        "Hub id of the policy's model.",
        more="Type or paste any Hub id; where the Hub is out of reach, “Other model…” takes the "
        "model's config.json.",
        synonyms="hub id, hugging face, config.json, checkpoint, llm",
        page=IN_SIGHT,
        moves=ANOTHER,
    )
    config: Annotated[str, Field(max_length=8192, pattern=r"^[\w\-=]*$")] = field(
        "",
        "",
        "A pasted config.json, compressed; it replaces the catalog's entry.",
    )
    critic_model: Name = field(
        "",
        "Critic's model",
        "Critic's model; empty: the policy's model.",
        more="A Hub id of the catalog.",
        empty="same as policy",
        page=("roles", 50),
        no_effect=(("the critic shares the policy's body", lambda plan: plan.critic == "shared"),),
    )
    reward_model: Name = field(
        "",
        "Reward model",
        "Reward model; empty: the policy's model.",
        more="A Hub id of the catalog.",
        empty="same as policy",
        page=("roles", 70),
        no_effect=(("no reward model runs here", lambda plan: plan.reward != "model"),),
    )
    method: str = field(
        "",
        "Method",
        "Training method.",
        more="SFT imitates given answers and DPO learns from given pairs of answers; the other "
        "methods sample answers (rollouts) and reinforce good ones. PPO trains a second network "
        "(critic) that predicts rewards. GRPO and RLOO compare the answers of one prompt instead, "
        "and REINFORCE++ compares the answers of the whole batch. Intuitor is GRPO with the "
        "model's own certainty as reward. Variations of GRPO are in this list by their own names: "
        "DAPO, Dr. GRPO, GSPO and CISPO.",
        synonyms="algorithm, GRPO, PPO, DPO, RLOO, REINFORCE++, DAPO, GSPO, Dr. GRPO, SFT, "
        "Intuitor",
        page=IN_SIGHT,
        moves=ANOTHER,
    )
    variation: str = field(
        "",
        "Variation",
        "Published variation of the method.",
        more="Variations change how the loss clips and averages a few numbers per token, which "
        "changes neither memory nor time. A term that a variation leaves out, such as the KL "
        "term, changes both memory and time.",
        page=IN_SIGHT,
        since=9,
    )
    framework: Framework = field(
        OWN,
        "Framework",
        "Software that runs the step.",
        more="Switching fills in the new framework's defaults for every setting that you did not "
        "choose, and says what changed.",
        synonyms="TRL, verl, PyTorch, trainer, library",
        page=IN_SIGHT,
        moves=ANOTHER,
    )
    framework_version: Version = field(
        "1",
        "Framework version",
        "Version of that software.",
        page=("hardware", 70),
    )
    torch_version: Version = field(
        "2.13.0",
        "PyTorch version",
        "Version of PyTorch.",
        page=("hardware", 80),
    )
    gpu: Card = field(
        "h100-80gb",
        "GPU",
        "GPU type: a key of the catalog, or custom.",
        more="Capacity is what the driver reports, never the seller's figure: “80 GB” is a name. "
        "Cards marked unsupported can be planned by typing in their usable bytes.",
        synonyms="card, H100, A100, H200, 4090, accelerator, VRAM",
        page=IN_SIGHT,
        moves=ANOTHER,
    )
    gpu_bytes: Bytes = field(
        0,
        "Usable memory of the card",
        "Usable bytes of a custom card; 0: the catalog's value.",
        unit="GiB",
    )
    gpus: Annotated[int, Field(ge=1, le=65_536)] = field(
        8,
        "Count",
        "GPUs in all.",
        more="GPUs of a separate engine are included.",
        label_in_sentences="Number of GPUs",
        synonyms="GPU count, world size, number of cards",
        page=IN_SIGHT,
    )
    gpus_per_node: Annotated[int, Field(ge=1, le=128)] = field(
        8,
        "GPUs per node",
        "GPUs of one node.",
        synonyms="nodes, multi-node, nnodes, machines",
        page=("hardware", 40),
        no_effect=(("there is one GPU", lambda plan: plan.gpus == 1),),
        refused=(
            (
                lambda p: (p.gpus > p.gpus_per_node) & (p.gpus % p.gpus_per_node != 0),
                "gpus must fill whole nodes.",
                "Make gpus a multiple of gpus_per_node.",
            ),
        ),
    )
    host_ram_per_node: Bytes = field(
        0,
        "Host RAM per node",
        "Host RAM of a node in bytes; 0: unknown.",
        unit="GiB",
        empty="unknown",
        synonyms="CPU memory, system RAM, host memory",
        page=("hardware", 50),
    )
    disk_bytes_per_second: Bytes = field(
        0,
        "Disk of a node",
        "Read and write speed of a node's disk; 0: unknown.",
        more="Checkpoints and a cached reference wait for the disk. Where nobody says, 1,000 "
        "MiB/s are assumed.",
        unit="GiB/s",
        empty="unknown",
        page=("hardware", 60),
        since=7,
        only_time=True,
    )
    sharding: Sharding = field(
        "fsdp2",
        "Sharding",
        "How training state is spread over GPUs.",
        more="ddp: every GPU holds everything. fsdp2, zero3: weights, gradients and optimizer "
        "state are spread, layers are gathered when needed. zero1 spreads the optimizer, zero2 "
        "gradients too.",
        choice_labels={
            "ddp": "DDP",
            "zero1": "ZeRO-1",
            "zero2": "ZeRO-2",
            "zero3": "ZeRO-3",
            "fsdp1": "FSDP1",
            "fsdp2": "FSDP2",
        },
        synonyms="FSDP, FSDP2, ZeRO, ZeRO-3, DeepSpeed, DDP, data parallel",
        page=("hardware", 10),
        moves="weights, gradients and optimizer state of a GPU would be of another size",
        refused=(
            (
                lambda p: sharding_of(p).alone & (data_parallel(p) > 1),
                "sharding none trains on one GPU only.",
                "Set sharding to ddp or fsdp2, or gpus to 1.",
            ),
            (
                lambda p: sharding_of(p).ddp & (data_parallel(p) < 2),
                "sharding ddp needs at least two training GPUs.",
                "Set sharding to none.",
            ),
        ),
    )
    shard_size: CountOrNone = field(
        0,
        "Shard group size",
        "GPUs that share one copy of the training state; 0: all.",
        unit="GPUs",
        empty="all",
        synonyms="HSDP, hybrid sharding, fsdp size",
        page=("hardware", 20),
        no_effect=(("nothing is sharded", lambda plan: sharding_of(plan).replicated),),
        refused=(
            (
                lambda p: (p.shard_size != 0) & (p.shard_size > data_parallel(p)),
                "shard_size exceeds the GPUs that train.",
                "Lower shard_size, or set it to 0 for all GPUs.",
            ),
            (
                lambda p: (
                    (p.shard_size != 0) & (data_parallel(p) % np.maximum(p.shard_size, 1) != 0)
                ),
                "shard_size must divide the GPUs that train.",
                "Choose a divisor of the number of training GPUs, or 0 for all of them.",
            ),
        ),
    )
    reshard_after_forward: bool = field(
        True,
        "Reshard after forward",
        "Free gathered weights after each layer's forward (ZeRO-3).",
        synonyms="ZeRO-3, full shard",
        page=("hardware", 30),
        no_effect=(("only FSDP reshards", lambda plan: not sharding_of(plan).fsdp),),
    )
    tensor_parallel: Count = field(
        1,
        "Tensor parallel training (Megatron)",
        "GPUs one layer is split over in training.",
        **not_yet("tensor_parallel", "Tensor parallel"),
        synonyms="TP, tensor parallel, Megatron, Megatron-Core, mcore, sequence parallel, SP",
        alternative="Headroom cannot plan training split by tensor parallelism yet. "
        + FSDP_INSTEAD,
        moves="weights, gradients and activations of a GPU would be smaller; collectives would "
        "add time",
    )
    pipeline_parallel: Count = field(
        1,
        "Pipeline parallel training (Megatron)",
        "Stages the layers are split into.",
        **not_yet("pipeline_parallel", "Pipeline parallel"),
        synonyms="PP, pipeline parallel, Megatron, stages, virtual pipeline, 3D parallelism",
        alternative=f"Headroom cannot plan pipeline stages yet. {FSDP_INSTEAD}",
        moves="weights, gradients and optimizer state of a GPU would be smaller; the first stage "
        "would keep activations of several micro-batches, and bubbles would add time",
    )
    context_parallel: Count = field(
        1,
        "Sequence and context parallel training",
        "GPUs one sequence is split over.",
        **not_yet("context_parallel", "Context parallel"),
        synonyms="Ulysses, CP, SP, context parallel, sequence parallel, ring attention",
        alternative="Headroom cannot plan a sequence split over GPUs yet. Meanwhile plan the "
        "sequence unsplit, with full gradient checkpointing: the plan's activations are then an "
        "upper limit for your run, but times differ.",
        moves="activations of a GPU would be smaller; exchanged keys and values would add time",
    )
    expert_parallel: Count = field(
        1,
        "Expert parallel training",
        "GPUs the experts are split over.",
        **not_yet("expert_parallel", "Expert parallel"),
        synonyms="EP, expert parallel, MoE parallelism, DeepEP",
        alternative="Headroom cannot plan training with experts spread over GPUs yet. "
        + FSDP_INSTEAD,
        moves="experts' weights, gradients and optimizer state of a GPU would be smaller; sending "
        "tokens to them would add time",
    )
