"""docs/accuracy.md: equal to what its command writes, and complete."""

from __future__ import annotations

from pathlib import Path

import pytest

from accuracy import dry_run, front_page, report
from accuracy.mapping import mappings
from accuracy.prediction import Predicted
from accuracy.published import UNIT_BYTES, row, rows
from accuracy.quantity import peak
from planner.estimate import estimate
from planner.plan import Plan
from planner.units import GIB

ROOT = Path(__file__).parents[2]
DOCUMENT, README = ROOT / "docs" / "accuracy.md", ROOT / "README.md"
PREDICTED = [how for how in mappings().values() if isinstance(how, Predicted)]


def test_the_document_is_what_the_command_writes():
    assert DOCUMENT.read_text("utf-8") == report.text(), "run python -m accuracy and look at it"


def test_the_readme_has_the_front_pages_table():
    readme = README.read_text("utf-8")
    assert front_page.table() in readme, "run python -m accuracy and look at it"
    old = readme.replace(front_page.table(), f"{front_page.HEAD}\n|---|---|---|\n| a | b | c |")
    assert old != readme and front_page.put_into(old) == readme


def test_it_opens_with_one_page_for_people():
    page, details = report.text().split("\n## Details\n")
    assert page.startswith("# Accuracy\n") and len(page.splitlines()) <= 65
    assert max(map(len, page.splitlines())) <= 220
    assert "## Where not to trust it" in page and front_page.table() in page
    assert len(details) > 10 * len(page)


def test_enough_rows_are_predicted():
    assert len(PREDICTED) >= 20


def test_every_row_is_predicted_or_has_a_reason():
    assert list(mappings()) == [row.id for row in rows()]
    assert len(rows()) == 34
    assert all(item.reason for item in report.unpredicted())


@pytest.mark.parametrize(
    "how", [how for how in PREDICTED if how.fields is not None], ids=lambda how: how.id
)
def test_no_predicted_plan_is_refused(how):
    assert isinstance(how.plan, Plan)
    assert estimate(how.plan).phases


@pytest.mark.parametrize("item", report.compared(), ids=lambda item: item.row.id)
def test_a_large_difference_has_a_note(item):
    if abs(item.error) > report.LARGE:
        assert item.how.note


def test_like_for_like_rows_need_no_additions():
    """What no field says makes a row approximate."""
    for item in report.compared():
        if item.how.comparable == "like for like":
            assert not item.answer.additions


def test_published_units():
    assert UNIT_BYTES == {"GiB": 2**30, "MB": 10**6}
    assert row("trl-3678-logprob-forward").bytes == 902_000_000
    assert row("torchtune-3b-packed").bytes == 60 * 2**30


def test_verl_static_state_by_hand():
    """0.494 B parameters: 4 bytes for policy and critic each, 2 for the bf16 reference."""
    item = next(i for i in report.compared() if "Qwen2.5-0.5B-bsz" in i.row.id)
    assert item.answer.bytes / GIB == pytest.approx(494_032_768 * 10 / 2**30, rel=1e-4)
    assert item.error == pytest.approx(0, abs=1e-3)
    (stage,) = item.answer.stages
    assert stage[1] / item.row.stage("after_critic_fsdp") == pytest.approx(1, abs=1e-3)


def test_leaving_terms_out_lowers_the_peak():
    plan = Plan(method="sft", model="Qwen/Qwen3-0.6B", gpus=1)
    whole = peak(plan, "requested")
    less = peak(plan, "requested", without=lambda term: term.name == "weights")
    assert whole.bytes - less.bytes == 4 * 596_049_920


def test_a_peak_is_the_estimates_own():
    plan = Plan(method="sft", model="Qwen/Qwen3-0.6B", gpus=8)
    phases = {phase.name: phase for phase in estimate(plan).phases}
    assert peak(plan, "requested", ("policy backward",)).bytes == (
        phases["policy backward"].requested_bytes
    )


@pytest.mark.parametrize("figure", dry_run.figures(), ids=lambda figure: figure.what)
def test_the_closed_form_meets_recorded_steps(figure):
    # The first layer's gradients count in full while its backward runs: 0.43 of 56.77 GiB.
    spare = 8e-3 if "7B" in figure.what else 6e-4
    assert -6e-4 <= figure.signed_error <= spare


def test_an_optimizer_in_backward_leaves_no_gradient_waiting():
    """torchtune's 23.1 GiB: at no point of the backward is there a sum of gradients."""
    item = next(i for i in report.compared() if "optimizer-in-backward" in i.row.id)
    assert item.error == pytest.approx(0.015, abs=0.001)
