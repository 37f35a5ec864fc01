from planner.formulas.communication import GATHERED_WEIGHTS, all_gather_seconds
from planner.formulas.compute import OPTIMIZER_SECONDS, memory_rates
from planner.timing.traffic import collective


def weight_sync(scene):
    """The policy's weights to its generator; None when nothing says how fast they travel."""
    role = scene.policy
    size = role.parameters * scene.q.compute_bytes
    if scene.plan.sharding == "none" and scene.plan.rollout != "vllm-separate":
        rates = memory_rates(scene.facts.gpu)
        if rates is None:
            return None
        copied = OPTIMIZER_SECONDS.term(
            role.name, label="weights copied", bytes_touched=2 * size, **rates
        )
        return (copied,)
    seconds = collective(scene, all_gather_seconds, size, scene.plan.gpus)
    return None if seconds is None else (GATHERED_WEIGHTS.term(role.name, gather_seconds=seconds),)
