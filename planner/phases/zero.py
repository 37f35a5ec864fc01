"""What DeepSpeed's ZeRO holds of gradients while a backward runs, and when it reduces them.

Read in DeepSpeed 0.19.8 (``runtime/zero/stage_1_and_2.py``, ``stage3.py``) and run for real on
CPUs (``accuracy/zero_runs.py``). Stages 2 and 3 put each gradient into a bucket as it is made. The
bucket is reduced when the next one does not fit, so sizes of weights decide in which layer; a
gradient that no bucket holds waits as it is until the next one is made. Stage 1 reduces at the
end of an update's last backward, in the order of a forward.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from planner.formulas import sharding
from planner.formulas.parameters import Weight
from planner.formulas.parameters import weights as weights_of
from planner.numeric import Num, ceil_div, maximum, minimum, of_each
from planner.phases.role import Role
from planner.phases.scene import Scene
from planner.term import Term
from planner.values.zero import ZERO

Terms = tuple[Term, ...]
END, DONE = -1, -2
"""Places of what the embedding's backward makes after all layers', and after that."""

REDUCED, SHARED = "gradients reduced", "share of the gradients made"
INSTANTS = frozenset((REDUCED, SHARED))
"""Names of the instants that only DeepSpeed's steps have."""


class Reduction(NamedTuple):
    """Gradients that are reduced together."""

    place: int
    """The layer that goes backward meanwhile; ``arch.layers`` above all of them, or the end."""
    elements: int
    largest: int
    """Elements of the largest one."""
    oversized: bool
    """Of one gradient that no bucket holds."""


@lru_cache(maxsize=512)
def reductions(role: Role, bucket: int) -> tuple[Reduction, ...]:
    """The reductions of one backward, in order; the last one is at its end."""
    found: list[Reduction] = []
    filled = largest = 0
    for place, elements in (*_gradients(role), (DONE, bucket + 1)):
        if filled and filled + elements > bucket:
            found.append(Reduction(place, filled, largest, filled > bucket))
            filled = largest = 0
        filled, largest = filled + elements, max(largest, elements)
    return tuple(found)


SMALL = ("norm", "bias")
"""Kinds of weights that decay nothing, which an optimizer has in a group of their own."""


def _gradients(role: Role, but: tuple[str, ...] = ()) -> Iterator[tuple[int, int]]:
    """Places and elements of a backward's gradients, in the order in which they are made.

    ``but`` are kinds of weights that do not count.
    """
    layers = reversed(range(role.arch.layers))
    if role.adapters:
        yield from ((layer, role.layer_adapters) for layer in layers)
        return
    listed = [one for one in reversed(_listed(role)) if one.kind not in but]
    outside = [one for one in listed if not one.per_layer]
    yield from ((role.arch.layers, one.elements) for one in outside if not _read_first(one))
    for layer in layers:
        yield from ((layer, one.elements) for one in listed if one.in_layer(layer))
    yield from ((END, one.elements) for one in outside if _read_first(one))


def _listed(role: Role) -> tuple[Weight, ...]:
    return weights_of(role.arch, "token-score" if role.value_head else "lm")


def _read_first(weight: Weight) -> bool:
    return weight.kind in ("embedding", "position")


@lru_cache(maxsize=512)
def fetched_together(role: Role, least: int, bucket: int) -> int:
    """Elements of the largest group of weights that ZeRO-3 fetches ahead, in a forward's order.

    A group is closed by the weight that fills the ``bucket``; one of a single weight needs no
    buffer. Weights up to ``least`` are always whole, and the embedding has come before.
    """
    ahead = [one for one in _listed(role) if one.elements > least]
    layers = range(role.arch.layers)
    inside = (one.elements for layer in layers for one in ahead if one.in_layer(layer))
    last = (one.elements for one in ahead if not one.per_layer and one.kind != "embedding")
    most, group = 0, [0]
    for elements in (*inside, *last):
        group.append(elements)
        if sum(group) >= bucket:
            most, group = max(most, sum(group) * (len(group) > 2)), [0]
    return max(most, sum(group) * (len(group) > 2))


@lru_cache(maxsize=4096)
def elements_above(role: Role, place: int, least: int) -> int:
    """Elements of weights above ``least`` in the layers above ``place``."""
    return sum(
        one.elements
        for layer in range(max(place, -1) + 1, role.arch.layers)
        for one in _listed(role)
        if one.in_layer(layer) and one.elements > least
    )


@lru_cache(maxsize=512)
def largest_module(role: Role) -> int:
    """Elements of a layer's largest module, experts being one."""
    experts = [one for one in _listed(role) if one.kind == "experts"]
    layers = range(role.arch.layers)
    own = (sum(one.elements for one in experts if one.in_layer(layer)) for layer in layers)
    return max(role.largest_layer_weight, *own)


