"""What each optimization saves by itself: the plan with it changed alone, every bar an estimate."""

from __future__ import annotations

from planner.advice.ablation import Switch, ablation, switches
from planner.estimate import estimate
from planner.plan import Plan
from planner.plan.presets import presets

PLAN = Plan(finetuning="lora", reference="adapter-disabled")
NAMES = ("Sharding (FSDP2)", "LoRA, and the reference without it", "Gradient checkpointing")


def named(plan: Plan, *names: str) -> list[Switch]:
    found = {one.name: one for one in switches(plan)}
    return [found[name] for name in names]


def test_it_starts_from_the_plan_and_undoes_one_at_a_time() -> None:
    chosen = named(PLAN, *NAMES)
    found = ablation(PLAN, chosen, estimate)
    own = estimate(PLAN)
    (name, first), *others = found.steps
    assert name == "the plan"
    assert (first.device_bytes, first.step_seconds) == (own.device_bytes, own.step_seconds)
    undone = {f"without {one.name}": estimate(PLAN.changed(**one.off)) for one in chosen}
    assert {name for name, _ in others} == undone.keys() and found.left_out == ()
    for name, after in others:
        assert after.device_bytes == undone[name].device_bytes
        assert after.trainer_bytes == undone[name].trainer_bytes
        assert after.step_seconds == undone[name].step_seconds


def test_what_saves_most_comes_first_and_what_is_added_last() -> None:
    chosen = named(PLAN, "8-bit AdamW", *reversed(NAMES))
    found = ablation(PLAN, chosen, estimate, measure="trainer_bytes")
    *without, added = found.steps[1:]
    assert added[0] == "with 8-bit AdamW"
    sizes = [after.trainer_bytes for _, after in without]
    assert sizes == sorted(sizes, reverse=True)


def test_what_cannot_be_changed_alone_is_left_out_with_the_reason() -> None:
    bare = PLAN.changed(gradient_checkpointing="none")
    found = ablation(bare, named(PLAN, "Activation offload"), estimate)
    ((name, why),) = found.left_out
    assert name == "Activation offload" and "checkpointed" in why
    assert len(found.steps) == 1


def test_lora_is_no_optimization_of_a_full_fine_tuning() -> None:
    assert not [one.name for one in switches(Plan()) if "LoRA" in one.name]
    assert "LoRA, and the reference without it" in [one.name for one in switches(PLAN)]


def test_what_the_plan_has_on_stands_first_and_nothing_without_effect_is_there() -> None:
    found = switches(PLAN)
    own = [one.own for one in found]
    assert own == sorted(own, reverse=True)
    for one in found:
        has = all(getattr(PLAN, name) == value for name, value in one.on.items())
        assert has is one.own, one.name
    grade = [one.name for one in switches(presets()["doc-001-legacy@1"].plan)]
    assert "Checkpointing each generated token" in grade
    assert "vLLM sleep mode" not in grade and "Fused linear cross-entropy" not in grade
