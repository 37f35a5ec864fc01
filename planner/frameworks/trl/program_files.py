"""The files of a program around TRL's trainer: its text, with a reason at each memory decision.

Templates stand in ``program/``; :mod:`planner.launch.program` writes them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from planner.estimate import estimate
from planner.frameworks.trl import FRAMEWORK
from planner.launch.launch import LaunchFile
from planner.launch.program import PREDICTED, program_text, requirements
from planner.launch.templates import Decision, decided
from planner.plan import Plan
from planner.plan.facts import facts_of
from planner.sampling.model import Embedder

FOLDER = Path(__file__).with_name("program")
REQUIREMENTS = "requirements.txt"

WHY: Mapping[str, str] = {
    "model_name_or_path": "Loaded as safetensors; no code that comes with it runs.",
    "dtype": "Dtype of the loaded weights; TRL's own default is float32, 4 bytes a parameter.",
    "bf16": "Autocast: half-precision compute on fp32 weights.",
    "attn_implementation": "eager keeps a square of attention weights per head; the others do not.",
    "per_device_train_batch_size": "Sequences per GPU and forward, in training and in scoring: "
    "activations and logits grow with this number.",
    "gradient_accumulation_steps": "Micro-batches per update: more of them cost time, not memory.",
    "gradient_checkpointing": "Stores only each layer's input; the backward recomputes the layer.",
    "optim": "Optimizer state per trained parameter: AdamW has two fp32 numbers, 8-bit AdamW two "
    "8-bit numbers, SGD none.",
    "torch_empty_cache_steps": "Hands cached memory back after each step.",
    "use_peft": "Adapters train; the base model's weights have no gradient and no optimizer state.",
    "lora_dropout": "Above 0, each adapter would store a dropout mask for its input.",
    "load_in_4bit": "Base weights take half a byte per parameter, plus their scales.",
    "num_generations": "Responses per prompt: rewards are compared within this group.",
    "max_completion_length": "The longest response; rows are padded to the longest row of a batch.",
    "steps_per_generation": "Number of micro-batches that one rollout is split into.",
    "beta": "With a KL term, a reference scores the responses too: another copy of the model, or "
    "the base model without adapters. With beta 0 there is no reference.",
    "use_vllm": "vLLM has its own copy of the weights and a fixed KV cache; transformers' generate "
    "uses the training model and a growing KV cache.",
    "vllm_gpu_memory_utilization": "Share of the GPU that vLLM reserves, weights included.",
    "vllm_enable_sleep_mode": "The engine gives its memory back while the trainer works.",
    "vllm_max_model_length": "Longest sequence, in tokens, that the KV cache is sized for.",
}
"""Why a setting is as it is, or what it decides; settings that decide no memory have none."""

NOTES: Mapping[str, tuple[str, ...]] = {
    "intuitor.py": (
        "Self-certainty is the reward: there is no reward file, and the column answer is not read.",
        "intuitor.py subclasses TRL's GRPOTrainer and reaches into its fused head: it stops where "
        "another version than the one in requirements.txt is installed.",
    ),
    "density_grpo.py": (
        "Prompts unlike the others are drawn more often: a prompt's weight is its mean distance to "
        "its 10 nearest neighbours, among mean hidden states of the model that training begins "
        "with (--neighbours, --pooling, --favour).",
        "The weights are computed at the start, on the first GPU and before anything of the "
        "training is there; launch.sh passes --use-precomputed-embeddings DIR on, which reads "
        "those of a run of `python -m planner sampling run` and refuses stale ones.",
        "density_grpo.py subclasses TRL's GRPOTrainer; it stops where another version than the one "
        "in requirements.txt is installed.",
    ),
}
"""What a person should know of a program, by its name."""


def _embedding(plan: Plan) -> Iterator[Decision]:
    """The model that weighs prompts, whole and on one GPU, before anything of the training."""
    facts = facts_of(plan)
    sizes = {"batch_size": EMBEDDED, "prompt_tokens": plan.prompt_tokens, "model_dtype": "bf16"}
    # The program's logits are those of every token, as the document has them.
    asked: Any = SimpleNamespace(assembly="concatenate", **sizes)
    needed = {}
    for pooling in ("hidden", "logits"):
        asked.embedding = pooling
        embedder = Embedder(facts.policy, facts.gpu, asked)
        terms = (embedder.weights(), *embedder.forward())
        needed[pooling] = int(sum(term.bytes for term in terms))
    yield Decision(name="prompt_tokens", value=plan.prompt_tokens)
    yield Decision(name="embedding_batch", value=EMBEDDED)
    yield Decision(
        name="embedding_bytes",
        value=needed,
        why="Before the training, the whole model computes prompt weights in bf16 on one GPU. This "
        "is the memory of the model and a batch of the longest prompts, by --pooling; it is freed "
        "once the weights are computed.",
    )


EMBEDDED = 8
"""Prompts of a forward that embeds."""
NEEDED: Mapping[str, Callable[[Plan], Iterator[Decision]]] = {"density_grpo.py": _embedding}
"""What a program needs to know of the plan itself, by its name."""


def program_notes(name: str) -> tuple[str, ...]:
    """Sentences for a person."""
    return NOTES.get(name, ())


def program_files(
    plan: Plan,
    name: str,
    settings: Mapping[str, object],
    about: Iterable[str],
    packages: Iterable[str],
) -> tuple[LaunchFile, ...]:
    """The program of this name, and what it needs installed."""
    needed = NEEDED[name](plan) if name in NEEDED else ()
    made = (*_decisions(plan.method, settings), *needed, *_predictions(plan))
    return (
        LaunchFile(name=name, text=program_text(FOLDER / name, made, filter(None, about))),
        LaunchFile(name=REQUIREMENTS, text=requirements(packages)),
    )


def _decisions(method: str, settings: Mapping[str, object]) -> Iterator[Decision]:
    yield Decision(name="method", value=method, why="What this program trains by.")
    yield Decision(
        name="trl_version",
        value=FRAMEWORK.versions[0],
        why="The program uses internals of this TRL version and runs with no other version.",
    )
    for name, value in settings.items():
        yield Decision(name=name, value=value, why=WHY.get(name, ""))


def _predictions(plan: Plan) -> Iterator[Decision]:
    """As for every program; but what a run needs here is a colocated engine's memory too."""
    phases = estimate(plan).phases
    held = min(int(phase.device_bytes) - int(phase.reserved_bytes) for phase in phases)
    needed = max(int(phase.device_bytes) for phase in phases) - held
    for decision in decided(PREDICTED, plan):
        if decision.name == "predicted_reserved_bytes":
            why = "Predicted peak without the CUDA context and what libraries hold in every phase."
            decision = replace(decision, value=needed, why=why)
        yield decision
