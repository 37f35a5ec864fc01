"""The gradient of a tied weight waits for the embedding's while layers go backward."""

from __future__ import annotations

import pytest

from planner.estimate import phase_plans
from planner.phases.scene import scene_of
from planner.plan import Plan
from planner.plan.facts import facts_of

TIED, UNTIED = "Qwen/Qwen2.5-0.5B", "Qwen/Qwen2.5-7B"
WAITING = "gradient of the tied weight, from the head"


def waiting(model: str, micro_batches: int) -> dict[str, int]:
    """Bytes of the waiting gradient by instant."""
    plan = Plan(
        model=model,
        method="sft",
        gpus=1,
        sharding="none",
        master_dtype="none",
        micro_batch_size=1,
        prompts_per_step=micro_batches,
    )
    phases = {phase.name: phase for phase in phase_plans(scene_of(plan, facts_of(plan)))}
    return {
        instant.name: sum(int(t.bytes) for t in instant.everything if t.name == WAITING)
        for instant in phases["policy backward"].instants
    }


@pytest.mark.parametrize("micro_batches", (1, 3))
def test_it_waits_in_every_micro_batch(micro_batches: int) -> None:
    found = waiting(TIED, micro_batches)
    weight = 151_936 * 896 * 2
    assert found["final norm's backward"] == found["last layer's backward"] == weight
    # Near the end all layers' gradients are there, and of one micro-batch this one among them.
    assert found["first layer's backward"] == (weight if micro_batches > 1 else 0)


def test_a_head_of_its_own_waits_for_nobody() -> None:
    assert not any(waiting(UNTIED, 3).values())
