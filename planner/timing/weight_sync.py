"""Seconds until the generator has the updated weights: gathered, sent, loaded, awake."""

from __future__ import annotations

from collections.abc import Iterator

from planner.catalog.architecture import Architecture
from planner.catalog.efficiencies import typical
from planner.formulas import weight_sync as causes
from planner.formulas.communication import (
    all_gather_seconds,
    bus_bytes_per_second,
    host_copy_rates,
)
from planner.formulas.compute import memory_rates
from planner.numeric import Num, ceil_div, minimum, where
from planner.phases import engine
from planner.phases.baseline import adapter_bytes
from planner.phases.scene import Scene
from planner.setup.setup import WEIGHTS_WAIT
from planner.term import TimeTerm
from planner.timing.traffic import collective
from planner.values.sharding import sharding_of

Found = Iterator[TimeTerm | None]


def weight_sync(scene: Scene, times: Num = 1) -> tuple[TimeTerm, ...] | None:
    """The policy's weights to its generator; None when nothing says how fast they travel."""
    found = tuple(_terms(scene))
    known = tuple(one for one in found if one is not None)
    if len(known) < len(found):
        return None
    if isinstance(times, int) and times == 1:
        return known
    each = sum(one.seconds for one in known)
    return (causes.AGAIN.term(engine.ROLE, times=times, seconds_each=each),)


def _terms(scene: Scene) -> Found:
    """Every cause in the order it happens; None for one whose rate is unknown."""
    plan, role = scene.plan, scene.served
    gpu, separate = scene.facts.gpu, plan.rollout == "vllm-separate"
    what, how, buffer_bytes = engine.sync(scene)
    if what == "adapters":
        weights, stored = role.adapter_tensors, adapter_bytes(scene)
        size = role.adapters * stored
    else:
        weights, stored = named_weights(role.arch, role.layout), role.weight_bytes
        size = role.parameters * stored
    memory = memory_rates(gpu)
    yield from _fetched(scene)
    if scene.gathers:
        yield _gathered(scene, size, weights)
    if separate:
        yield _sent(scene, size)
    if engine.apart(scene):
        requests: Num = ceil_div(size, buffer_bytes) if how == "bucket" else 1
        if scene.framework.sync(plan)[1] == "asked":
            requests = weights
        yield causes.REQUESTED.term(
            role.name,
            requests=requests,
            request_seconds=typical("engine-request-seconds", gpu),
        )
        if memory is None:
            yield None
        else:
            yield causes.PACKED.term(role.name, size_bytes=size, **memory)
    if memory is None:
        yield None
        return
    spread = plan.rollout_tensor_parallel
    yield causes.LOADED.term(
        engine.ROLE,
        weights=weights,
        tensor_seconds=typical("engine-load-seconds-per-tensor", gpu),
        touched_bytes=(size + size // stored * scene.q.compute_bytes) / spread,
        **memory,
    )
    if not separate and plan.vllm_sleep_level:
        yield from _woken(scene)


def _fetched(scene: Scene) -> Found:
    """Weights that wait in host RAM, also where adapters alone are sent: all are loaded for them.

    FSDP2's shards, and those that stream in every pass, go to the card one by one, and no way back.
    """
    plan, role = scene.plan, scene.policy
    if plan.offload != "all" and plan.offload not in WEIGHTS_WAIT:
        return
    one_by_one = plan.offload == "all" or (sharding_of(plan).fsdp == 2 and not role.adapters)
    slot = host_copy_rates(scene.facts.gpu)
    yield None if slot is None else causes.FETCHED.term(
        role.name,
        trips=1 if one_by_one else 2,
        size_bytes=role.parameters * role.weight_bytes / scene.shards_of("weights"),
        **slot,
    )


def _gathered(scene: Scene, size: Num, weights: int) -> TimeTerm | None:
    gather = collective(scene, all_gather_seconds, size, scene.q.shards)
    if gather is None:
        return None
    latency = typical("collective-latency", scene.facts.gpu)
    return causes.GATHERED.term(
        scene.policy.name,
        gather_seconds=gather,
        weights=weights,
        latency_seconds=where(scene.q.shards > 1, latency, 0.0),
    )


def _sent(scene: Scene, size: Num) -> TimeTerm | None:
    """From one GPU, so over its own network card where nodes lie between."""
    plan, gpu = scene.plan, scene.facts.gpu
    rate = bus_bytes_per_second(
        gpu, ranks=minimum(plan.gpus, plan.gpus_per_node), gpus_per_node=plan.gpus_per_node
    )
    if rate is None:
        return None
    card = typical("network-bytes-per-second", gpu) * typical("network-bandwidth", gpu)
    return causes.SENT.term(
        scene.policy.name,
        size_bytes=size,
        bytes_per_second=where(plan.gpus > plan.gpus_per_node, minimum(rate, card), rate),
    )


def _woken(scene: Scene) -> Found:
    """A colocated engine that slept while the trainer worked."""
    parts = engine.awake(scene)
    weights, pool = parts[0].bytes, parts[-1].bytes
    yield causes.WOKEN.term(
        engine.ROLE,
        size_bytes=weights + pool,
        remap_bytes_per_second=typical("remap-bytes-per-second", scene.facts.gpu),
    )
    if scene.plan.vllm_sleep_level == 1:
        slot = host_copy_rates(scene.facts.gpu)
        yield None if slot is None else causes.ASLEEP.term(
            engine.ROLE, size_bytes=weights, **slot
        )


def named_weights(arch: Architecture, layout: tuple[tuple[int, float], ...]) -> int:
    """Weights by name as an engine loads them: experts, which a layer may keep in one, each."""
    listed = sum(count for count, _ in layout)
    if not arch.sparse_layers:
        return listed
    return listed + arch.sparse_layers * max(3 * arch.experts - 2, 0)
