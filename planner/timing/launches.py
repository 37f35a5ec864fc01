"""Seconds of a pass, and of an update, that the host's launches add to what the card computes."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from numpy import ndarray

from planner.catalog.efficiencies import efficiencies, typical
from planner.catalog.gpu_catalog import Gpu
from planner.formulas import launches, passes
from planner.formulas.compute import memory_rates
from planner.formulas.memory_bound import USUAL_KERNELS
from planner.formulas.parameters import expert_width
from planner.numeric import Num, maximum
from planner.phases.phase import Work
from planner.phases.scene import Scene
from planner.term import TimeTerm
from planner.timing import layers
from planner.timing.passing import Passing
from planner.values.sharding import sharding_of

A_LAYER = "hf-step-seconds-per-layer"


def of_pass(it: Passing, computed_seconds: Num) -> Iterator[TimeTerm]:
    """Launches and hooks of a pass's layers, less what the card computes meanwhile."""
    arch, plan, role = it.arch, it.scene.plan, it.row.role.name
    launch_seconds = typical(A_LAYER, it.gpu)
    sizes: dict[str, Num] = {
        "forwards": it.forwards,
        "layers": arch.layers,
        "kernels": it.kernels + it.expert_launches,
        "usual_kernels": USUAL_KERNELS,
        "pass_by_forward": launches.pass_by_forward(
            run=it.row.run, again=it.again, checkpointed=it.checkpointed
        ),
        "launch_seconds": launch_seconds,
    }
    found = launches.LAUNCHES.term(role, **sizes, computed_seconds=computed_seconds)
    yield _between(it.gpu, found, computed_seconds, launches.BY_KERNELS)
    if sharding_of(plan).fsdp != 2 or not it.row.gathered:
        return
    alone = launches.LAUNCHES(**sizes, computed_seconds=0)
    spare = maximum(computed_seconds - alone, 0)
    reduced = it.scene.q.updates_per_step if it.scene.setup.reduces_once else it.row.rounds
    found = launches.HOOKS.term(
        role,
        layers=arch.layers,
        gathers=it.forwards * (plan.reshard_after_forward if it.backward else 1),
        launches_a_gather=launches.GATHER,
        reductions=reduced * it.backward,
        launches_a_reduction=launches.REDUCTION,
        launch_seconds=launch_seconds,
        spare_seconds=spare,
    )
    yield _between(it.gpu, found, spare, launches.HOOKS_FACTORS)


def looped(it: Passing, found: tuple[TimeTerm, ...]) -> tuple[TimeTerm, ...]:
    """The terms, the experts' with a loop over them at its upper end.

    A plan's versions are today's, which group experts; people run others under their names. A
    sweep's arrays are asked for no ends.
    """
    arch, (words, sharing) = it.arch, it.scene.framework.looped_experts
    if not (words and arch.experts) or isinstance(it.rows, ndarray):
        return found
    weights = 3 * arch.experts * arch.hidden * expert_width(arch) * it.weights_train
    more = min(sharing, it.scene.plan.gpus_per_node, it.scene.q.training_gpus) * passes.LOOPED(
        forwards=it.forwards,
        layers=arch.sparse_layers,
        met=layers.experts_met(arch, it.rows),
        kernels=passes.LOOPED_KERNELS,
        usual_kernels=USUAL_KERNELS,
        pass_by_forward=launches.pass_by_forward(
            run=it.row.run, again=it.again, checkpointed=it.checkpointed
        ),
        launch_seconds=typical(A_LAYER, it.gpu),
        whole_bytes=it.value_bytes * it.backward * (it.rows * arch.hidden + weights),
        **(memory_rates(it.gpu) or {}),
    )
    return tuple(
        one._replace(factors=(low, high + more / one.seconds))
        if one.name == passes.EXPERTS.name
        else one
        for one in found
        for low, high in (one.factors or (1.0, 1.0),)
    )


def of_update(scene: Scene, row: Work, clipping_seconds: Num) -> TimeTerm:
    """Launches of an update on the card, less its clipping's seconds."""
    role, sharded = row.role, sharding_of(scene.plan).fsdp == 2
    found = launches.UPDATE.term(
        role.name,
        rounds=row.rounds,
        tensors=sum(count for count, _ in role.trained_layout) or role.adapter_tensors,
        launches_a_tensor=launches.DTENSOR if sharded else launches.TENSOR,
        launch_seconds=typical(A_LAYER, scene.facts.gpu),
        clipping_seconds=clipping_seconds,
    )
    return _between(scene.facts.gpu, found, clipping_seconds, launches.TENSOR_FACTORS)


def _between(gpu: Gpu, term: TimeTerm, hidden: Num, assumed: tuple[float, float]) -> TimeTerm:
    """The term with its ends: the whole of the launches by a host's interval and what is assumed.

    What outlasts is a difference, so its ends are farther apart than those of the whole. None where
    nothing outlasts; a sweep's arrays are asked for no ends.
    """
    if isinstance(term.seconds, ndarray) or not term.seconds:
        return term
    least, most = _host(gpu)
    whole = term.seconds + hidden
    low = max(whole * least * assumed[0] - hidden, 0.0)
    high = whole * most * assumed[1] - hidden
    return term._replace(factors=(low / term.seconds, high / term.seconds))


@lru_cache(maxsize=128)
def _host(gpu: Gpu) -> tuple[float, float]:
    return efficiencies()[A_LAYER].spread(gpu)
