"""What starts TRL's processes: accelerate, torchrun, DeepSpeed's launcher, or Python alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from planner.frameworks.trl.packaged import ALL, PACKAGED
from planner.importer.flags import flags
from planner.importer.given import Given, Launch

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
    takes_the_rest: bool = False
    """Whether what TRL's script does not know is this launcher's."""

    def packaged(self, file: Given) -> Iterator[Given]:
        """Of the name of a configuration that TRL brings, what that has."""
        if file.name == "accelerate_config" and file.value in PACKAGED:
            for name, value in {**ALL, **PACKAGED[file.value]}.items():
                yield Given(name, value)


def started(launch: Launch) -> Started:
    """The launcher of a launch; ``trl grpo`` is one of accelerate's itself."""
    if launch.program.startswith("trl "):
        return Started(takes_the_rest=True)
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
    texts = [str(one.value) for one in (nodes, each) if one is not None]
    opens = tuple(one for given in (nodes, each) if given is not None for one in given.opens)
    if all(text.isdigit() for text in texts):
        total = 1
        for text in texts:
            total *= int(text)
        yield Given("num_processes", str(total), each.place if nodes is None else None, opens)
