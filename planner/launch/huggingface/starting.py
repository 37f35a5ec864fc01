"""What a script says to ``accelerate launch``, on one machine or on each of several."""

from __future__ import annotations

from planner.launch.huggingface.accelerate import ACCELERATE
from planner.launch.huggingface.processes import nodes
from planner.launch.script import Expanded, expand, required
from planner.plan import Plan


def started(plan: Plan) -> tuple[list[str], list[str | Expanded]]:
    """Lines that ask for what a script does not know, and the words before the program's own."""
    words: list[str | Expanded] = ["accelerate", "launch", "--config_file", ACCELERATE]
    if nodes(plan) == 1:
        return [], words
    lines = [
        required("NODE_RANK", f"the number of this node, 0 to {nodes(plan) - 1}"),
        required("MASTER_ADDR", "the address of node 0"),
        required("MASTER_PORT", "a free port of node 0"),
    ]
    words += [
        *("--machine_rank", expand("", "NODE_RANK")),
        *("--main_process_ip", expand("", "MASTER_ADDR")),
        *("--main_process_port", expand("", "MASTER_PORT")),
    ]
    return lines, words
