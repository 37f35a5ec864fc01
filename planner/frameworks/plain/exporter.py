"""Programs of our own, for plans that no framework expresses: a process for each GPU of a node.

What a method's program does and cannot do stands in its :class:`Program`, in the room of the
pair; here is what all of them share (docs/decisions/0017-programs-of-our-own.md).
"""

from __future__ import annotations

from math import gcd, lcm

from planner.frameworks.plain import FRAMEWORK
from planner.frameworks.plain.settings import FIXED, VERSION, constants, program_of
from planner.launch import reward
from planner.launch.bundle.environment import environment_file, reading
from planner.launch.launch import Launch, LaunchFile, Obstacle
from planner.launch.obstacles import Obstacles
from planner.launch.program import program_text, requirements
from planner.launch.script import chosen, command, expand, header, required
from planner.launch.templates import Program, decided
from planner.launch.weights import weights_lines, weights_option
from planner.launch.words import attention_packages, kernels, other_framework_note
from planner.numeric import round_up
from planner.plan import Plan, references
from planner.plan.frameworks import framework_named
from planner.plan.methods import method_of
from planner.plan.trainers import exporting
from planner.values.dealing import rest

REQUIREMENTS = "requirements.txt"
SAYS = (
    "Each step's line ends with the most that the allocator has reserved so far, beside what was "
    "predicted: hold it against the largest of *reserved*."
)


def obstacles(plan: Plan) -> tuple[Obstacle, ...]:
    """Every field in the way; empty when the plan can be written."""
    found = Obstacles(plan)
    program = program_of(plan.method)
    if program is None:
        found.without_exporter(FRAMEWORK)
        return tuple(found.found)
    _cached_reference(found)
    if not program.within(plan):
        _laid_out_otherwise(found)
        return tuple(found.found)
    _one_node(found)
    _kernels(found)
    for field, (value, why) in {**FIXED, **program.fixed}.items():
        found.only(field, value, why=why)
    program.refuse(found)
    if program.rewarded:
        found.only("reward", *("rule", "remote"), why="The program scores responses by reward.py.")
    return tuple(found.found)


def _cached_reference(found: Obstacles) -> None:
    """Of responses that a step samples, nothing is there to be computed before training."""
    plan = found.plan
    cached = plan.reference in ("cached-logprobs", "cached-activations")
    if cached and references.compares(plan) and method_of(plan).generates:
        live = "copy" if plan.finetuning == "full" else "adapter-disabled"
        found.refuse(
            "reference",
            "Responses are new in each step, so the reference cannot score them before training. "
            "The plan assumes that other GPUs run the reference; in the program every GPU trains.",
            reference=live,
        )


def _laid_out_otherwise(found: Obstacles) -> None:
    """Changes that would make it fit are no small ones, so nothing follows by itself."""
    plan, others = found.plan, [n for n in exporting(found.plan.method) if n != FRAMEWORK.name]
    engine = ", rollout to hf" if method_of(plan).generates else ""
    labels = " or ".join(framework_named(name).label for name in others)
    found.refuse(
        "method",
        f"Headroom's own {method_of(plan).title} program holds all weights on each GPU"
        f"{' and generates with transformers' if engine else ''}; this plan does not.",
        f"Export it to {labels}, or set sharding to ddp{engine}.",
    )


def _one_node(found: Obstacles) -> None:
    plan = found.plan
    if plan.gpus > plan.gpus_per_node:
        why = (
            f"The program runs on one node, and {plan.gpus} GPUs are more than one node has "
            f"({plan.gpus_per_node})."
        )
        if plan.gpus_per_node == 1:
            found.refuse("gpus", why, gpus=1, sharding="none", shard_size=0)
        else:
            found.refuse("gpus", why, gpus=plan.gpus_per_node)
    alone = plan.gpus == 1
    found.only(
        "sharding",
        "none" if alone else "ddp",
        why="Each process of the program holds all weights (DistributedDataParallel).",
        shard_size=0,
    )


