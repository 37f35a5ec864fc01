"""What is counted from a dry run: its own plan's figures exactly, others' by the closed form."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

import dry_run_answers as answers
from planner.dryrun.ask.answer import DryRun, answer
from planner.dryrun.ask.counted import NAME, counted, counts
from planner.estimate import estimate
from planner.units import GIB


def answered(**changes: object) -> DryRun:
    return answer(answers.plan(**changes), answers.found())


LEVELS = ("requested", "allocated", "reserved", "device", "inherited", "low", "high", "host")


@given(st.integers(1, 400), st.integers(0, 200), st.booleans())
@settings(max_examples=25, deadline=None)
def test_the_dry_runs_own_plan_has_the_dry_runs_figures(live: int, more: int, fused: bool) -> None:
    """By every total of every phase, though its terms are the closed form's and one more."""
    phases = [
        answers.phase("policy forward", {"activations": live / 100}),
        answers.phase("policy backward", {"activations": (live + more) / 100, "gradients": 1}),
    ]
    plan = answers.plan(logits="fused" if fused else "full")
    found = answer(plan, answers.found(phases=phases))
    left = [one for one in found.errors if "optimizer step" in one]
    assert len(left) == len(found.errors) == 1 and not counts(found, plan)  # one did not run
    phases.append(answers.phase("optimizer step", {"optimizer": 1}))
    found = answer(plan, answers.found(phases=phases))
    made = counted(found, estimate(plan))
    assert (made.source, made.verdict) == ("dry run", found.footprint.verdict)
    for own, dry in zip(made.phases, found.footprint.phases, strict=True):
        for level in LEVELS:
            name = f"{level}_bytes"
            assert getattr(own, name) == getattr(dry, name), (own.name, level)
        assert sum(term.bytes for term in own.terms if not term.host) == own.device_bytes


def test_an_edits_difference_is_the_closed_forms() -> None:
    found = answered()
    before = found.footprint
    edited = found.estimate.plan.changed(prompt_tokens=900)
    closed, made = estimate(edited), counted(found, estimate(edited))
    assert made.source == "estimate" and made.plan == edited
    for own, was, dry, now in zip(
        made.phases, found.estimate.phases, before.phases, closed.phases, strict=True
    ):
        assert own.device_bytes - dry.device_bytes == now.device_bytes - was.device_bytes, own.name
    assert any(term.name == NAME for term in made.worst.terms)


def test_no_total_falls_below_what_it_contains() -> None:
    """A dry run with less than the closed form, and an edit with less than that difference."""
    small = [
        answers.phase(name, {"activations": 0.01})
        for name in ("policy forward", "policy backward", "optimizer step")
    ]
    plan = answers.plan(micro_batch_size=8)
    found = answer(plan, answers.found(phases=small))
    edited = plan.changed(micro_batch_size=1, finetuning="lora")
    for phase in counted(found, estimate(edited)).phases:
        totals = (phase.requested_bytes, phase.allocated_bytes, phase.reserved_bytes)
        assert 0 <= totals[0] <= totals[1] <= totals[2] <= phase.device_bytes
        assert phase.low_bytes <= phase.device_bytes <= phase.high_bytes
        assert 0 <= phase.inherited_bytes <= phase.reserved_bytes


def test_only_plans_of_the_same_model_code_and_card_are_counted() -> None:
    found = answered()
    own = found.footprint.plan
    assert counts(found, own) and counts(found, own.changed(prompt_tokens=900, finetuning="lora"))
    for change in ({"model": "Qwen/Qwen3-4B"}, {"gpu": "a100-80gb"}, {"framework": "trl"}):
        assert not counts(found, own.model_copy(update=change)), change


def test_a_step_that_gave_memory_back_is_tight_until_it_needs_less() -> None:
    found = answer(answers.plan(), answers.found(alloc_retries=2))
    plan = found.estimate.plan
    assert counted(found, estimate(plan)).verdict.word == "tight"
    same = plan.changed(steps=plan.steps + 1)
    assert counted(found, estimate(same)).verdict.word == "tight"
    less = counted(found, estimate(plan.changed(micro_batch_size=1, prompt_tokens=16)))
    assert less.device_bytes < found.footprint.device_bytes - GIB // 8
    assert less.verdict.word == "fits"
