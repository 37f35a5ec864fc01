"""Preflight: this node beside the plan, before anything is loaded.

Compares the number of GPUs, what nvidia-smi says is free on each, and free host RAM with the
estimated peaks. Where Headroom's package planner is installed, it also runs the plan's step dry,
on tensors without data, and compares what that takes. Exit status 1 stops the launch.

    python3 preflight.py             check this node
    python3 preflight.py --on-ray    wait for the nodes of a Ray cluster, and check each
    ANYWAY=1 python3 preflight.py    say the same, and go on
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

PLAN: dict[str, Any] = {}

GIB, MIB = 2**30, 2**20
DRY_RUN_SECONDS = 600
JOIN_SECONDS = 900


def cards() -> list[tuple[str, int]]:
    """Name and free bytes of each GPU that this process may use; none without a driver."""
    if shutil.which("nvidia-smi") is None:
        return []
    asked = ["nvidia-smi", "--query-gpu=index,uuid,name,memory.free"]
    done = subprocess.run(
        [*asked, "--format=csv,noheader,nounits"], capture_output=True, text=True, timeout=120
    )
    rows = [[cell.strip() for cell in line.split(",")] for line in done.stdout.splitlines()]
    whole = [row for row in rows if len(row) == 4 and row[3].isdecimal()]
    visible = [one for one in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if one]
    mine = [row for row in whole if {row[0], row[1]} & set(visible)]
    # A scheduler may number the cards anew: then all that are listed are this job's.
    kept = mine if len(mine) == len(visible) and visible else whole
    return [(row[2], int(row[3]) * MIB) for row in kept]


def free_host_bytes() -> int | None:
    """Host RAM that programs can still have; None where the system does not say."""
    try:
        with open("/proc/meminfo", encoding="utf-8") as file:
            found = re.search(r"^MemAvailable:\s+(\d+) kB", file.read(), re.MULTILINE)
    except OSError:
        return None
    return int(found[1]) * 1024 if found else None


def dry_run() -> tuple[tuple[str, int] | None, str]:
    """Phase and bytes of the step's peak, run dry by the package planner; why not, where not."""
    query = "&".join(PLAN["link"])
    asked = [sys.executable, "-m", "planner", "dry-run", query, "--json", "--exit-zero"]
    # This folder has files of its own, whose names are no modules to be found.
    settings = {**os.environ, "PYTHONSAFEPATH": "1"}
    try:
        done = subprocess.run(
            asked, capture_output=True, text=True, timeout=DRY_RUN_SECONDS, env=settings
        )
        answer = json.loads(done.stdout)
        if answer["source"] == "dry run":
            here = [one for one in answer["phases"] if one["name"] not in PLAN["apart"]]
            size, phase = max((one["device_bytes"] or 0, one["name"]) for one in here)
            return (phase, int(size)), ""
    except (subprocess.TimeoutExpired, ValueError, KeyError, TypeError) as error:
        if isinstance(error, subprocess.TimeoutExpired):
            return None, f"it took more than {DRY_RUN_SECONDS} s"
    if "No module named" in done.stderr:
        return None, "Headroom is not installed here"
    return None, (done.stderr.strip().splitlines() or ["it gave no answer"])[-1]


def short(what: str, needed: int, free: int) -> str:
    """The sentence of what is missing."""
    return (
        f"{what} needs {needed / GIB:.1f} GiB, and {free / GIB:.1f} are free: "
        f"{(needed - free) / GIB:.1f} GiB are missing."
    )


def other_sizes() -> Iterator[str]:
    """In what the model that is to be trained is not the plan's, a sentence each."""
    path = os.path.join(os.environ.get("MODEL", ""), "config.json")
    if not PLAN["sizes"] or not os.path.isfile(path):
        return
    with open(path, encoding="utf-8") as file:
        found = json.load(file)
    for name, size in PLAN["sizes"].items():
        if found.get(name) != size:
            yield f"MODEL: {name} is {found.get(name)} in {path}, and {size} in the plan."


def missing(found: list[tuple[str, int]]) -> Iterator[str]:
    """What does not fit on this node, a sentence each; prints what was compared."""
    if len(found) < PLAN["gpus_here"]:
        yield (
            f"Of a node's GPUs the plan needs {PLAN['gpus_here']}, and "
            f"{len(found) or 'none'} can be used here."
        )
    for name in sorted({name for name, _ in found}):
        print(f"Here: {name}. Planned: {PLAN['card']}.")
    peaks = {f"Phase {PLAN['phase']}": PLAN["device_bytes"]}
    answer, why = dry_run()
    if answer is None:
        print(f"Compared with the estimate alone; no dry run: {why}.")
    else:
        peaks[f"The dry run's phase {answer[0]}"] = answer[1]
    for what, needed in peaks.items():
        print(f"{what}: {needed / GIB:.1f} GiB on a GPU.")
        for place, (_, free) in enumerate(found[: PLAN["gpus_here"]]):
            if free < needed:
                yield short(f"GPU {place}: {what[0].lower() + what[1:]}", needed, free)
    host = free_host_bytes()
    if PLAN["host_bytes"] and host is not None and host < PLAN["host_bytes"]:
        yield short("Host RAM: the plan", PLAN["host_bytes"], host)


def checked() -> list[str]:
    """What does not fit here."""
    return [*other_sizes(), *missing(cards())]


def checked_on_ray() -> list[str]:
    """The same of every node of the plan, once all of them are in the cluster."""
    import ray
    from ray.util.placement_group import placement_group, remove_placement_group
    from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

    ray.init(address="auto")
    here, nodes = PLAN["gpus_here"], PLAN["nodes"]
    group = placement_group([{"GPU": here, "CPU": 1}] * nodes, strategy="STRICT_SPREAD")
    if not group.wait(JOIN_SECONDS):
        gpus = ray.cluster_resources().get("GPU", 0)
        return [
            f"The plan needs {nodes} nodes with {here} free GPUs each; after {JOIN_SECONDS} s the "
            f"GPUs of the cluster are {gpus:g} in all."
        ]
    found = []
    for place in range(nodes):
        where = PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=place)
        task = ray.remote(num_gpus=here, num_cpus=1, scheduling_strategy=where)(checked)
        found.append(task.remote())
    said = [f"Node {place}: {one}" for place, each in enumerate(ray.get(found)) for one in each]
    remove_placement_group(group)
    return said


def main() -> None:
    """Exit with the sentences of what is missing."""
    found = checked_on_ray() if sys.argv[1:] == ["--on-ray"] else checked()
    if not found:
        print("Preflight: the plan fits here.")
        return
    print("\n".join(found), file=sys.stderr)
    if os.environ.get("ANYWAY") == "1":
        print("Going on, as ANYWAY=1 asks.", file=sys.stderr)
        return
    sys.exit("Nothing was loaded. Free what is taken, change the plan, or set ANYWAY=1.")


if __name__ == "__main__":
    main()
