"""``submit.sh``: ``ray job submit`` of the bundle's folder to a cluster that is there."""

from __future__ import annotations

from planner.launch.bundle.environment import reading
from planner.launch.bundle.places import SUBMIT, asked, still_asked
from planner.launch.launch import RAY, Launch, LaunchFile
from planner.launch.script import header, required
from planner.plan import Plan
from planner.units import read_count

CARRIED = (
    "import json, os, sys; "
    "print(json.dumps({'env_vars': {n: os.environ[n] for n in sys.argv[1:] if n in os.environ}}))"
)
"""What the job is to have of this shell's variables; any value arrives as it is."""
ALWAYS = ("OUTPUT_DIR", "ANYWAY", "MODEL", "PYTORCH_CUDA_ALLOC_CONF", "NCCL_BUFFSIZE", "NCCL_DEBUG")


def submit_file(plan: Plan, launch: Launch) -> LaunchFile:
    """The script that submits."""
    names = dict.fromkeys([*(name for name, _ in asked(launch)), *ALWAYS])
    # Ray's own processes take the GPUs where they train; a script that begins them itself asks.
    gpus = "" if launch.across == RAY else f" --entrypoint-num-gpus {plan.gpus}"
    about = (
        f"{launch.framework} {launch.version}: {plan.method} of {plan.model} on "
        f"{read_count(plan.gpus, 'GPU')} of a Ray cluster.",
        "The cluster's nodes need what requirements.txt names, and the data and OUTPUT_DIR at "
        "paths that all of them see. This folder is sent along.",
    )
    lines = [
        header(about),
        required("RAY_ADDRESS", "the address of the dashboard of the cluster, with http and port"),
        required("OUTPUT_DIR", "a folder that every node of the cluster sees"),
        "export OUTPUT_DIR",
        *still_asked(launch),
        'here="$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)"',
        *reading('"$here"'),
        f'variables="$(python3 -c "{CARRIED}" \\\n  {" ".join(names)})"',
        f'ray job submit --address "$RAY_ADDRESS" --working-dir "$here"{gpus} \\\n'
        '  --runtime-env-json "$variables" -- bash launch.sh',
    ]
    return LaunchFile(name=SUBMIT, text="\n".join(lines) + "\n")
