"""What starts the processes of a trainer: accelerate, torchrun, DeepSpeed, or Python alone."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from planner.importer.flags import flags
from planner.importer.given import Given, Launch, Open

ONE = {"accelerate.num_processes": 1, "accelerate.distributed_type": "NO"}
"""A script that Python starts is one process."""
ALONE = {"accelerate.num_processes": 1}
"""torchrun starts one for want of a word; DeepSpeed's launcher one for each GPU of a machine."""


@dataclass(frozen=True, slots=True)
class Started:
    """The innermost launcher's word on processes."""

    options: tuple[Given, ...] = ()
    """Names as accelerate's flags."""
    defaults: Mapping[str, Any] = field(default_factory=dict)
    """What is true without a word of anybody."""


def started(launch: Launch) -> Started:
    """What a launch's launchers say of processes."""
    for name, words in reversed(launch.launchers):
        said = tuple(flags(words, ()))
        if name == "accelerate launch":
            return Started(said)
        if name in ("torchrun", "deepspeed"):
            return Started(tuple(_counted(said)), ALONE if name == "torchrun" else {})
    return Started(defaults=ONE)


def _counted(said: tuple[Given, ...]) -> Iterator[Given]:
    """Nodes times processes of a node; one node where nobody says more."""
    names = {"num_nodes": "nnodes", "num_gpus": "nproc_per_node"}
    found = {names.get(one.name, one.name): one for one in said}
    nodes, each = found.get("nnodes"), found.get("nproc_per_node")
    if nodes is not None:
        yield Given("num_machines", nodes.value, nodes.place, nodes.opens)
    if each is None:
        return
    factors = [one for one in (nodes, each) if one is not None]
    opens = tuple(one for given in factors for one in given.opens)
    counts = [int(str(one.value)) for one in factors if str(one.value).isdecimal()]
    if len(counts) == len(factors):
        place = each.place if nodes is None else None
        yield Given("num_processes", math.prod(counts), place, opens)
    else:
        yield Given("num_processes", each.value, each.place, opens or (Open(str(each.value)),))
