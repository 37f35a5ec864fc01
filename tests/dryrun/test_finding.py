"""A dry run in sentences: figures of a worker's answer made by hand."""

from __future__ import annotations

import dry_run_answers as answers
from dry_run_answers import alive, phase
from planner.dryrun.ask.answer import DryRun, answer
from planner.dryrun.ask.finding import finding
from planner.units import GB, GIB


def sentences(found: dict | None = None, **changes: object) -> tuple[str, ...]:
    return finding(answered(found, **changes))


def answered(found: dict | None = None, **changes: object) -> DryRun:
    return answer(answers.plan(**changes), found or answers.found())


def test_the_verdict_comes_first() -> None:
    assert sentences()[0].startswith("The dry run's verdict: Fits. Peak ")


def test_the_peak_is_said_in_its_two_largest_parts() -> None:
    # 10 GiB live, a quarter more reserved, and 64 MiB of cuBLAS workspaces: 12.56 GiB;
    # 6 of them activations, 2.5 unused.
    made_of = sentences()[2]
    assert made_of == (
        "The step that ran peaks in policy backward, where PyTorch holds 12.6 GiB: 48% of it is "
        "the policy's activations and 20% cached but unused memory."
    )


def largest(of: dict) -> str:
    return next(one for one in sentences(answers.found(phases=[of])) if "The largest" in one)


def test_the_largest_tensors_are_named() -> None:
    many = phase("policy backward", {"activations": 9})
    many["alive"] = [alive(24, 0.25, "activations", "layers.3", "add")]
    one = phase("policy backward", {"optimizer": 9})
    one["alive"] = [alive(1, 7.5, "optimizer", "layers.0.mlp", "zeros_like")]
    assert largest(many) == (
        "The largest tensors at the peak: 24 of 4 × 1,024 in float32 (the policy's activations, "
        "made by add in layers.3), 6.0 GiB together."
    )
    assert largest(one) == (
        "The largest tensor at the peak: 4 × 1,024 in float32 (the policy's optimizer states, "
        "made by zeros_like), 7.5 GiB."
    )


def as_the_closed_form(**off: float) -> dict:
    """An answer whose phases need what the closed form says, but for those in ``off``."""
    closed = answered().estimate
    cublas = 64 * 2**20
    phases = [
        phase(p.name, {"activations": (p.requested_bytes - cublas) / GIB / (1 + off.get(key, 0.0))})
        for p in closed.phases
        if (key := p.name.replace(" ", "_")) in KEYS
    ]
    return answers.found(phases=phases)


KEYS = ("policy_forward", "policy_backward", "optimizer_step")


def test_agreement_is_one_sentence() -> None:
    said = sentences(as_the_closed_form())
    assert "Requested memory agrees with the estimate within 0.1% in every phase that ran." in said
    assert not any("furthest" in sentence for sentence in said)


def closed_gib(name: str) -> float:
    """What the closed form says of a phase: others' tests hold it, these only compare with it."""
    found = next(phase for phase in answered().estimate.phases if phase.name == name)
    return found.requested_bytes / GIB


def dry_gib(name: str, off: float) -> float:
    """The dry run's figure that :func:`as_the_closed_form` makes: all but 64 MiB is scaled."""
    return (closed_gib(name) - 1 / 16) / (1 + off) + 1 / 16


def test_each_total_stands_beside_the_closed_forms_by_its_name() -> None:
    found = answered(as_the_closed_form(policy_backward=-0.25))
    said = next(one for one in finding(found) if one.startswith("In policy backward: "))
    closed, dry = closed_gib("policy backward"), dry_gib("policy backward", -0.25)
    assert (
        f"requested {dry:.1f} GiB (closed form {closed:.1f} GiB, {closed / dry - 1:+.1%})" in said
    )
    (own,) = [one for one in found.footprint.phases if one.name == "policy backward"]
    (other,) = [one for one in found.estimate.phases if one.name == "policy backward"]
    for name, total in (("reserved by PyTorch", "reserved"), ("on the GPU", "device")):
        now, was = (getattr(one, f"{total}_bytes") / GIB for one in (own, other))
        assert now != was
        assert f"{name} {now:.1f} GiB (closed form {was:.1f} GiB, {was / now - 1:+.1%})" in said


def test_how_far_off_is_said_for_the_phase_that_is_furthest() -> None:
    said = " ".join(sentences(as_the_closed_form(optimizer_step=0.5)))
    closed, dry = closed_gib("optimizer step"), dry_gib("optimizer step", 0.5)
    off = f"{closed / dry - 1:.1%} more than the dry run."
    assert f"differs most in optimizer step: the estimate has {off}" in said
    assert "(closed form the same)" in said  # of policy backward's requested bytes
    # Of the worst phase every total is said already.
    assert "furthest" not in " ".join(sentences(as_the_closed_form(policy_backward=-0.25)))


def test_a_dry_run_of_another_loss_or_layout_only_checks() -> None:
    assert not answered().otherwise
    for changes in (
        {"compile": True},
        {"sharding": "fsdp1", "gpus": 2},
        {"sharding": "zero2", "gpus": 2},
    ):
        found = answered(**changes)
        assert found.otherwise and found.otherwise[0] in found.notes, changes
        lead, why, *_ = finding(found)
        assert lead.startswith("With this dry run's figures: ")
        assert why == f"It only checks, and the closed form stays the verdict: {found.otherwise[0]}"
    fell = answered(answers.found(notes=["A fallback branch ran."]))
    assert fell.otherwise == ("A fallback branch ran.",)
    empty = answered(answers.found(phases=[]))
    assert empty.otherwise


def test_what_one_switch_would_change_is_the_closed_forms() -> None:
    said = sentences(gradient_checkpointing="none")
    assert any(
        sentence.startswith("Gradient checkpointing would save ")
        and sentence.endswith(" GiB (closed form).")
        for sentence in said
    )


def test_the_reader_chooses_the_unit() -> None:
    said = " ".join(finding(answered(), read=lambda size: f"{size / GB:.2f} GB"))
    # 12.5625 GiB.
    assert "holds 13.49 GB" in said


def test_a_plan_without_an_executed_phase_has_a_sentence_too() -> None:
    assert sentences(answers.found(phases=[]))[-1] == (
        "The dry run executed no phase of this plan."
    )


def test_a_phase_without_an_estimate_is_told_like_any_other() -> None:
    said = sentences(answers.found(phases=[phase("no such phase", {"logits": 1})]))
    assert any(one.startswith("The step that ran peaks in no such phase, where") for one in said)


def test_an_empty_peak_is_no_error() -> None:
    empty = phase("policy backward", {})
    assert "No tensor is alive at the peak." in sentences(answers.found(phases=[empty]))
