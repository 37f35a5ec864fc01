"""Seconds of collectives between GPUs and of copies between GPU and host.

Ring algorithms: every byte crosses the slowest link of the ring once (all-gather,
reduce-scatter) or twice (all-reduce). Sizes and counts may be arrays. What a card's row
does not say gives None, never a guess; the network between nodes is no property of a
card, so its rate is an assumption kept by name in ``efficiencies.json``.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from planner.catalog.efficiencies import efficiencies, typical
from planner.catalog.gpu_catalog import Gpu
from planner.formulas.duration import Rate
from planner.numeric import Num, ceil_div, minimum, remembered, where

NCCL = "github.com/NVIDIA/nccl-tests doc/PERFORMANCE.md: bus bandwidth of each collective"

LINK_RATE = Rate(
    "bandwidth inside a node",
    "bidirectional_bytes_per_second / 2 * share",
    unit="bytes per second",
    source="efficiencies.json link-bandwidth",
    why="Each GPU of a ring sends in one direction of its link and receives in the other, so the "
    "bandwidth of one direction counts.",
    ignores="cards of one node that are linked in part only, beyond pairs and fours",
)
SLOT_RATE = Rate(
    "bandwidth between cards over PCIe",
    "slot_bytes_per_second * share",
    unit="bytes per second",
    source="efficiencies.json pcie-collective-bandwidth",
    why="Without a direct link between the cards every byte goes through their PCIe slots.",
    ignores="slots that share an uplink, and cards without peer access",
)
NODE_RATE = Rate(
    "bandwidth between nodes",
    "minimum(node_rate, network_bytes_per_second * share * gpus_per_node)",
    unit="bytes per second",
    source="efficiencies.json network-bandwidth and network-bytes-per-second",
    why="Rings leave a node over all of its network cards at once but also cross the links inside "
    "it, so the slower of the two rates counts.",
    ignores="oversubscribed switches, and reductions inside switches",
)
GATHER = Rate(
    "all-gather or reduce-scatter",
    "(ranks - 1) / ranks * size_bytes / bytes_per_second + latency_seconds",
    unit="seconds",
    source=NCCL,
    why="Each rank sends or receives every part but its own; size_bytes is the size of the whole "
    "tensor.",
    ignores="overlap with computation, and contention with other collectives",
)
REDUCE = Rate(
    "all-reduce",
    "2 * (ranks - 1) / ranks * size_bytes / bytes_per_second + latency_seconds",
    unit="seconds",
    source=NCCL,
    why="An all-reduce is a reduce-scatter followed by an all-gather.",
    ignores="overlap with computation, and trees, which are faster for small tensors",
)
LATENCY = Rate(
    "latency of a collective",
    "latency_seconds + (nodes - 1) * (network_hop_seconds + (gpus_per_node - 1)"
    " * link_hop_seconds)",
    unit="seconds",
    source="github.com/NVIDIA/nccl src/graph/tuning.cc (read): a ring's hop takes 14 us over the "
    "network and 3.4 us over a link; efficiencies.json collective-latency inside one node",
    why="A ring passes through every GPU of every node, and every hop adds latency.",
    ignores="trees, which close sooner for small tensors",
)
NETWORK_HOP_SECONDS = 14e-6
LINK_HOP_SECONDS = 3.4e-6

HOST_COPY = Rate(
    "copy between host and card",
    "size_bytes / (slot_bytes_per_second * share)",
    unit="seconds",
    source="efficiencies.json host-copy-bandwidth",
    why="Pinned memory is copied at the PCIe slot's rate, in one direction at a time.",
    ignores="pageable memory, and cards that share a slot's uplink",
)
DISK_READ = Rate(
    "files read from the disk",
    "ranks_per_node * size_bytes / disk_bytes_per_second",
    unit="seconds",
    source="what the plan says of its disk, else efficiencies.json disk-bytes-per-second, assumed; "
    "planner/launch/pieces/reference_cache.py (read): the rows of a step, before its updates",
    why="The processes of a node share its disk, and the step waits until its files are read.",
    ignores="what the host's RAM still has of an earlier reading, and file systems over a network",
)
DISK_WRITE = Rate(
    "checkpoint written to the disk",
    "size_bytes / disk_bytes_per_second",
    unit="seconds",
    source="what the plan says of its disk, else efficiencies.json disk-bytes-per-second, assumed; "
    "transformers 5.23 Trainer._save_checkpoint (rank 0: weights, optimizer, and weights again "
    "under FSDP and DeepSpeed's stages 1 and 2), verl 0.9.1 "
    "fsdp_checkpoint_manager.py (every rank its shards of both), each before the next step",
    why="All processes of a node write to its disk, and training waits until they have finished.",
    ignores="gathering, copies to host RAM, checkpoints written in the background, and file "
    "systems over a network",
)
EXPOSED = Rate(
    "communication that computation does not hide",
    "maximum(communication_seconds - compute_seconds, 0)",
    unit="seconds",
    source="FSDP2 and DDP prefetch on a stream of their own",
    why="Collectives overlap with the layers' computation, and the step waits only for the time by "
    "which they take longer.",
    ignores="the first gather and the last reduction, which nothing hides",
)

PIPELINE = Rate(
    "exposed collectives",
    "rounds * (first_seconds + (layers - 1) * maximum(traffic_seconds - layer_seconds,"
    " collective_seconds * (1 - 1 / slowdown) - idle_seconds, 0) + last_seconds)",
    unit="seconds",
    source="torch 2.13 FSDP2 _fsdp_param_group.py, DeepSpeed partitioned_param_coordinator.py "
    "(read): one layer is fetched ahead",
    why="The collectives before the first layer's computation and the last reduction overlap with "
    "nothing. In between, a layer's traffic overlaps with at most one layer's computation and "
    "slows it down, because collectives occupy multiprocessors that GEMMs are laid out for. While "
    "the card waits for kernel launches, collectives slow nothing down.",
    ignores="that GEMMs slow collectives down as well",
)
LATE_REDUCTION = Rate(
    "exposed gradient reduction",
    "updates * maximum(reduce_seconds - backward_seconds,"
    " reduce_seconds * (1 - 1 / slowdown) - idle_seconds, bucket_seconds)",
    unit="seconds",
    source="torch 2.13 distributed.py (read): buckets of 25 MiB, reduced in the last micro-batch "
    "before an update alone",
    why="Buckets are reduced while the backward of earlier layers runs, which slows that backward "
    "down; the last bucket's reduction overlaps with nothing. While the card waits for kernel "
    "launches, collectives slow nothing down.",
    ignores="that GEMMs slow collectives down as well",
)
BARE = Rate(
    "collectives that nothing hides",
    "times * seconds_each",
    unit="seconds",
    source="DeepSpeed zero/config.py (read): overlap_comm is off below stage 3 unless asked for",
    why="Computation waits while these collectives run.",
)
BUCKET_BYTES = 25 * 2**20


def slowdown(gpu: Gpu) -> float:
    """How many times as long products take beside a collective; next to nothing over PCIe."""
    span = efficiencies()["overlap-slowdown"].of(gpu)
    return span.low if gpu.interconnect_bytes_per_second is None else span.typical


# PCI-SIG: 8, 16, 32 and 64 GT/s on 16 lanes, one direction, after line coding.
PCIE_X16_BYTES_PER_SECOND = {"3": 15.75e9, "4": 31.5e9, "5": 63.0e9, "6": 121.0e9}


@lru_cache(maxsize=512)
def slot_bytes_per_second(gpu: Gpu) -> float | None:
    """One direction of the card's PCIe slot; None when the row names no x16 generation."""
    found = re.match(r"([3-6])\.0 x16", gpu.pcie or "")
    return PCIE_X16_BYTES_PER_SECOND[found.group(1)] if found else None


