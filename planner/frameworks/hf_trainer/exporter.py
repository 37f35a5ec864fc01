"""transformers 5.23.0: a program around its Trainer, and files for ``accelerate launch``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from planner.frameworks.hf_trainer import FRAMEWORK, VERSION
from planner.frameworks.hf_trainer.limits import obstacles as obstacles
from planner.frameworks.hf_trainer.settings import PROGRAM, settings
from planner.launch.bundle.environment import environment_file, reading
from planner.launch.huggingface.accelerate import accelerate_files
from planner.launch.huggingface.processes import zero
from planner.launch.huggingface.starting import started
from planner.launch.huggingface.table import written
from planner.launch.huggingface.training import BITSANDBYTES, optimizer
from planner.launch.launch import Launch, LaunchFile
from planner.launch.program import PREDICTED, program_text, requirements
from planner.launch.script import chosen, command, expand, header, required
from planner.launch.templates import Decision, decided
from planner.launch.weights import weights_lines, weights_option
from planner.launch.words import (
    attention_packages,
    full_rows_note,
    kernels,
    other_framework_note,
    own_settings,
)
from planner.plan import Plan
from planner.plan.trainers import trainer_of
from planner.units import read_count

FOLDER = Path(__file__).with_name("program")
REQUIREMENTS = "requirements.txt"

WHY: Mapping[str, str] = {
    "dtype": "Dtype of the loaded weights; from_pretrained's own default is the checkpoint's.",
    "bf16": "Autocast: half-precision compute on fp32 weights.",
    "attn_implementation": "eager keeps a square of attention weights per head; the others do not.",
    "per_device_train_batch_size": "Sequences per GPU and forward: activations and logits grow "
    "with this number.",
    "gradient_accumulation_steps": "Micro-batches per update: more of them cost time, not memory.",
    "activation_checkpointing": "Stores only each layer's input; the backward recomputes it.",
    "optim": "Optimizer state per trained parameter: AdamW has two fp32 numbers, 8-bit AdamW two "
    "8-bit numbers, SGD none.",
    "torch_empty_cache_steps": "Hands cached memory back after each step.",
    "activation_checkpointing_kwargs": "Each layer's input waits in pinned host RAM.",
    "liger_kernel_config": "Kernels of layers alone: Liger's own fused loss would make no logits, "
    "and the plan counts them.",
    "batch_shape": "Padded rows need a mask, which takes memory; full rows need none.",
    "lora": "Adapters train; the base model's weights have no gradient and no optimizer state.",
}
"""Why a setting is as it is, or what it decides; settings that decide no memory have none."""


def write(plan: Plan, link: str) -> Launch:
    """The program, what starts it, and accelerate's (and DeepSpeed's) files."""
    packages, notes = _packages(plan), _notes(plan)
    install = f"pip install {' '.join(packages)}"
    about = (
        f"{FRAMEWORK.label} {VERSION}: {plan.method} of {ascii(plan.model)[1:-1]} on "
        f"{read_count(plan.gpus, 'GPU')}.",
        *filter(None, (link,)),
        f"Install: {install}",
        *notes,
    )
    program: str = trainer_of(FRAMEWORK.name, plan.method).export
    files = (
        LaunchFile(name="launch.sh", text=_script(plan, about, program)),
        LaunchFile(name=program, text=program_text(FOLDER / program, _decisions(plan), about[:2])),
        *accelerate_files(plan),
        environment_file(plan),
        LaunchFile(name=REQUIREMENTS, text=requirements(packages)),
    )
    return Launch(
        framework=FRAMEWORK.name, version=VERSION, files=files, install=install, notes=notes
    )


def _decisions(plan: Plan) -> Iterator[Decision]:
    for name, value in {**settings(plan), **written(PROGRAM, plan)}.items():
        yield Decision(name=name, value=value, why=WHY.get(name, ""))
    yield from decided(PREDICTED, plan)


def _script(plan: Plan, about: tuple[str, ...], program: str) -> str:
    asked, words = started(plan)
    lines = [header(about), required("DATASET", "the path of the JSONL file to train on"), *asked]
    lines += weights_lines(plan)
    data = ("--data", expand("", "DATASET"), "--output", expand("", "OUTPUT_DIR"))
    words += [program, *weights_option(plan, "--model"), *data]
    lines += [
        'DATASET="$(realpath -m -- "$DATASET")"',
        'OUTPUT_DIR="$(realpath -m -- "${OUTPUT_DIR:-output}")"',
        "# The files name each other, from this folder.",
        'cd -- "$(dirname -- "${BASH_SOURCE[0]}")"',
        *reading(),
        "python3 preflight.py",
        f'{command(words)} "$@"',
    ]
    return "\n".join(lines) + "\n"


def _packages(plan: Plan) -> tuple[str, ...]:
    kind = optimizer(plan)
    return chosen(
        (True, f"torch=={plan.torch_version} transformers=={VERSION} accelerate==1.15.0"),
        (True, "peft==0.21.2"),
        (zero(plan), "deepspeed==0.19.8"),
        (kind in BITSANDBYTES, "bitsandbytes==0.50.2"),
        (kind == "adamw_torch_8bit", "torchao==0.18.0"),
        *kernels(plan),
        *attention_packages(plan),
    )


def _notes(plan: Plan) -> tuple[str, ...]:
    return chosen(
        (True, f"Checked against transformers {VERSION} with accelerate 1.15.0."),
        (True, own_settings(FRAMEWORK)),
        (
            True,
            "The data file has JSONL rows with the texts prompt and response; rows longer than "
            "planned are left out, and the response alone is learned.",
        ),
        full_rows_note(plan),
        (
            plan.save_steps == 0,
            "The plan has no checkpoints; the Trainer writes one every 500 of its steps "
            "(save_steps) and after the last.",
        ),
        other_framework_note(plan, FRAMEWORK),
    )
