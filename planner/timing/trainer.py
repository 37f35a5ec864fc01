"""Seconds that a model's passes compute on one GPU, cause by cause.

Where a person's own benchmark gives the share of a whole pass, that share has norms, casts and
waiting in it already, and stands alone; otherwise products, attention and what memory limits are
terms of their own, each by the shape that one micro-batch gives it.
"""

from __future__ import annotations

from collections.abc import Iterator

from planner.catalog.efficiencies import Key
from planner.formulas import memory_bound, passes
from planner.formulas.compute import COMPUTE_SECONDS, compute_rates
from planner.formulas.memory_bound import SCORE_BYTES
from planner.numeric import maximum, where
from planner.phases.phase import Work
from planner.phases.scene import Scene
from planner.term import TimeTerm
from planner.timing import head, launches, layers, look_ups, on_host
from planner.timing.passing import Passing
from planner.timing.terms import UNKNOWN, by_memory, by_share, read
from planner.values.sharding import sharding_of

Terms = tuple[TimeTerm, ...]


def computed(scene: Scene, row: Work) -> Terms | None:
    """A forward or a backward of a whole step; None when a rate of the card is unknown."""
    it = Passing(scene=scene, row=row)
    key: Key = "forward-compute" if row.run == "score" else "training-compute"
    rates = compute_rates(it.gpu, dtype=scene.plan.dtype, key=key)
    if rates is None:
        return None
    # A forward's head comes after its layers, and hides none of their launches.
    if it.gpu.speeds is not None and it.gpu.speeds.of(key) is not None:
        found: Terms = (COMPUTE_SECONDS.term(row.role.name, flops=row.flops, **rates),)
        ahead = found
    else:
        ahead = tuple(_causes(it))
        found = (*ahead, *head.causes(it)) if it.scores else ahead
        if not all(found):
            return None
    if it.runs_layers:
        hiding = found if it.backward else ahead
        found = (*found, *launches.of_pass(it, sum(term.seconds for term in hiding)))
    return launches.looped(it, found)


def _causes(it: Passing) -> Iterator[TimeTerm]:
    """Terms of the layers; an empty one where a rate is unknown."""
    role = it.row.role.name
    if it.runs_layers:
        forward = () if it.backward and not it.again else _forward(it)
        if not it.backward:
            yield from forward
        else:
            yield from _layers(it, backward=True)
            if it.again:
                if not all(forward):
                    yield UNKNOWN
                    return
                yield passes.RECOMPUTED.term(
                    role,
                    times=it.again,
                    forward_seconds=sum(one.seconds for one in forward),
                    look_ups=(look_ups.again, forward, it.again),
                )
        yield from _weights(it)


def _forward(it: Passing) -> Terms:
    """One forward through all layers: a plan's passes of the same sizes have it from one another.

    Policies score, go forward and repeat that forward. A sweep's arrays have no hash.
    """
    row, memory = it.row, it.scene.memory
    if type(memory) is not dict:
        return tuple(_layers(it, backward=False))
    size = row.tokens, row.row_tokens, it.forwards, it.alone
    key = _forward, row.role, row.elsewhere, it.drops, *size
    if key not in memory:
        memory[key] = tuple(_layers(it, backward=False))
    return memory[key]  # type: ignore[no-any-return]


def _layers(it: Passing, *, backward: bool) -> Iterator[TimeTerm]:
    """One forward or one backward through all layers, without what checkpoints repeat."""
    arch, row, plan = it.arch, it.row, it.scene.plan
    shapes, trains = layers.projections(arch), it.weights_train
    times = 1 + trains if backward else 1
    assumed = passes.BACK_FACTORS if backward else None
    asked = it.gpu, shapes, it.dtype, backward, backward and trains
    flops = layers.projections_flops(arch, tokens=1.0 * row.tokens)
    yield by_share(
        it,
        passes.PRODUCTS,
        times * flops,
        read(layers.products_share(*asked), it.rows),
        factors=assumed,
        look_ups=(look_ups.products, *asked, it.rows),
    )
    if layers.experts_flops(arch, tokens=1.0):
        flops = layers.experts_flops(arch, tokens=1.0 * row.tokens)
        yield by_share(
            it,
            passes.EXPERTS,
            times * flops,
            read(layers.experts_share(it.gpu, arch, it.experts_dtype), it.rows),
            it.experts_dtype,
            factors=assumed,
            look_ups=(look_ups.experts, it.gpu, arch, it.experts_dtype, it.rows),
        )
    ran = arch, it.mode, it.value_bytes, backward
    # A forward launches the same whatever trains.
    moved = memory_bound.layers_bytes(*ran, it.attention, trains or not backward)
    if it.adapters:
        yield from _adapters(it, backward)
        moved += _beside_adapters(it, backward)
    found = layers.attention(
        it.gpu,
        arch,
        how=it.attention,
        batch_shape=plan.batch_shape,
        alone=it.alone,
        torch_version=plan.torch_version,
        dtype=it.dtype,
        tokens=row.tokens,
        row_tokens=row.row_tokens,
        rows=it.rows,
    )
    yield _attention(it, found, backward)
    size = row.tokens * moved
    if it.attention == "eager":
        scores = SCORE_BYTES(
            tokens=row.tokens,
            row_tokens=row.row_tokens,
            heads=arch.heads,
            score_bytes=memory_bound.score_bytes(*ran),
        )
        size = size + arch.cache_layers * scores
    yield by_memory(it, "elementwise kernels", size)


