"""``environment.sh``: variables of the allocator and of NCCL, each with its reason.

A file of its own, since what starts processes on other nodes has to read it first: Slurm's job
before it starts Ray, and a submitted job's runtime environment.
"""

from __future__ import annotations

from planner.launch.launch import LaunchFile
from planner.launch.script import comment
from planner.plan import Plan

NAME = "environment.sh"


def reading(folder: str = ".") -> list[str]:
    """Lines of a script that read it, in the folder of the bundle."""
    return [f"# shellcheck source={NAME}", f". {folder}/{NAME}"]


SEGMENTS = {
    True: "Blocks that can grow leave hardly any gaps in reserved memory; the plan counts on them.",
    False: "The plan counts the gaps of the allocator's usual blocks, which do not grow.",
}
BUFFERS = (
    "NCCL's own default, 4 MiB for each channel of a communicator: larger buffers are memory that "
    "the estimate does not count."
)
DEBUG = "NCCL's own words where a collective fails; nothing is said where all goes well."
NETWORK = (
    "Where NCCL picks the wrong network of several nodes, set NCCL_SOCKET_IFNAME and NCCL_IB_HCA "
    "to those of your cluster."
)


def environment_file(plan: Plan, by_framework: str = "") -> LaunchFile:
    """The file; ``by_framework`` says why the allocator's variable is left to the framework."""
    parts = [comment("Sourced by the scripts of this folder before anything starts.")]
    if by_framework:
        parts.append(comment(by_framework))
    else:
        grows = bool(plan.expandable_segments)
        value = f"PYTORCH_CUDA_ALLOC_CONF=expandable_segments:{grows}"
        parts.append(f"{comment(SEGMENTS[grows])}\nexport {value}")
    if plan.gpus > 1:
        parts += [
            f'{comment(BUFFERS)}\nexport NCCL_BUFFSIZE="${{NCCL_BUFFSIZE:-4194304}}"',
            f'{comment(DEBUG)}\nexport NCCL_DEBUG="${{NCCL_DEBUG:-WARN}}"',
        ]
    if plan.gpus > plan.gpus_per_node:
        parts.append(comment(NETWORK))
    return LaunchFile(name=NAME, text="\n\n".join(parts) + "\n")
