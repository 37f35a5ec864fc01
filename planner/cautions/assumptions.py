"""What an answer assumes or leaves out: lines above the headline, which rests on them."""

from __future__ import annotations

from collections.abc import Iterator

from planner.footprint import Phase
from planner.phases.scene import Scene
from planner.plan.loss import foreign

TEXT = " (text)"
"""How a row of the catalog is called of whose model only the language model is planned."""

NOT_READ = (
    "nobody has read it, so memory and time are those of Headroom's own step and may be lower or "
    "higher"
)


def assumptions(scene: Scene, phases: tuple[Phase, ...]) -> Iterator[str]:
    """Each a short sentence without a full stop: what is assumed, then what that would move."""
    yield from _left_out(scene)
    yield from _loss(scene)
    yield from _bucket(scene)


def left_out(scene: Scene) -> tuple[tuple[str, str], ...]:
    """Parts of a plan that nothing here counts, by name, and which way each moves the figures.

    With one of them a plan is incomplete: no word of a verdict is of all of it.
    """
    framework, parts = scene.framework, scene.facts.policy_model.left_out
    if framework.loop_read:
        return parts
    return (*parts, (f"{framework.label}'s training loop", NOT_READ))


def _left_out(scene: Scene) -> Iterator[str]:
    """Parts that nothing here counts, and what of a model is planned."""
    model = scene.facts.policy_model
    for name, moves in left_out(scene):
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
    if engine and plan.sync_bucket_bytes and framework.sync(plan)[1] != "bucket":
        none = f"{framework.label} sends weights to vLLM without a bucket"
        yield f"weight sync: {none}; the plan's bucket is counted"