def linked_gpus(gpu: Gpu) -> int | None:
    """How many cards a bridge joins (2 or 4); None when the whole node is linked."""
    if "bridge" not in gpu.interconnect:
        return None
    return 4 if "4 cards" in gpu.interconnect else 2


@remembered
def bus_bytes_per_second(gpu: Gpu, *, ranks: Num, gpus_per_node: Num) -> Num | None:
    """Rate of a large collective over ``ranks`` GPUs; None when the card's links are unknown."""
    slot = slot_bytes_per_second(gpu)
    over_slot = None
    if slot is not None:
        over_slot = SLOT_RATE(
            slot_bytes_per_second=slot, share=typical("pcie-collective-bandwidth", gpu)
        )
    inside: Num = over_slot
    link = gpu.interconnect_bytes_per_second
    if link is not None:
        inside = LINK_RATE(
            bidirectional_bytes_per_second=link, share=typical("link-bandwidth", gpu)
        )
        joined = linked_gpus(gpu)
        if joined is not None:
            if over_slot is None:
                return None
            inside = where(minimum(ranks, gpus_per_node) <= joined, inside, over_slot)
    if inside is None:
        return None
    across = NODE_RATE(
        node_rate=inside,
        network_bytes_per_second=typical("network-bytes-per-second", gpu),
        share=typical("network-bandwidth", gpu),
        gpus_per_node=gpus_per_node,
    )
    return where(ranks <= gpus_per_node, inside, across)