def overhang(scene: Scene, role: Role) -> Num:
    """Elements that the fullest GPU keeps beyond its part; none of what adds up in fp32."""
    if role.adapters or scene.q.gradient_bytes > scene.q.compute_bytes:
        return 0
    return of_each(lambda shards: _overhang(role, shards), scene.q.shards)


@lru_cache(maxsize=4096)
def _overhang(role: Role, shards: int) -> int:
    weights = [elements for _, elements in _gradients(role, SMALL)][::-1]
    part = ceil_div(sum(weights), shards)
    kept, begins = [0] * shards, 0
    for elements in weights:
        last = min((begins + elements - 1) // part, shards - 1)
        for rank in range(min(begins // part, last), last + 1):
            kept[rank] += elements
        begins += elements
    return int(max(kept) - part)


def sub_group(scene: Scene, role: Role) -> Num:
    """Elements of a GPU's part that stage 3 updates at once, the most; a weight may overrun it."""
    return of_each(lambda shards: _sub_group(role, shards, ZERO.sub_group_size), scene.q.shards)


@lru_cache(maxsize=4096)
def _sub_group(role: Role, shards: int, size: int) -> int:
    most = filled = 0
    for _, elements in reversed([*_gradients(role, SMALL)]):
        filled += ceil_div(elements, shards)
        if filled >= size:
            most, filled = max(most, filled), 0
    return max(most, filled)


def kept_beyond(scene: Scene, role: Role, gradients: str) -> Iterator[Term]:
    """The same of the gradients that stand while others are made, or an update reads them."""
    stage = scene.zero_stage
    if stage in (1, 2) and _on_gpu(scene) and (gradients == "all" or stage == 2):
        yield sharding.ZERO_OVERHANG(
            role.name,
            overhang=overhang(scene, role),
            value_bytes=scene.q.gradient_bytes,
            there=1 if gradients == "all" else minimum(scene.q.micro_batches - 1, 1),
        )


def of_role(scene: Scene, role: Role) -> tuple[Reduction, ...]:
    """The reductions beside layers and at the end; none where gradients are reduced otherwise."""
    return reductions(role, ZERO.reduce_bucket_size) if scene.zero_stage > 1 else ()


def meanwhile(scene: Scene, role: Role, place: int) -> Iterator[Term]:
    """What stands beside the layer at ``place`` while none of its gradients are reduced."""
    q, stage = scene.q, scene.zero_stage
    first = place < role.arch.layers or role.root_trainable > 0
    if stage in (1, 2) and first and not scene.setup.zero_widens:
        # After the first micro-batch stage 1 has one already.
        yield bucket(scene, role, 1 - (minimum(q.micro_batches - 1, 1) if stage == 1 else 0))
    if any(one.place > place for one in of_role(scene, role)):
        yield from _share(scene, role)


def reducing(scene: Scene, role: Role, place: int) -> Iterator[tuple[str, Terms]]:
    """Instants of the reductions at ``place``, by name, beside what stands :func:`meanwhile`."""
    if place == DONE and scene.zero_stage == 1:
        yield from _reduced_at_end(scene, role)
    found = of_role(scene, role)
    inside = 0 <= place < role.arch.layers
    for one in (one for one in (_highest(found) if inside else found) if one.place == place):
        waits = tuple(_oversized(scene, role, one))
        yield REDUCED, (*waits, *_copies(scene, role, one))
        if one is found[0]:
            yield SHARED, (*waits, *_share(scene, role))


def places(scene: Scene, role: Role) -> set[int]:
    """Layers beside which gradients are reduced, where that may be the highest of a backward."""
    return {one.place for one in _highest(of_role(scene, role))} - {END, DONE, role.arch.layers}


@lru_cache(maxsize=512)
def _highest(found: tuple[Reduction, ...]) -> tuple[Reduction, ...]:
    """The first one, and of those beside a GPU's share all that are larger than those before.

    What lower layers find saved is less.
    """
    highest, most = found[:1], 0
    for one in found[1:]:
        made = one.elements * (1 + one.oversized)
        if made > most:
            highest, most = (*highest, one), made
    return highest


def bucket(scene: Scene, role: Role, there: Num = 1) -> Term:
    """The bucket that ZeRO makes with a backward's first gradient, ``there`` or not (0).

    Stages 1 and 2 give it back, after the update and after each backward; stage 3 never does, and
    has it in the dtype in which gradients are sent.
    """
    q = scene.q
    width = {1: q.gradient_bytes, 2: q.compute_bytes, 3: q.reduce_bytes}[scene.zero_stage]
    return sharding.ZERO_BUCKETS(
        role.name, reduce_bucket_size=ZERO.reduce_bucket_size, value_bytes=width, there=there
    )


def _sends_cast(scene: Scene) -> bool:
    return scene.plan.reduce_dtype != scene.plan.dtype


def _copies(scene: Scene, role: Role, one: Reduction) -> Iterator[Term]:
    """Of a reduction's gradients: put end to end, cast, and what comes back of it."""
    q, cast = scene.q, _sends_cast(scene)
    widened = int(q.gradient_bytes > q.compute_bytes)
    if scene.zero_stage == 3:
        parts: Num = 1 if one.oversized else 2
    elif one.oversized:
        parts = ceil_div(one.elements * q.shards, role.trainable)
    else:
        # Neighbours of one GPU are one piece, but where each is added in fp32 by itself.
        parts = maximum(q.shards, 1 + widened)
    # Stage 3 casts each gradient before it puts them together, others what they put together.
    width = q.reduce_bytes if scene.zero_stage == 3 else q.compute_bytes
    yield sharding.ZERO_BUCKET_COPY(
        role.name, elements=one.elements, value_bytes=width, parts=parts
    )
    yield sharding.ZERO_SENT(
        role.name, elements=one.elements, value_bytes=q.reduce_bytes, cast=int(cast)
    )
    if scene.zero_stage == 3:
        yield sharding.ZERO_CAME_BACK(
            role.name,
            elements=one.elements,
            shards=q.shards,
            value_bytes=q.gradient_bytes,
            cast=int(q.gradient_bytes != q.reduce_bytes),
        )
    else:
        yield sharding.ZERO_ADDED(
            role.name,
            largest=one.largest,
            widened=widened * (not cast),
        )


def _on_gpu(scene: Scene) -> bool:
    """Whether a GPU's part of the gradients stays there; what adds up in fp32 does at first."""
    q = scene.q
    goes = scene.plan.offload == "optimizer" and q.gradient_bytes <= q.compute_bytes
    return scene.keeps_gradients and not goes


def _oversized(scene: Scene, role: Role, one: Reduction) -> Iterator[Term]:
    if one.oversized:
        yield sharding.ZERO_OVERSIZED(
            role.name, elements=one.elements, value_bytes=scene.q.compute_bytes
        )


def _share(scene: Scene, role: Role) -> Iterator[Term]:
    """Stage 2's part of this backward's gradients, made whole with its first reduced one."""
    q = scene.q
    if scene.zero_stage == 2 and _on_gpu(scene):
        widened = q.gradient_bytes > q.compute_bytes
        yield sharding.ZERO_SHARE(
            role.name,
            trainable=role.trainable,
            shards=q.shards,
            overhang=overhang(scene, role),
            value_bytes=q.gradient_bytes,
            # In fp32 each micro-batch adds to the one that is there.
            there=1 - minimum(q.micro_batches - 1, 1) if widened else 1,
        )


def _reduced_at_end(scene: Scene, role: Role) -> Iterator[tuple[str, Terms]]:
    """What stage 1 makes of whole gradients when the last backward has ended, bucket by bucket.

    Those that the bucket has taken are gone; one that no bucket holds stays until it is copied.
    """
    q, size = scene.q, ZERO.reduce_bucket_size
    listed = [one.elements for one in _listed(role)]
    if scene.setup.zero_widens:
        yield (
            REDUCED,
            (
                sharding.ZERO_BUCKET_IN_FP32(
                    role.name,
                    trainable=role.trainable,
                    reduce_bucket_size=size,
                    largest=role.layer_adapters if role.adapters else max(listed),
                    value_bytes=q.reduce_bytes * (scene.plan.reduce_dtype != "fp32"),
                ),
            ),
        )
        return
    first = min(max(size, listed[0] * (not role.adapters)), role.trainable)

    def sent(elements: int) -> Term:
        return sharding.ZERO_SENT(
            role.name, elements=elements, value_bytes=q.reduce_bytes, cast=int(_sends_cast(scene))
        )

    def share(moved: int) -> Term:
        return sharding.ZERO_SHARE_AT_END(
            role.name,
            trainable=role.trainable,
            shards=q.shards,
            overhang=overhang(scene, role),
            value_bytes=q.gradient_bytes,
            moved=moved,
        )

    yield REDUCED, (sent(first),)
    if not _on_gpu(scene):
        return
    yield SHARED, (share(first * (first <= size)),)
    yield REDUCED, (share(first), sent(min(size, role.trainable)))
