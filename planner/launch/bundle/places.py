"""Where a launch is started: on the machines themselves, by Slurm, or on a Ray cluster.

It is no field of a plan, since it moves no number of an estimate: docs/decisions/0036.
"""

from __future__ import annotations

import re

from planner.launch.launch import RAY, Launch
from planner.launch.script import required
from planner.numeric import ceil_div
from planner.plan import Plan

SHELL, SLURM, RAY_JOB = "machines", "slurm", "ray"
PLACES = (SHELL, SLURM, RAY_JOB)

JOB, SUBMIT, ENGINE = "job.sbatch", "submit.sh", "engine.sh"
OF_A_PLACE = ("NODE_RANK", "MASTER_ADDR", "MASTER_PORT", "ENGINE_HOST")
"""What ``launch.sh`` asks for on the machines themselves, and a scheduler knows."""
ASKS = re.compile(r'^ *: "\$\{(\w+):\?set \w+ to ([A-Za-z0-9 ,.]+)\}"$', re.MULTILINE)
"""A line of :func:`planner.launch.script.required`."""
START = {SHELL: "bash launch.sh", SLURM: f"sbatch {JOB}", RAY_JOB: f"bash {SUBMIT}"}


def nodes_of(plan: Plan) -> int:
    """Machines of a plan."""
    return int(ceil_div(plan.gpus, plan.gpus_per_node))


def gpus_here(plan: Plan, launch: Launch) -> int:
    """GPUs of one node that ``launch.sh`` uses, or Ray from it."""
    own = plan.gpus if launch.across == RAY else plan.gpus - plan.rollout_gpus
    return int(min(own, plan.gpus_per_node))


def place_label(place: str, plan: Plan) -> str:
    """What a page calls it."""
    nodes = nodes_of(plan)
    shell = "One machine" if nodes == 1 else f"{nodes} machines"
    return {SHELL: shell, SLURM: "Slurm", RAY_JOB: "Ray cluster"}[place]


def why_not_on(plan: Plan, launch: Launch, place: str) -> str:
    """Why it cannot be started there, as a sentence; empty where it can."""
    if place not in PLACES:
        return f"--on {place!r} is not known. Choose {' or '.join(PLACES)}."
    if place != RAY_JOB or launch.across == RAY:
        return ""
    fix = f"Launch it by {SLURM} or on the {SHELL}."
    if nodes_of(plan) > 1:
        return (
            f"A job of a Ray cluster begins on one node, and this run needs a process of its own "
            f"on each of {nodes_of(plan)}. {fix}"
        )
    if any(file.name == ENGINE for file in launch.files):
        return f"A job of a Ray cluster is one script, and this run needs {ENGINE} beside it. {fix}"
    return ""


def start(launch: Launch, place: str) -> str:
    """The command that starts it, with the variables it asks for."""
    left_out = () if place == SHELL else OF_A_PLACE
    names = [name for name, _ in asked(launch) if name not in left_out]
    return " ".join([*(f"{name}=…" for name in names), START[place]])


def asked(launch: Launch) -> list[tuple[str, str]]:
    """Name and meaning of every variable that ``launch.sh`` stops without."""
    scripts = [file.text for file in launch.files if file.name == "launch.sh"]
    return [found for text in scripts for found in ASKS.findall(text)]


def still_asked(launch: Launch) -> list[str]:
    """Lines that ask for those that no scheduler knows, and export them."""
    left = [(name, why) for name, why in asked(launch) if name not in OF_A_PLACE]
    return [line for name, why in left for line in (required(name, why), f"export {name}")]
