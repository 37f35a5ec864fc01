"""What programs of our own say of a plan: rows of their ``PLAN``, and what none of them varies."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from operator import attrgetter
from typing import Any

from planner import catalog
from planner.formulas.lora import ALL_LINEAR, TARGETS, adapted_names, lora_weights
from planner.frameworks.plain import FRAMEWORK
from planner.launch.program import PREDICTED
from planner.launch.templates import Constant, Fixed, Program, literal_of, of_fields
from planner.plan import Plan
from planner.plan.facts import facts_of
from planner.plan.trainers import trainer_of
from planner.setup.setup import setup_of
from planner.values.setting import Setting, refusing

VERSION = "2.13.0"
"""The torch that the programs were run with."""
PROCESSES = "nproc_per_node"
"""The option of torchrun that begins as many processes as there are GPUs."""

Said = Mapping[str, Any]


def program_of(method: str) -> Program | None:
    """What a method has beside plain PyTorch; None where that is no program."""
    found: Program | None = trainer_of(FRAMEWORK.name, method).export
    return found


@cache
def settings(method: str) -> tuple[Setting, ...]:
    """The table of a method's program.

    Raises:
        ValueError: it has none.
    """
    program = program_of(method)
    if program is None:
        raise ValueError(f"method: {method} has no program beside {FRAMEWORK.label}.")
    fixed = (_fixed(name, value) for name, (value, _) in {**FIXED, **program.fixed}.items())
    return (*constants(program), *fixed, BEGUN)


def constants(program: Program) -> tuple[Constant, ...]:
    """All rows of a program's ``PLAN``, in its order."""
    return (*SHARED, *program.constants, *PREDICTED)


def _fixed(name: str, value: object) -> Setting:
    return Setting(
        name=name,
        default=value,
        moves="both",
        source="planner/launch/pieces",
        fields=(name,),
        read=lambda value, said: {name: value},
    )


FIXED: Fixed = {
    "rollout_gpus": (0, "Every process of the program trains; none runs an engine."),
    "offload": ("none", "The program keeps weights and optimizer on the GPU."),
    "activation_offload": (False, "The program keeps activations on the GPU."),
    "torch_version": (VERSION, f"The programs were run with torch {VERSION} only."),
    "compile": (False, "The program does not compile its layers."),
    "liger": (False, "The program uses transformers' own kernels."),
    "chunk_compile": (False, "The program does not compile its head."),
    "chunk_tokens": (512, "The program's chunks have 512 tokens."),
    "optimizer_step": ("update", "The program runs one optimizer step per update."),
    "max_tokens_per_micro_batch": (0, "The program sizes micro-batches by rows, not tokens."),
    "save_steps": (0, "The program saves the trained weights only once, at the end."),
}
"""Of every program."""


BEGUN = Setting(
    name=PROCESSES,
    default=None,
    moves="both",
    source="planner/launch/pieces/ranks.py",
    fields=("gpus",),
    write=lambda plan: plan.gpus if plan.gpus > 1 else None,
    read=refusing(
        "A program whose PLAN has {values[gpus]} gpus begins as many processes.",
        lambda value, said: None not in (value, said["gpus"]) and value != said["gpus"],
    ),
)


def _gpus(value: object, said: Said) -> Said:
    gpus = literal_of("gpus", value)
    return {"gpus": gpus, "sharding": "none" if gpus == 1 else "ddp"}


PRECISION = ("dtype", "master_dtype", "stored_dtype", "finetuning")


def _stored(value: object, said: Said) -> Said:
    """A frozen base below adapters can be wider than they compute; weights that train follow."""
    dtype, master, _, finetuning = (said[name] for name in PRECISION)
    if None in (dtype, master, finetuning):
        return {}
    if finetuning != "full" and value in (dtype, "fp32"):
        return {"base_dtype": "compute" if value == dtype else "fp32"}
    follows = dtype if finetuning != "full" or master == "none" else master
    if value != follows:
        raise ValueError(f"A plan with this master_dtype stores {follows}: change both.")
    return {}


def _master(value: object, said: Said) -> Said:
    """Gradients have the dtype of what trains."""
    master = literal_of("master_dtype", value)
    trained = said["dtype"] if master == "none" else master
    return {"master_dtype": master} | ({"gradient_dtype": trained} if trained else {})


def _autocast(value: object, said: Said) -> Said:
    """Stored weights decide, where not fp32 adapters alone are wider than what they compute in."""
    dtype, master, stored, finetuning = (said[name] for name in PRECISION)
    if None in (dtype, master, stored, finetuning):
        return {}
    follows = stored == "fp32" != dtype
    if finetuning != "full" and master == "fp32" != dtype and not follows:
        return {"autocast": literal_of("autocast", value)}
    if value is not follows:
        raise ValueError(f"A plan with this stored_dtype has {follows}: change both.")
    return {"autocast": False}


def lora_names(plan: Plan) -> tuple[list[str], list[str]]:
    """What this model's family calls the planned adapters' modules, and tensors of experts."""
    if plan.finetuning == "full":
        return [], []
    targets = tuple(name.strip() for name in plan.lora_targets.split(","))
    modules, tensors = adapted_names(lora_weights(facts_of(plan).policy, targets))
    return [*modules], [*tensors]