def _attention(it: Passing, found: layers.Attention | None, backward: bool) -> TimeTerm:
    if found is None:
        return UNKNOWN
    how, operations, quotient = it.attention, 1.0, 1.0
    share, factors = found.share, None
    if backward:
        quotient = passes.BACK_OVER_FORWARD.get(how, passes.FLASH_BACK_OVER_FORWARD)
        share = passes.ATTENTION_BACK_SHARE(forward_share=share, backward_over_forward=quotient)
        operations, factors = 2.5, passes.attention_back_factors(quotient)
        if how == "eager":  # which is products
            operations, factors = 2.0, passes.BACK_FACTORS
    of = it.gpu, it.arch, it.row.tokens, found
    return by_share(
        it,
        passes.ATTENTION,
        operations * found.flops,
        share,
        factors=factors,
        look_ups=(look_ups.attention, *of, operations, quotient) if found.one else (),
    )


def _adapters(it: Passing, backward: bool) -> Iterator[TimeTerm]:
    asked = it.gpu, it.adapters, it.adapter_dtype, backward, backward
    flops = (2 if backward else 1) * 2.0 * it.row.tokens * layers.elements(it.adapters)
    yield by_share(
        it,
        passes.ADAPTERS,
        flops,
        read(layers.products_share(*asked), it.rows),
        it.adapter_dtype,
        factors=passes.BACK_FACTORS if backward else None,
        look_ups=(look_ups.products, *asked, it.rows),
    )


def _beside_adapters(it: Passing, backward: bool) -> float:
    rank = it.scene.plan.lora_rank
    ins = sum(shape.inner * shape.matrices for shape in it.adapters if shape.outer == rank)
    outs = sum(shape.outer * shape.matrices for shape in it.adapters if shape.inner == rank)
    wide = it.adapter_dtype == "fp32"
    return memory_bound.adapter_bytes(ins, outs, wide=wide, drops=it.drops, backward=backward)


def _weights(it: Passing) -> Iterator[TimeTerm]:
    """What is done to weights and their gradients in each round, however few tokens it has."""
    scene, row, shapes = it.scene, it.row, layers.projections(it.arch)
    plan, q = scene.plan, scene.q
    uses = it.forwards * (1 + it.again)
    if it.four_bit:
        moved = passes.DEQUANTISED(
            uses=uses, elements=layers.elements(shapes), value_bytes=it.value_bytes
        )
        yield by_memory(it, passes.DEQUANTISED.name, moved)
    if it.precision == "autocast-bf16":
        moved = passes.CAST_WEIGHTS(uses=uses, elements=layers.elements(shapes))
        yield by_memory(it, passes.CAST_WEIGHTS.name, moved)
    once = scene.setup.reduces_once
    if it.backward and not scene.setup.steps_in_backward:
        whole = once or not (scene.fsdp or scene.zero_stage >= 2)
        if on_host.keeps_gradients(scene) and not whole:
            yield from on_host.added(scene, row)
        else:
            moved = passes.ACCUMULATED(
                additions=maximum(row.rounds - q.updates_per_step, 0),
                elements=row.role.trainable / (1 if whole else q.shards),
                value_bytes=q.gradient_bytes,
            )
            yield by_memory(it, passes.ACCUMULATED.name, moved)
        if scene.zero_stage == 2 and plan.offload == "optimizer":  # stage 3 hides its own
            fetched = on_host.fetched_bytes(scene, row)
            yield on_host.copied(scene, row, "gradients fetched to add to them", fetched)
    if sharding_of(plan).fsdp == 2 and row.gathered:
        moved = passes.COPIED_SHARDS(
            gathers=row.rounds * (plan.reshard_after_forward if it.backward else 1),
            elements=row.role.parameters,
            gathered_bytes=2 * q.compute_bytes,
            reductions=(q.updates_per_step if once else row.rounds) * it.backward,
            trainable=row.role.trainable,
            reduced_bytes=q.compute_bytes + q.reduce_bytes,
        )
        moved = moved * where(q.shards > 1, 1.0, 0.0)
        yield by_memory(it, passes.COPIED_SHARDS.name, moved)
