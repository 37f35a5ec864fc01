"""An export as a bundle: the framework's own files, and what goes with each of them.

What a framework writes says how a run is trained; here is what does not depend on it.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from planner import catalog
from planner.estimate import estimate
from planner.footprint import Footprint
from planner.launch.bundle.expected import expected_text
from planner.launch.bundle.places import (
    RAY_JOB,
    SHELL,
    SLURM,
    gpus_here,
    nodes_of,
    start,
    why_not_on,
)
from planner.launch.bundle.ray_job import submit_file
from planner.launch.bundle.slurm import job_file
from planner.launch.launch import RAY, Launch, LaunchFile
from planner.launch.program import program_text, requirements
from planner.launch.templates import Decision
from planner.plan import Plan
from planner.plan.facts import facts_of
from planner.plan.migrations import VERSION
from planner.plan.query import to_query_string

PREFLIGHT = Path(__file__).with_name("program") / "preflight.py"
REQUIREMENTS = "requirements.txt"
ENGINE_RANK = "rollout"
"""Whose phases run on an engine's own GPUs."""
SIZES = (
    *("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads"),
    *("num_key_value_heads", "vocab_size"),
)
"""Keys of a config.json that say whether weights are of the planned model."""
JOBS = {SLURM: job_file, RAY_JOB: submit_file}


def bundled(plan: Plan, launch: Launch, link: str, on: str = SHELL) -> Launch:
    """The export with its preflight, plan, requirements and, for a scheduler, a job's script.

    Raises:
        ValueError: it cannot be started ``on`` that; the sentence says why.
    """
    if why := why_not_on(plan, launch, on):
        raise ValueError(f"on: {why}")
    found = estimate(plan)
    own = {file.name for file in launch.files}
    told = {"v": VERSION, "link": link, "plan": plan.model_dump(mode="json")}
    files = [
        *([JOBS[on](plan, launch)] if on in JOBS else []),
        *launch.files,
        LaunchFile(name="preflight.py", text=_preflight(plan, found, launch)),
        LaunchFile(name="expected.md", text=expected_text(found, launch, link)),
        LaunchFile(name="plan.json", text=json.dumps(told, indent=1) + "\n"),
    ]
    if REQUIREMENTS not in own:
        packages = launch.install.removeprefix("pip install ")
        files.append(LaunchFile(name=REQUIREMENTS, text=requirements([packages])))
    return replace(launch, files=tuple(files), start=start(launch, on))


def _preflight(plan: Plan, found: Footprint, launch: Launch) -> str:
    apart = [one.name for one in found.phases if launch.across != RAY and one.rank == ENGINE_RANK]
    peak = max((p for p in found.phases if p.name not in apart), key=lambda one: one.device_bytes)
    rows = (
        ("link", to_query_string(plan, short=True).split("&"), "The plan, as a link has it."),
        ("card", facts_of(plan).gpu.name, "The card that the plan is for."),
        ("nodes", nodes_of(plan), ""),
        ("gpus_here", gpus_here(plan, launch), "GPUs of one node that launch.sh uses."),
        (
            "device_bytes",
            int(peak.device_bytes),
            "The estimated peak of a GPU as the driver sees it, CUDA context and libraries "
            "included, and the phase that has it.",
        ),
        ("phase", peak.name, ""),
        ("apart", apart, "Phases that run on GPUs of their own, where engine.sh is."),
        ("sizes", _sizes(plan), "Of the config.json that MODEL has to be of; empty for the Hub's."),
        ("host_bytes", found.host_bytes or 0, "Most host RAM of one node; 0 where nobody knows."),
    )
    about = (f"The plan of this {launch.framework} run.",)
    return program_text(PREFLIGHT, (Decision(name=n, value=v, why=w) for n, v, w in rows), about)


def _sizes(plan: Plan) -> dict[str, int]:
    config = catalog.decode_config(plan.config) if plan.config else {}
    return {name: config[name] for name in SIZES if isinstance(config.get(name), int)}