def _targets(value: object, said: Said) -> Said:
    """The shortest names that mean the same modules and tensors of this model.

    Raises:
        ValueError: for no lists of names, or a model that nobody knows.
    """
    if said["finetuning"] in (None, "full"):
        return {}
    names: list[Any] = [value, said["lora_parameters"] or []]
    if not all(isinstance(one, list) and all(isinstance(n, str) for n in one) for one in names):
        raise ValueError("Adapters are of lists of names.")
    whole = [name for part in names for name in part]
    last = {name.rpartition(".")[2]: None for name in whole}
    usual = (*(name for name in TARGETS if name in last), *(n for n in last if n not in TARGETS))
    model = said["model"]
    policy = catalog.model(str(model)).architecture if model else None
    if policy is None:
        return {"lora_targets": ",".join(usual)}
    for short in ((ALL_LINEAR,), usual):
        try:
            found = adapted_names(lora_weights(policy, short))
        except ValueError:
            continue
        if _alike([name for part in found for name in part], whole):
            return {"lora_targets": ",".join(short)}
    return {"lora_targets": ",".join(whole)}


def _alike(found: list[str], ends: list[str]) -> bool:
    """Whether peft picks these modules by these names, which are ends of their paths."""
    pairs = {(path, end) for path in found for end in ends if f".{path}".endswith(f".{end}")}
    return {path for path, _ in pairs} == {*found} and {end for _, end in pairs} == {*ends}


ADAPTERS = {
    "full": "All weights train: each has a gradient and optimizer state.",
    "lora": "Only adapters train: only they have gradients and optimizer state.",
    "qlora": "Only adapters train; the base model is stored in 4 bits.",
}
CHECKPOINTING = {
    "full": "Only each layer's input is stored; the backward recomputes the layer's activations.",
    "none": "Every layer's activations are kept until the backward; nothing is computed twice.",
}
REFERENCE = {
    "copy": "A frozen copy of the model beside the policy.",
    "offloaded": "A frozen copy in host RAM, on the GPU only while it is used.",
    "adapter-disabled": "The policy without its adapters: no second copy of the weights.",
    "frozen-adapter": "The policy with a second adapter, which never trains.",
    "cached-logprobs": "Reference log-probs are computed once before training: one number per "
    "response.",
    "cached-activations": "The reference's last hidden states are computed once before training, "
    "one per response token; the loss runs the head on them.",
}
PROCESS = (
    "One process per GPU. Each process holds all weights, its own gradients and a flat buffer "
    "in which the gradients of all processes are summed."
)

SHARED: tuple[Constant, ...] = (
    *of_fields({"method": "", "model": ""}),
    Constant(
        name="gpus",
        fields=("gpus", "sharding"),
        write=attrgetter("gpus"),
        read=_gpus,
        why=lambda plan: PROCESS if plan.gpus > 1 else "",
    ),
    *of_fields({"dtype": "Dtype in which forwards compute and frozen models are stored."}),
    Constant(
        name="stored_dtype",
        fields=("master_dtype", "base_dtype"),
        write=lambda plan: setup_of(plan).models[0].stored,
        read=_stored,
        why="Dtype of the policy's stored weights; adapters have the master copy's dtype.",
    ),
    Constant(
        name="master_dtype",
        fields=("master_dtype", "gradient_dtype"),
        write=attrgetter("master_dtype"),
        read=_master,
    ),
    Constant(
        name="autocast",
        fields=("autocast",),
        write=lambda plan: setup_of(plan).models[0].autocast,
        read=_autocast,
        why="Half-precision compute on fp32 weights, which are cast in each forward.",
    ),
    *of_fields({"finetuning": lambda plan: ADAPTERS[plan.finetuning], "lora_rank": ""}),
    Constant(
        name="lora_targets",
        fields=("lora_targets",),
        write=lambda plan: lora_names(plan)[0],
        read=_targets,
    ),
    Constant(
        name="lora_parameters",
        fields=("lora_targets",),
        write=lambda plan: lora_names(plan)[1],
        why="Tensors that hold all experts of a layer; peft adapts each tensor as a whole.",
    ),
    *of_fields(
        {
            "lora_dropout": "Above 0, every adapter also stores its inputs after dropout, and the "
            "dropout mask.",
            "gradient_checkpointing": lambda plan: CHECKPOINTING[plan.gradient_checkpointing],
            "attention": "eager keeps a score for every pair of tokens; sdpa and flash keep none.",
            "optimizer": "AdamW stores two moments per trained weight. In its step, foreach also "
            "holds the square roots of all second moments at once; fused does not. SGD stores "
            "nothing.",
            "reference": lambda plan: REFERENCE.get(plan.reference, ""),
            "micro_batch_size": "Rows per forward: activations grow with this number; gradients "
            "are accumulated over micro-batches.",
            "prompts_per_update": "",
            "responses_per_prompt": "",
            "prompt_tokens": "",
            "response_tokens": "",
            "batch_shape": "Padded rows need a mask, which takes memory; full rows need none.",
            "empty_cache": "Except with never, the program returns the allocator's cached memory "
            "to the driver after each step.",
            "steps": "",
        }
    ),
)
"""Rows that every program's ``PLAN`` begins with."""
