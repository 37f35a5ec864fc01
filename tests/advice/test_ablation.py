"""Each optimization by its own part: from all off to all on, every bar an estimate."""

from __future__ import annotations

import pytest

from planner.advice.waterfall import Switch, switches, waterfall
from planner.estimate import estimate
from planner.plan import Plan
from planner.plan.presets import presets

PLAN = Plan(finetuning="lora", reference="adapter-disabled")
NAMES = ("Sharding (FSDP2)", "LoRA, and the reference without it", "Gradient checkpointing")


def named(plan: Plan, *names: str) -> list[Switch]:
    found = {one.name: one for one in switches(plan)}
    return [found[name] for name in names]


def with_all(plan: Plan, chosen: list[Switch], *, on: bool) -> Plan:
    changes = {}
    for one in chosen:
        changes.update(one.on if on else one.off)
    return plan.changed(**changes)


@pytest.mark.parametrize("largest_first", [False, True])
def test_it_begins_with_all_off_and_ends_with_all_on(largest_first: bool) -> None:
    chosen = named(PLAN, *NAMES)
    found = waterfall(PLAN, chosen, estimate, largest_first=largest_first)
    first, last = (estimate(with_all(PLAN, chosen, on=on)) for on in (False, True))
    assert (found.steps[0].device_bytes, found.steps[-1].device_bytes) == (
        first.device_bytes,
        last.device_bytes,
    )
    assert found.steps[-1].seconds == last.step_seconds and found.left_out == ()
    assert len(found.steps) == 1 + len(NAMES)


def test_the_persons_order_is_kept_and_each_bar_is_an_estimate() -> None:
    names = (NAMES[2], NAMES[0], NAMES[1])
    chosen = named(PLAN, *names)
    found = waterfall(PLAN, chosen, estimate)
    assert [step.name for step in found.steps] == ["All off", *names]
    plan = with_all(PLAN, chosen, on=False)
    for one, step in zip(chosen, found.steps[1:], strict=True):
        plan = plan.changed(**one.on)
        assert step.device_bytes == estimate(plan).device_bytes
        assert step.trainer_bytes == estimate(plan).trainer_bytes


def test_largest_first_gives_each_place_to_what_saves_most_there() -> None:
    chosen = named(PLAN, *reversed(NAMES))
    found = waterfall(PLAN, chosen, estimate, largest_first=True, measure="trainer")
    off = with_all(PLAN, chosen, on=False)
    alone = {one.name: estimate(off.changed(**one.on)).trainer_bytes for one in chosen}
    assert found.steps[1].name == min(alone, key=lambda name: alone[name])
    assert found.steps[1].trainer_bytes == min(alone.values())
    assert found.steps[1].name != chosen[0].name, "another order than the one that was given"


def test_what_needs_another_waits_for_it() -> None:
    names = ("Offload of activations", "Gradient checkpointing")
    found = waterfall(PLAN, named(PLAN, *names), estimate)
    assert [step.name for step in found.steps] == ["All off", *reversed(names)]
    assert found.left_out == ()


def test_what_cannot_be_turned_on_is_left_out_with_the_reason() -> None:
    found = waterfall(PLAN, named(PLAN, "Offload of activations"), estimate)
    assert [step.name for step in found.steps] == ["All off", "Offload of activations"]
    bare = PLAN.changed(gradient_checkpointing="none")
    found = waterfall(bare, named(PLAN, "Offload of activations"), estimate)
    ((name, why),) = found.left_out
    assert name == "Offload of activations" and "checkpointed" in why
    assert len(found.steps) == 1


def test_what_the_plan_has_on_stands_first_and_nothing_without_effect_is_there() -> None:
    found = switches(PLAN)
    own = [one.own for one in found]
    assert own == sorted(own, reverse=True)
    for one in found:
        has = all(getattr(PLAN, name) == value for name, value in one.on.items())
        assert has is one.own, one.name
    grade = [one.name for one in switches(presets()["doc-001-legacy@1"].plan)]
    assert "Checkpointing each generated token" in grade
    assert "Sleeping engine" not in grade and "Fused linear cross-entropy" not in grade
