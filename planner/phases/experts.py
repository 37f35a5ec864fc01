"""What the experts of a mixture make in one sparse layer, as far as the cache may keep it."""

from __future__ import annotations

from collections.abc import Mapping

from planner.formulas.growth import may_grow
from planner.numeric import Num
from planner.phases.scene import Scene, once


@once
def experts_left(scene: Scene) -> Mapping[str, Num]:
    """Inputs of :data:`~planner.formulas.growth.EXPERTS_LEFT`; none where experts leave nothing.

    As with other lengths, an emptied cache keeps nothing, and expandable segments map the pages of
    any free block for the next: neither needs a block of the same size.
    """
    plan, role, q = scene.plan, scene.policy, scene.q
    if not role.arch.sparse_layers or plan.finetuning != "full" or not may_grow(plan):
        return {}
    return {
        "rows": q.micro_tokens * role.arch.experts_per_token,
        "hidden": role.arch.hidden,
        "expert_width": role.arch.expert_intermediate,
        # Autocast does not know grouped products: experts in fp32 compute in it.
        "value_bytes": role.weight_bytes if scene.precision == "autocast-bf16" else q.compute_bytes,
        "passes": 2 + (plan.gradient_checkpointing != "none"),
        "layers": role.arch.sparse_layers,
        "micro_batches": q.micro_batches,
    }
