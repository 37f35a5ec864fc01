"""Two kinds of layers: which instants a training step has, and the gradients between them."""

from __future__ import annotations

from accuracy.tiny import CONFIGS
from planner import catalog
from planner.catalog.architecture import Architecture
from planner.estimate import phase_plans
from planner.phases.layer_kinds import layer_kinds
from planner.phases.scene import scene_of
from planner.plan import Plan
from planner.plan.facts import facts_of
from planner.term import Instant

ATTENTION = 2 * 64 * 64 + 2 * 64 * 32 + 2 * 16 + 2 * 64
DENSE = ATTENTION + 3 * 64 * 176
SPARSE = ATTENTION + 64 * 8 + 8 * 3 * 64 * 48


def architecture(**changes: object) -> Architecture:
    """Four layers, of which the first and the third have one MLP, unless told otherwise."""
    found = catalog.model_from_config({**CONFIGS["two kinds"], **changes}).architecture
    assert found is not None
    return found


def test_places_of_each_kind() -> None:
    kinds = layer_kinds(architecture())
    assert [(kind.word, kind.places) for kind in kinds] == [("dense ", (0, 2)), ("sparse ", (1, 3))]
    for alike in ({"mlp_only_layers": []}, {"mlp_only_layers": [0, 1, 2, 3]}):
        (only,) = layer_kinds(architecture(**alike))
        assert (only.sparse, only.word, only.first, only.last) == (None, "", 0, 3)


def instants(forward: bool = False, **changes: object) -> dict[str, Instant]:
    plan = Plan(
        **{
            "model": "tiny/model",
            "config": catalog.encode_config(CONFIGS["two kinds"]),
            "method": "sft",
            "gpus": 1,
            "sharding": "none",
            "master_dtype": "none",
            "prompts_per_step": 1,
            "micro_batch_size": 1,
            **changes,
        }
    )
    phases = {phase.name: phase for phase in phase_plans(scene_of(plan, facts_of(plan)))}
    found = phases["policy forward" if forward else "policy backward"].instants
    return {instant.name: instant for instant in found}


def gradient(instant: Instant, name: str) -> int:
    return sum(term.bytes for term in instant.everything if term.name == name)


def test_gradients_above_the_last_and_below_the_first_of_a_kind() -> None:
    found = instants()
    above, below = "gradients of higher layers", "gradients of lower layers, still to come"
    assert gradient(found["last sparse layer's backward"], above) == 0
    assert gradient(found["last dense layer's backward"], above) == 2 * SPARSE
    # A layer's own gradients are counted as its backward makes them.
    assert gradient(found["first dense layer's backward"], below) == -2 * DENSE
    assert gradient(found["first sparse layer's backward"], below) == -2 * (DENSE + SPARSE)


def test_gradients_that_accumulate_are_all_there_already() -> None:
    found = instants(prompts_per_step=2)
    assert gradient(found["last dense layer's backward"], "gradients of higher layers") == 0
    lower = gradient(
        found["first sparse layer's backward"], "gradients of lower layers, still to come"
    )
    assert lower == 0


def test_each_kind_counts_the_checkpoints_up_to_its_last_layer() -> None:
    found = instants(forward=True, gradient_checkpointing="full", dtype="fp32")
    row = 64 * 4 * (Plan().prompt_tokens + Plan().response_tokens)
    inputs = "checkpointed layer inputs"
    assert gradient(found["last dense layer's forward"], inputs) == 3 * row
    assert gradient(found["last sparse layer's forward"], inputs) == 4 * row


def test_only_fsdp_reduces_beside_the_layer_before_the_last() -> None:
    names = instants(sharding="fsdp2", gpus=2, prompts_per_step=2, master_dtype="fp32").keys()
    assert "sparse backward overlapping reduce-scatter" in names
    assert "dense backward overlapping reduce-scatter" not in names
    assert not any("reduce-scatter" in name for name in instants())
