"""``job.sbatch``: nodes of Slurm, each running ``launch.sh``; or one, with Ray begun on all."""

from __future__ import annotations

from planner.launch.bundle.environment import reading
from planner.launch.bundle.places import ENGINE, JOB, nodes_of, still_asked
from planner.launch.launch import RAY, Launch, LaunchFile
from planner.launch.script import comment
from planner.plan import Plan
from planner.units import read_count

RUN = "srun --overlap --ntasks-per-node=1 --cpu-bind=none"
"""A step beside others, one task a node, with all cores of the job rather than one."""

FOLDER = """\
# sbatch runs a copy of this script, so the other files are where it was submitted.
cd -- "$SLURM_SUBMIT_DIR"
if [ ! -f launch.sh ]; then
  echo "launch.sh is not here: submit {job} from its own folder." >&2
  exit 2
fi
"""
HOSTS = """\
mapfile -t hosts < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
export MASTER_ADDR="${hosts[0]}"
# A port that another job on these nodes does not have.
export MASTER_PORT="$((20000 + SLURM_JOB_ID % 20000))"
"""

ON_RAY = """\
# Ray's head on the first node, and a worker on each other one; both end with this script.
export RAY_ADDRESS="$MASTER_ADDR:$MASTER_PORT"
{run} --nodes=1 --nodelist="$MASTER_ADDR" \\
  ray start --head --node-ip-address="$MASTER_ADDR" --port="$MASTER_PORT" --num-gpus={gpus} \\
  --block &
for _ in {{1..60}}; do
  if ray status --address "$RAY_ADDRESS" > /dev/null 2>&1; then break; fi
  sleep 2
done
others="$(IFS=,; echo "${{hosts[*]:1}}")"
{run} --nodes={others} --nodelist="$others" \\
  ray start --address="$RAY_ADDRESS" --num-gpus={gpus} --block &
# launch.sh waits until every node has joined, and checks each of them.
bash launch.sh
"""

ENGINE_FIRST = """\
# The engine first, on the last node; training asks it for responses once it answers.
export ENGINE_HOST="${{hosts[-1]}}"
{run} --nodes=1 --nodelist="$ENGINE_HOST" bash {engine} &
for _ in {{1..300}}; do
  if (exec 3<> "/dev/tcp/$ENGINE_HOST/8000") 2> /dev/null; then break; fi
  sleep 2
done
training="$(IFS=,; echo "${{hosts[*]:0:{nodes}}}")"
"""


def job_file(plan: Plan, launch: Launch) -> LaunchFile:
    """The script for ``sbatch``."""
    nodes, gpus = nodes_of(plan), int(min(plan.gpus, plan.gpus_per_node))
    has_engine = any(file.name == ENGINE for file in launch.files)
    parts = [_header(plan, launch, nodes, gpus), *still_asked(launch), FOLDER.format(job=JOB)]
    parts += [*reading(), ""]
    if nodes > 1 or has_engine:
        parts.append(HOSTS)
    if launch.across == RAY and nodes > 1:
        parts.append(ON_RAY.format(run=RUN, gpus=gpus, others=nodes - 1))
    else:
        training, where = nodes, ""
        if has_engine:
            training = max(1, (int(plan.gpus) - int(plan.rollout_gpus)) // gpus)
            parts.append(ENGINE_FIRST.format(run=RUN, engine=ENGINE, nodes=training))
            where = ' --nodelist="$training"'
        begun = "'NODE_RANK=\"$SLURM_PROCID\" exec bash launch.sh'"
        parts += [
            "# shellcheck disable=SC2016 # each task reads its own number",
            f"{RUN} --nodes={training}{where} --kill-on-bad-exit=1 \\\n  bash -c {begun}",
        ]
    return LaunchFile(name=JOB, text="\n".join(parts).rstrip() + "\n")


def _header(plan: Plan, launch: Launch, nodes: int, gpus: int) -> str:
    whole = gpus == int(plan.gpus_per_node)
    options = [
        f"job-name=headroom-{plan.method.replace('+', 'p')}",
        f"nodes={nodes}",
        "ntasks-per-node=1",
        f"gpus-per-node={gpus}",
        # A part of a node leaves the rest to others; the plan counts on a whole one's host RAM.
        *(("exclusive", "mem=0") if whole else ()),
        "output=%x-%j.log",
    ]
    about = (
        f"{launch.framework} {launch.version}: {plan.method} of {plan.model} on "
        f"{read_count(plan.gpus, 'GPU')}, by Slurm.",
        "Partition, account and time are your cluster's: sbatch --partition=… --account=… "
        f"--time=… {JOB}.",
        "" if whole else "So are cores and host RAM of a part of a node: --cpus-per-task, --mem.",
    )
    rows = "\n".join(f"#SBATCH --{option}" for option in options)
    return f"#!/usr/bin/env bash\n{rows}\n{comment(*filter(None, about))}\nset -euo pipefail\n"
