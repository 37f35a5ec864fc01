"""What people look for among the settings: fields, what moves no memory, and what is not there yet.

A subject is a field of a plan under all its names, or something a plan has no field for. Names
that frameworks give them are in the frameworks' own tables. Imports no Streamlit.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cache

from planner.plan import Plan
from planner.plan.fields import PlanFields
from planner.plan.frameworks import frameworks
from planner.plan.plan import ROWS
from planner.wording.fields import meaning, short_label


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
NO_MEMORY = "This setting changes time and money, not GPU memory."
EXACT, HOLDS, LIKE = 3.0, 2.0, 0.75
"""A name in full; words that all begin words of a name; how alike a misspelt one has to be."""


@cache
def subjects() -> tuple[Subject, ...]:
    """Everything that can be found, fields first, in the order of the plan."""
    return (
        *(
            Subject(name, "", row.synonyms, f"{meaning(name)} {NO_MEMORY * row.only_time}")
            for name, row in ROWS.items()
            if row.page[0] or name not in PlanFields.model_fields
        ),
        *(
            Subject(name, info.title or name, ROWS[name].synonyms, ROWS[name].alternative, True)
            for name, info in Plan.model_fields.items()
            if ROWS[name].alternative
        ),
        *OTHERS,
    )


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
    info = Plan.model_fields.get(subject.key)
    label = subject.title or (info and info.title) or short_label(subject.key)
    said = ROWS[subject.key].label_in_sentences if info else ""
    shorts = (option.rpartition(".")[2] for option in options(subject).values())
    every = (label, said, subject.key, *subject.names.split(","), *shorts)
    return tuple(filter(None, map(_plain, every)))


def _plain(text: str) -> str:
    return " ".join(re.findall(r"[a-z0-9+.]+", text.lower()))
