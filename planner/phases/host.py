"""Host RAM of one node: its processes, what waits there pinned, files on their way.

The first node is looked at, which holds the most of what is not spread evenly.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from planner.formulas import host
from planner.numeric import Num, ceil_div, maximum, minimum, power_of_two
from planner.phases.role import Role
from planner.phases.scene import Scene, shared
from planner.plan.fields import EIGHT_BIT
from planner.setup.workload import four_bit
from planner.term import Layout, Term
from planner.values.dtypes import BYTES, TORCH_NAMES
from planner.values.model_setup import ModelSetup

ROLE = "process"


@shared
def processes(scene: Scene) -> Iterator[Term]:
    """Every process of a node, and what they pass to each other."""
    code, plan = scene.framework, scene.plan
    ranks, engine = scene.ranks_per_node, _engine_gpus(scene)
    rewards = code.reward_engine if scene.reward else {}
    cards = ranks + engine + (ranks if rewards else 0)
    cuda, imported = host.CUDA_BYTES, code.host_bytes["process"]
    yield host.CARD_PROCESSES(
        ROLE,
        host=True,
        processes=cards,
        imports_bytes=imported,
        cuda_bytes=cuda.centre,
        between=tuple(cards * (imported + end) for end in (cuda.low, cuda.high)),
    )
    nodes = ceil_div(scene.q.training_gpus, plan.gpus_per_node)
    engines = ceil_div(engine, plan.rollout_tensor_parallel)
    if rewards:
        engines = engines + ceil_div(ranks, rewards["rollout_tensor_parallel"])
    helpers = ceil_div(code.helpers.get("run", 0) + code.helpers.get("reward", 0), nodes)
    helpers = helpers + engines * code.helpers.get(plan.rollout, 0)
    yield host.HELPER_PROCESSES(
        ROLE,
        host=True,
        helpers=helpers,
        imports_bytes=imported,
        services_bytes=code.host_bytes.get("services", 0),
    )
    tokens = scene.q.sequences_per_step * (plan.prompt_tokens + plan.response_tokens)
    stored = code.host_bytes.get("token", 0)
    yield host.SHARED_OBJECTS(
        ROLE,
        host=True,
        batch_tokens=tokens,
        bytes_per_token=stored,
        between=(0, host.MOST_COPIES * tokens * stored) if stored else (None, None),
    )


def _engine_gpus(scene: Scene) -> Num:
    """GPUs of this node on which an engine has processes of its own."""
    plan, ranks = scene.plan, scene.ranks_per_node
    if plan.rollout == "vllm-separate":
        return minimum(plan.rollout_gpus, maximum(plan.gpus_per_node - ranks, 0))
    return ranks if plan.rollout in scene.framework.helpers else 0


def offloaded(
    scene: Scene, role: str, label: str, rank_bytes: Num, layout: Layout = ((1, 1.0),)
) -> Term:
    """What all local processes keep in pinned buffers, one for each tensor of a layout."""
    pinned: Num = 0
    for count, share in layout:
        pinned = pinned + count * power_of_two(rank_bytes * share)
    return host.PINNED(
        role, label=label, host=True, ranks_per_node=scene.ranks_per_node, pinned_bytes=pinned
    )


def by_deepspeed(scene: Scene, role: Role, terms: Iterable[Term]) -> Term:
    """Upper bound of a node's RAM for a trained role: what DeepSpeed's own estimators ask for it.

    Its centre adds nothing to ``terms``, the role's bytes where they are most. At stages 1 and 2
    the estimators count a whole fp32 model for each process, at stage 3 none.
    """
    ranks, whole = scene.ranks_per_node, scene.zero_stage < 3
    of = {
        "loading_ranks": ranks * whole,
        "parameters": role.parameters,
        "trainable": role.trainable,
        "offloaded_parameters": role.parameters * (scene.plan.offload == "all"),
        "ranks_per_node": ranks,
        "gpus": ranks if whole else scene.q.training_gpus,
        "kept": sum([term.bytes for term in terms if term.host]),
    }
    most = host.BY_DEEPSPEED.value(counted=1, **of)
    return host.BY_DEEPSPEED(role.name, host=True, counted=0, between=(0, most), **of)


def pinned(scene: Scene, role: Role, category: str) -> bool:
    """Whether what a role keeps in host RAM is in pinned buffers.

    Under FSDP's own offload the moments are made beside pinned weights, not pinned themselves.
    """
    plan = scene.plan
    if not role.trained:
        return scene.setup[role.name].waits == "host, streamed"
    if plan.offload.endswith("-between-phases"):
        return "between-phases" in scene.framework.pinned
    return bool(scene.zero_stage) or category != "optimizer"


def gradients_nobody_makes(weights: Term) -> Term:
    """What FSDP1 keeps beside a frozen model's weights in host RAM, as if it were trained."""
    return host.FLAT_GRADIENTS(weights.role, host=True, pinned_bytes=weights.bytes)


