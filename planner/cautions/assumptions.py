"""What an answer assumes or leaves out: lines above the headline, which rests on them."""

from __future__ import annotations

from collections.abc import Iterator

from planner.footprint import Phase
from planner.phases.scene import Scene
from planner.plan.loss import foreign

TEXT = " (text)"
"""How a row of the catalog is called of whose model only the language model is planned."""


def assumptions(scene: Scene, phases: tuple[Phase, ...]) -> Iterator[str]:
    """Each a short sentence without a full stop: what is assumed, then what that would move."""
    yield from _left_out(scene)
    yield from _loss(scene)
    yield from _bucket(scene)


def _left_out(scene: Scene) -> Iterator[str]:
    """Parts of a model from outside that nothing here counts."""
    model = scene.facts.policy_model
    for name, moves in model.left_out:
        yield f"{name[0].upper()}{name[1:]} is left out: {moves}"
    if model.name.endswith(TEXT):
        yield (
            f"{model.id} is planned as its language model: weights, activations and time of its "
            "vision part would come on top"
        )


def _loss(scene: Scene) -> Iterator[str]:
    """A loss that the plan's framework has not, or not quite."""
    if named := foreign(scene.plan):
        yield f"loss: {named}"


def _bucket(scene: Scene) -> Iterator[str]:
    """A bucket for the weights on their way to an engine, where the framework has none."""
    plan, framework = scene.plan, scene.framework
    engine = plan.rollout.startswith("vllm")
    if engine and plan.sync_bucket_bytes and not framework.sync_bucket_bytes:
        none = f"{framework.label} sends weights to vLLM without a bucket"
        yield f"weight sync: {none}; the plan's bucket is counted"
