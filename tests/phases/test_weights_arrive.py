"""Updated weights on their way to an engine on GPUs of its own, on both sides.

Expected sizes are by hand from the parts of verl 0.9.1, TRL and vLLM that send and receive.
"""

from __future__ import annotations

from planner.estimate import estimate
from planner.footprint import Phase
from planner.phases import rollout
from planner.phases.scene import scene_of
from planner.plan import Plan
from planner.plan.facts import facts_of
from planner.term import Term
from planner.units import GIB


def named(terms: tuple[Term, ...], name: str) -> int:
    return sum(int(term.bytes) for term in terms if term.name == name)


def phase(plan: Plan, name: str) -> Phase:
    return next(one for one in estimate(plan).phases if one.name == name)


def received(plan: Plan) -> dict[str, int]:
    """Bytes by name at the moment at which weights come to a separate engine."""
    scene = scene_of(plan, facts_of(plan))
    arriving = rollout.rollout(scene).instants[-1]
    assert arriving.name == "weights loading"
    return {one.name: int(one.bytes) for one in arriving.terms}


def test_verl_receives_in_a_process_of_its_own_outside_the_share() -> None:
    plan = Plan(
        framework="verl", method="grpo", gpus=8, rollout="vllm-separate", rollout_gpus=4
    )
    found = received(plan)
    assert found["weight sync bucket"] == 6 * GIB
    decodes = rollout.rollout(scene_of(plan, facts_of(plan))).instants[0]
    contexts = [one.name for one in decodes.terms].count("CUDA context")
    arriving = rollout.rollout(scene_of(plan, facts_of(plan))).instants[-1]
    assert [one.name for one in arriving.terms].count("CUDA context") == contexts + 1
    # What fills the card to the brim while it decodes is too much when weights come.
    full = plan.changed(gpu_memory_utilization=0.95)
    assert estimate(full).verdict.word == "out of memory"
    assert estimate(full).worst.rank == "rollout"


TRL_APART = {
    "framework": "trl", "method": "grpo", "gpus": 8, "rollout": "vllm-separate", "rollout_gpus": 4
}  # fmt: skip


def test_trl_packs_weights_in_buffers_that_the_embedding_exceeds() -> None:
    plan = Plan(**TRL_APART, sharding="fsdp2")
    embedding = 152_064 * 3_584 * (2 if plan.master_dtype == "none" else 4)
    assert embedding > GIB, "so it is a buffer by itself"
    terms = phase(plan, "weight sync").terms
    assert named(terms, "packed weights in transit") == 2 * embedding
    assert named(terms, "gathered weights to be packed") == embedding
    assert received(plan)["packed weights in transit"] == 3 * embedding
    whole = phase(plan.changed(sharding="ddp"), "weight sync").terms
    assert not any(one.name == "gathered weights to be packed" for one in whole)


def test_a_small_model_is_packed_whole() -> None:
    plan = Plan(**TRL_APART, model="Qwen/Qwen2.5-0.5B", sharding="ddp", master_dtype="none")
    weights = 494_032_768 * 2
    assert weights < GIB
    assert received(plan)["packed weights in transit"] == weights
    assert named(phase(plan, "weight sync").terms, "packed weights in transit") == weights


def test_an_older_trl_sends_each_weight_by_itself() -> None:
    plan = Plan(**TRL_APART, framework_version="1.14.0", sharding="ddp")
    embedding = 152_064 * 3_584 * (2 if plan.master_dtype == "none" else 4)
    assert received(plan)["largest tensor in transit"] == embedding
    assert named(phase(plan, "weight sync").terms, "largest tensor in transit") == embedding