def _collective(
    formula: Rate, gpu: Gpu, size_bytes: Num, ranks: Num, gpus_per_node: Num
) -> Num | None:
    rate = bus_bytes_per_second(gpu, ranks=ranks, gpus_per_node=gpus_per_node)
    if rate is None:
        return None
    latency = LATENCY(
        latency_seconds=typical("collective-latency", gpu),
        nodes=ceil_div(ranks, gpus_per_node),
        gpus_per_node=gpus_per_node,
        network_hop_seconds=NETWORK_HOP_SECONDS,
        link_hop_seconds=LINK_HOP_SECONDS,
    )
    return formula(
        size_bytes=size_bytes,
        ranks=ranks,
        bytes_per_second=rate,
        latency_seconds=where(ranks > 1, latency, 0.0),
    )


def all_gather_seconds(gpu: Gpu, *, size_bytes: Num, ranks: Num, gpus_per_node: Num) -> Num | None:
    """Seconds until every rank holds the whole tensor of ``size_bytes``.

    ``ranks`` and ``gpus_per_node`` are at least 1; one rank takes no time.
    None when nothing says how fast the cards talk to each other.
    """
    return _collective(GATHER, gpu, size_bytes, ranks, gpus_per_node)


reduce_scatter_seconds = all_gather_seconds
"""Seconds until every rank holds its part of the sum; ``size_bytes`` is the whole tensor."""


def all_reduce_seconds(gpu: Gpu, *, size_bytes: Num, ranks: Num, gpus_per_node: Num) -> Num | None:
    """Seconds until every rank holds the whole sum.

    None when nothing says how fast the cards talk to each other.
    """
    return _collective(REDUCE, gpu, size_bytes, ranks, gpus_per_node)


def host_copy_rates(gpu: Gpu) -> dict[str, Any] | None:
    """Rate of the card's slot and the share that copies reach; None when it is unknown."""
    slot = slot_bytes_per_second(gpu)
    if slot is None:
        return None
    return {"slot_bytes_per_second": slot, "share": typical("host-copy-bandwidth", gpu)}


def host_copy_seconds(gpu: Gpu, *, size_bytes: Num) -> Num | None:
    """Seconds to move bytes between pinned host memory and the card, one direction.

    None when the card's slot is unknown.
    """
    rates = host_copy_rates(gpu)
    return None if rates is None else HOST_COPY(size_bytes=size_bytes, **rates)

