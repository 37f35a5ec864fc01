"""What the experts of a mixture make in one sparse layer, as far as the cache may keep it."""

from __future__ import annotations

from collections.abc import Mapping

from planner.catalog.gpu_catalog import grouped
from planner.numeric import Num
from planner.phases.scene import Scene, once


@once
def experts_left(scene: Scene) -> Mapping[str, Num]:
    """Inputs of :data:`~planner.formulas.growth.EXPERTS_LEFT`; none where experts leave nothing.

    Expandable segments map the pages of any free block for the next, which needs none of its own
    size. In rows of one length one product for all experts always has one size. A cache that is
    emptied once a phase or a step starts anew: only a layer larger than all before it in the same
    update finds nothing, and of n sizes in random order that is true of 1 + 1/2 + … + 1/n. Where
    policy and critic train, sizes are the larger's, and layers both's.
    """
    plan, q = scene.plan, scene.q
    trained = [role for role in scene.roles.values() if role.trained and role.arch.sparse_layers]
    # Autocast does not know grouped products: experts in fp32 compute in it.
    wide = scene.precision == "autocast-bf16"
    one = plan.batch_shape == "full" and grouped(scene.facts.gpu, "fp32" if wide else plan.dtype)
    emptied = plan.empty_cache != "never"
    if not trained or plan.finetuning != "full" or plan.expandable_segments or one or emptied:
        return {}
    archs = [role.arch for role in trained]
    return {
        "rows": q.micro_tokens * max(arch.experts_per_token for arch in archs),
        "hidden": max(arch.hidden for arch in archs),
        "expert_width": max(arch.expert_intermediate for arch in archs),
        "value_bytes": max(role.weight_bytes for role in trained) if wide else q.compute_bytes,
        "passes": 2 + (plan.gradient_checkpointing != "none"),
        "layers": sum(arch.sparse_layers for arch in archs),
        "micro_batches": q.micro_batches,
    }