def loaded(scene: Scene, role: Role) -> Term:
    """Weights that are read into a dtype the file does not have.

    How far other ranks convert ahead of what they drop, nobody can know: up to all of it.
    """
    kept, most = scene.framework.copies(scene.plan, scene.ranks_per_node, role.arch.tied)
    of = _converted(scene, role)
    one = host.LOADED.value(copies=1, **of)
    return host.LOADED(
        role.name, host=True, copies=kept, between=(kept * one, most * one), **of
    )


def _converted(scene: Scene, role: Role) -> dict[str, Num]:
    """What of a role's weights is made anew: 4-bit ones are on the GPU, FSDP1 widens its shards."""
    model = scene.setup[role.name]
    stated = _stated_dtype(scene, model)
    dtype = model.loaded or model.stored
    return {
        "parameters": role.parameters,
        "value_bytes": BYTES[dtype],
        "converted": int(TORCH_NAMES[dtype] != stated and not four_bit(scene.setup, model)),
    }


def _stated_dtype(scene: Scene, model: ModelSetup) -> str:
    """Of a checkpoint's weights, as its config has it under either name."""
    config = scene.facts.models[model.config].config
    return str(config.get("torch_dtype") or config.get("dtype") or TORCH_NAMES["bf16"])


def saved(scene: Scene, role: Role, elements: Num, value_bytes: int) -> Term:
    """What is copied to host RAM before it is written: these numbers, or each rank's shards."""
    if scene.fsdp and scene.framework.checkpoint == "shards":
        return host.SAVED_SHARDS(
            role.name,
            host=True,
            ranks_per_node=scene.ranks_per_node,
            parameters=role.parameters,
            value_bytes=role.weight_bytes,
            trainable=role.trainable,
            state_bytes=state_bytes(scene),
            shards=scene.shards_of("weights"),
        )
    return host.SAVED(
        role.name,
        host=True,
        copies=int(scene.gathers),
        parameters=elements,
        value_bytes=value_bytes,
        frozen_bytes=_frozen_bytes(scene, role),
    )


def _frozen_bytes(scene: Scene, role: Role) -> Num:
    """Of the weights below adapters, where these are picked out of all that is gathered."""
    whole = role.adapters and scene.fsdp and scene.framework.checkpoint == "state"
    return role.parameters * role.weight_bytes if whole else 0


def gathers_state(scene: Scene) -> bool:
    """Whether the optimizer's state is made whole on rank 0 to be written."""
    whole = scene.fsdp and scene.framework.checkpoint == "state"
    return whole and state_bytes(scene) > 0


def saved_state(scene: Scene, role: Role) -> Term:
    """What stands there of it, once the weights are written."""
    return host.SAVED_STATE(
        role.name, host=True, trainable=role.trainable, state_bytes=state_bytes(scene)
    )


def moment_bytes(scene: Scene) -> int:
    """Bytes of one of the optimizer's two numbers for each trained one; 0 where it has none."""
    if scene.plan.optimizer == "sgd":
        return 0
    return 1 if scene.plan.optimizer in EIGHT_BIT else scene.q.master_bytes


def state_bytes(scene: Scene) -> int:
    """Bytes of the optimizer's state for each trained number."""
    moments = 2 * moment_bytes(scene)
    return moments + (4 if scene.zero_stage and scene.plan.dtype != "fp32" else 0)
