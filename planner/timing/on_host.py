"""Seconds that the host takes for offloaded gradients and weights, and copies there and back."""

from __future__ import annotations

from collections.abc import Iterator

from planner.catalog.efficiencies import Key, efficiencies, typical
from planner.formulas.communication import HOST_COPY, host_copy_rates
from planner.formulas.passes import ACCUMULATED
from planner.formulas.updates import HOST_MEMORY
from planner.numeric import Num, maximum
from planner.phases.phase import Work
from planner.phases.scene import Scene
from planner.term import TimeTerm
from planner.timing.terms import UNKNOWN


def keeps_gradients(scene: Scene) -> bool:
    """Whether the host adds gradients up, clips and uses them, as under FSDP2's CPU offload.

    Where DeepSpeed's wait in host RAM, the card adds to them (stage3.py partition_grads: "adding
    directly to cpu is very slow").
    """
    return scene.plan.offload == "all" and scene.fsdp


def fetched_bytes(scene: Scene, row: Work) -> Num:
    """Gradients of earlier micro-batches that the card fetches to add to, and sends back.

    DeepSpeed's of stages 2 and 3, for one GPU in one step; stage 1 keeps them on the card.
    """
    if scene.zero_stage < 2 or scene.plan.offload not in ("optimizer", "all"):
        return 0
    elements = row.role.trainable / scene.q.shards
    return 2 * _additions(scene, row) * elements * scene.q.gradient_bytes


def added(scene: Scene, row: Work) -> Iterator[TimeTerm]:
    """Gradients of further micro-batches, sent to the host and added to earlier ones there."""
    q = scene.q
    size = {"additions": _additions(scene, row), "elements": row.role.trainable / q.shards}
    sent = size["additions"] * size["elements"] * q.gradient_bytes
    yield copied(scene, row, "gradient offload before accumulation", sent)
    yield by_host(row, ACCUMULATED.name, ACCUMULATED(**size, value_bytes=q.gradient_bytes))


def _additions(scene: Scene, row: Work) -> Num:
    return maximum(row.rounds - scene.q.updates_per_step, 0)


def by_host(row: Work, label: str, bytes_moved: Num, one_pass: bool = True) -> TimeTerm:
    """Seconds of one process's thread; ``one_pass`` kernels go over their tensors once."""
    key: Key = (
        "host-thread-bytes-per-second" if one_pass else "host-thread-bytes-per-second-unfused"
    )
    return HOST_MEMORY.term(
        row.role.name,
        label=label,
        factors=efficiencies()[key].spread(),
        bytes_moved=bytes_moved,
        bytes_per_second=typical(key),
    )


def copied(scene: Scene, row: Work, label: str, size_bytes: Num) -> TimeTerm:
    """Seconds of copies through the card's slot, one direction at a time; empty where unknown."""
    rates = host_copy_rates(scene.facts.gpu)
    return UNKNOWN if rates is None else HOST_COPY.term(
        row.role.name, label=label, size_bytes=size_bytes, **rates
    )