def _kernels(found: Obstacles) -> None:
    plan = found.plan
    found.only(
        "gradient_checkpointing", "full", "none", why="The program recomputes whole layers or none."
    )
    found.only(
        "optimizer",
        *("adamw-fused", "adamw-foreach", "sgd"),
        why="The program uses PyTorch's own optimizers only.",
    )
    together, answers = int(plan.micro_batch_size) * int(plan.gpus), int(plan.responses_per_prompt)
    # Answers to a prompt are compared in one process, so those share whole prompts.
    whole = lcm(together // gcd(together, answers), int(plan.gpus) if answers > 1 else 1)
    if rest(plan, plan.micro_batch_size) or plan.prompts_per_update % whole:
        update = round_up(plan.prompts_per_update, whole)
        found.refuse(
            "prompts_per_update",
            "The program needs full micro-batches of whole prompts, and the sequences of one "
            "update do not divide into those.",
            prompts_per_update=update,
            prompts_per_step=round_up(plan.prompts_per_step, update),
        )
    found.only("autocast", False, why="The program computes in the dtypes of its weights.")
    found.only(
        "base_dtype", "compute", why="The program loads frozen weights in the compute dtype."
    )
    if plan.finetuning == "qlora":
        found.refuse("finetuning", "The program has no 4-bit weights.", finetuning="lora")
    found.only("batch_shape", "padded", "full", why="The program puts one sequence in each row.")


def write(plan: Plan, link: str) -> Launch:
    """The program and what starts it."""
    program = program_of(plan.method)
    assert program is not None
    packages, notes = _packages(plan), _notes(plan, program)
    install = f"pip install {' '.join(packages)}"
    about = (
        f"{FRAMEWORK.label}: {plan.method} of {ascii(plan.model)[1:-1]} on "
        f"{'one GPU' if plan.gpus == 1 else f'{plan.gpus} GPUs of one node'}.",
        *((link,) if link else ()),
        f"Install: {install}",
        *notes,
    )
    decisions = [*decided(constants(program), plan)]
    templates = program.templates(plan)
    script = _script(plan, about, [each.name for each in templates], program.rewarded)
    files = (
        LaunchFile(name="launch.sh", text=script),
        *(
            LaunchFile(name=each.name, text=program_text(each, decisions, about[:2]))
            for each in templates
        ),
        LaunchFile(name=REQUIREMENTS, text=requirements(packages)),
        environment_file(plan),
        *([reward.reward_file("", plan.reward)] if program.rewarded else []),
    )
    return Launch(
        framework=FRAMEWORK.name,
        version=VERSION,
        files=files,
        install=install,
        notes=notes,
        says=SAYS,
    )


def _packages(plan: Plan) -> tuple[str, ...]:
    return chosen(
        (True, f"torch=={plan.torch_version} transformers==5.23.0 peft==0.21.2"),
        *kernels(plan),
        *attention_packages(plan),
    )


def _notes(plan: Plan, program: Program) -> tuple[str, ...]:
    return (
        f"Tested with torch {VERSION}, transformers 5.23.0 and peft 0.21.2.",
        "The learning rate is a flag (--learning-rate): the plan has no field for it.",
        *program.notes(plan),
        *chosen(other_framework_note(plan, FRAMEWORK)),
    )


def _script(plan: Plan, about: tuple[str, ...], names: list[str], rewarded: bool) -> str:
    lines = [header(about), required("DATASET", "the path of the JSONL file to train on")]
    lines += weights_lines(plan)
    if rewarded and plan.reward == "remote":
        lines += [required("REWARD_URL", "the address of the reward service"), "export REWARD_URL"]
    lines += [
        'DATASET="$(realpath -m -- "$DATASET")"',
        'OUTPUT_DIR="$(realpath -m -- "${OUTPUT_DIR:-output}")"',
        'cd -- "$(dirname -- "${BASH_SOURCE[0]}")"',
        *reading(),
        "python3 preflight.py",
    ]
    starts = ["python3"]
    if plan.gpus > 1:
        # A free port of this machine's own, and as many processes as GPUs.
        starts += ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={plan.gpus}"]
    for name in names:
        data = ("--data", expand("", "DATASET"), "--output", expand("", "OUTPUT_DIR"))
        lines.append(f'{command([*starts, name, *weights_option(plan, "--model"), *data])} "$@"')
    return "\n".join(lines) + "\n"
