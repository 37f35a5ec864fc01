"""What a framework's processes are to a node's RAM: how many, what they hold, what they pin."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from planner.units import MIB


@dataclass(frozen=True, slots=True, kw_only=True)
class HostSide:
    """Facts of a framework's code; counts are of processes beside one rank for each GPU."""

    imports_bytes: int = 326 * MIB
    """Anonymous memory of a process that has imported what trains, without a card."""
    helpers: int = 0
    """Python processes beside the ranks, shared by the run's nodes."""
    services_bytes: int = 0
    """What a cluster's own services hold on a node."""
    engine_in_trainer: bool = True
    """A colocated engine is part of the rank's process; else it has its own on each GPU."""
    engine_merges_adapters: bool = False
    """Trained adapters reach the engine as merged weights; else it serves them beside its base."""
    engine_helpers: int = 0
    """Processes without a card that stand before each engine in processes of its own."""
    stored_bytes_per_token: int = 0
    """Bytes of one token of a step's batch in shared memory between processes; 0: none is."""
    pins_between_phases: bool = False
    """What waits between phases is copied without blocking, into pinned buffers."""
    pins_activations: bool = False
    """Offloaded activations wait in pinned buffers."""
    fsdp_readers: Literal["first", "all", "all-in-passing"] = "first"
    """Under FSDP a checkpoint's weights are read by rank 0; by every rank, which keeps them until
    they are sharded; or by every rank, of which all but the first drop each tensor at once."""
    alone_reads_to_gpu: bool = False
    """A process without others reads weights to its GPU, each converted on the way."""
    tied_on_every_rank: bool = False
    """A model whose head is its embedding is read and kept by every rank, also under FSDP."""
    saves: Literal["whole", "shards"] = "whole"
    """A checkpoint under FSDP: one state dict on rank 0, or each rank's shards with optimizer."""
    saves_optimizer: bool = False
    """A checkpoint has the optimizer's state in it, from which a run can go on."""
    saves_weights_again: bool = False
    """Beside the model's own files it has the sharding write its weights, to go on from."""
    gathers_frozen: bool = False
    """To write adapters under FSDP it gathers the whole model, and picks them out of it."""
