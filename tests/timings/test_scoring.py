"""How published seconds are compared, ordered and turned into intervals."""

from __future__ import annotations

import csv
import io
import json
import re
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from accuracy.timings import compare, intervals, rank, report, runs, serving, stale
from accuracy.timings.compare import Figure, results
from accuracy.timings.planned import Planned
from accuracy.timings.rows import Row, rows
from planner.plan import Plan
from planner.plan.lengths import lengths_of
from planner.timing import error
from planner.timing.error import Cell, Regime, factors
from planner.values.step_phases import POLICY_BACKWARD

FIGURE = Figure(
    id="a",
    project="p/one",
    confidence="high",
    exact=True,
    phase="update",
    group=compare.TRAINING,
    mixture=False,
    tables=True,
    lengths=True,
    published=10.0,
    predicted=8.0,
    alternatives="p/one m",
    tokens=0.0,
    gpus=1,
    assumed="as stated",
)


def figure(**changes: Any) -> Figure:
    return replace(FIGURE, **changes)


def row(**settings: Any) -> Row:
    told = {"method": "SFT", "gpus": 4, "model": "m", **settings}
    figures = told.pop("figures")
    return Row(
        id="x", project="p/one", side="seen", confidence="high", settings=told, figures=figures
    )


def test_held_rows_are_refused_unless_it_is_the_end() -> None:
    with pytest.raises(ValueError, match="--final"):
        results("held")
    told = subprocess.run(
        [sys.executable, "-m", "accuracy.timings"], capture_output=True, text=True, check=True
    ).stdout
    held = [one.id for one in rows() if one.side == "held"]
    assert not any(name in told for name in held)
    assert all(one.id in told for one in rows() if one.id.startswith("llmfoundry"))


def test_a_second_scoring_shows_no_rows_and_keeps_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, now = report.text().split("### The same half by the model of today")
    held = [one.id for one in rows() if one.side == "held"]
    assert any(name in first for name in held) and not any(name in now for name in held)
    monkeypatch.setattr(report, "AGAIN", tmp_path / "again.json")
    monkeypatch.setattr(report, "results", lambda side, final=False: ((figure(),), ()))
    before = report.HELD.read_bytes()
    report.record("2026-11-25", "covered")
    assert report.HELD.read_bytes() == before
    assert report.held() == [figure()]
    assert "-20.0 %" in report.text().split("### The same half by the model of today")[1]


def test_what_was_scored_is_what_todays_model_predicts() -> None:
    """docs/accuracy.md says *by the model of today*; nothing that was published is read here."""
    for found in (stale.held(), stale.served()):
        assert found.of > 90 and not found.moved, found.words


def test_a_prediction_that_moves_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    first, *others = report.held()
    told = [replace(first, predicted=1.01 * first.predicted), *others]
    monkeypatch.setattr(report, "held", lambda: told)
    assert stale.held().moved == 1
    monkeypatch.setattr(report, "held", lambda: [*told[1:], figure(id="gone")])
    assert stale.held().moved == 1
    today = serving.predictions()
    some = next(iter(today))
    monkeypatch.setattr(serving, "predictions", lambda: {**today, some: 1.01 * (today[some] or 0)})
    assert stale.served().moved == 1


def test_the_readmes_medians_are_those_that_were_scored() -> None:
    rows = (Path(__file__).parents[2] / "README.md").read_text("utf-8").splitlines()
    now, first = report._recorded(report.AGAIN), report._recorded(report.HELD)
    for start, group, phase in (
        ("Time of an update, dense", compare.TRAINING, "update"),
        ("Time of an update, mixtures", compare.MIXED_TRAINING, "update"),
        ("Time of an RL step, dense", compare.DENSE, "step"),
    ):
        (row,) = [one for one in rows if one.startswith(f"| {start}")]
        today, then = (
            [abs(one.error) for one in told if is_judged(one, group, phase)]
            for told in (now, first)
        )
        assert row.endswith(
            f"median {100 * median(today):.0f} % either way "
            f"({100 * median(then):.0f} % when first scored) |"
        )
        assert f"| {len(today)} published runs" in row
    (row,) = [one for one in rows if one.startswith("| Which of several settings")]
    for told in (now, first):
        ordered = [one for one in rank.ranked(told) if one.spearman == one.spearman]
        mean = sum(one.spearman * one.rows for one in ordered) / sum(one.rows for one in ordered)
        assert f"{mean:.2f}" in row


def is_judged(one: Figure, group: str, phase: str) -> bool:
    return one.judged and (one.group, one.phase) == (group, phase)


def test_the_serving_samples_target_is_met_at_stated_precision() -> None:
    lines = json.loads(serving.FILE.read_text("utf-8"))["seconds_per_output_token"]
    stated = next(one for one in lines if one["points"] == "precision stated")
    assert stated["planned"] == 529 and stated["median_of_sizes"] <= serving.TARGET


def test_every_row_has_a_plan_or_a_reason() -> None:
    done, left = results("seen")
    assert {one.id for one in done} | {one.id for one in left} == {
        one.id for one in rows() if one.side == "seen"
    }
    for one in rows():
        if one.side == "held":
            compare.how(one)  # maps it, without a figure


def test_rows_are_planned_with_the_attention_that_their_settings_name() -> None:
    """FlashAttention-4 was planned as 2, a third of its speed on a B200, and so was 3 on Hopper."""
    named: dict[str, list[Any]] = {}
    for one in rows():
        if one.project == "PrimeIntellect-ai/prime-rl":
            kernel = re.search(r"flash_attention_\d", one["other"])
            named.setdefault(kernel[0] if kernel else "", []).append(compare.how(one))
    assert {kernel: len(of_it) for kernel, of_it in named.items()} == {
        "flash_attention_2": 11, "flash_attention_3": 26, "flash_attention_4": 6,
    }  # fmt: skip
    left = named.pop("flash_attention_4")
    assert {one.reason for one in left} == {"FlashAttention-4: no plan has it"}
    for kernel, value in (("flash_attention_2", "flash"), ("flash_attention_3",) * 2):
        assert {one.fields["attention"] for one in named[kernel] if one.fields} == {value}
    of_it = {one.id for one in rows() if "flash_attention_4" in one["other"]}
    assert not of_it & {one.id for one in report.held()}


def test_the_stated_intervals_are_of_the_rows_that_have_a_plan() -> None:
    figures = [*intervals.usable(results("seen")[0]), *intervals.usable(report.held())]
    today = intervals.cells(figures)
    stated = error._cells()
    assert stated.keys() == today.keys()
    for regime, cell in today.items():
        assert stated[regime]._replace(low=0, high=0) == cell._replace(low=0, high=0)
        ends = stated[regime].low, stated[regime].high
        assert ends == pytest.approx((cell.low, cell.high), abs=0.002), "write them again"


def test_a_rate_becomes_the_step_that_it_is_of() -> None:
    told = Planned(fields={}, assumed="", tokens=8192.0)
    found = compare.published(row(figures={"tokens/s per GPU": 512.0}), told)
    assert found["update"] == 4.0  # 8,192 tokens at 4 × 512 a second; a trainer's step
    beside = compare.published(row(figures={"tokens/s per GPU": 512.0, "step": 3.0}), told)
    assert beside["update"] == 3.0
    alone = replace(told, only=("rollout",))
    found = compare.published(row(method="GRPO", figures={"rollout": 5.0, "step": 9.0}), alone)
    assert found == {"rollout": 5.0}


def test_errors_are_signed_and_only_sure_figures_are_judged() -> None:
    assert FIGURE.error == pytest.approx(-0.2) and FIGURE.judged
    for changes in ({"confidence": "medium"}, {"exact": False}, {"lengths": False}):
        assert not figure(**changes).judged
    table = report.medians(
        [FIGURE, figure(predicted=13.0), figure(predicted=9.0), figure(predicted=90, exact=False)]
    )
    cells = [cell.strip() for cell in table.splitlines()[-1].split("|")[1:-1]]
    assert cells[2:7] == ["3", "20.0 %", "12%", "-10.0 %", "+30.0 %"]
    assert cells[7:] == ["4", "25.0 %", "+10.0 %"]


def test_order_of_alternatives() -> None:
    assert rank.spearman([1, 2, 3, 4], [10, 20, 30, 40]) == pytest.approx(1)
    assert rank.spearman([1, 2, 3], [3, 2, 1]) == pytest.approx(-1)
    # Kendall 1938: of six pairs one stands the other way round.
    assert rank.kendall([1, 2, 3, 4], [1, 3, 2, 4]) == pytest.approx(4 / 6)
    # Ranks 1, 2.5, 2.5 beside 1, 2, 3.
    assert rank.spearman([1, 5, 5], [1, 2, 3]) == pytest.approx(0.8660254)
    # By GPU-seconds a token: twice the seconds on one GPU for four times the tokens is cheaper.
    some = [
        figure(published=1.0, predicted=1.0, tokens=100.0, gpus=1),
        figure(published=2.0, predicted=2.0, tokens=400.0, gpus=1),
        figure(published=1.0, predicted=4.0, tokens=50.0, gpus=1),
    ]
    (found,) = rank.ranked(some)
    assert found.spearman == pytest.approx(1)
    assert not rank.ranked(some[:2])


def ratios(project: str, *values: float, **changes: Any) -> list[Figure]:
    return [figure(project=project, published=v, predicted=1.0, **changes) for v in values]


def test_intervals_are_those_of_the_widest_project() -> None:
    some = [*ratios("p/one", *[1.0] * 40), *ratios("p/two", 0.5, 0.5, 3.0, 3.0)]
    found = intervals.cells(some)
    cell = found[Regime("update", False, True, True)]
    assert (cell.low, cell.high, cell.rows, cell.projects) == (0.5, 3.0, 44, 2)
    # One project alone, or three rows, have none of their own.
    assert Regime("update", False, True, True) not in intervals.cells(some[:40])
    few = [*ratios("p/one", 1, 1), *ratios("p/two", 1)]
    assert Regime("update", False, True, True) not in intervals.cells(few)
    assert Regime(None) in intervals.cells(few)
    # Twenty more rows without tables draw the percentile in; what is around stays as wide.
    more = [*some, *ratios("p/two", *[1.0] * 20, tables=False)]
    wide = intervals.cells(more)
    assert wide[Regime("update", False, None, True)].high == 3.0
    assert wide[Regime("update", False, True, True)].high == 3.0
    # All took longer: the estimate itself is still in the interval.
    slow = intervals.cells([*ratios("p/one", 2, 3), *ratios("p/two", 2, 3)])[Regime(None)]
    assert slow.low == 1.0 and slow.high == pytest.approx(2.95)


def test_a_project_has_no_part_in_its_own_interval() -> None:
    alike = [*ratios("p/one", *[1.0] * 5), *ratios("p/two", *[1.0] * 5)]
    other = ratios("p/three", *[2.0] * 5)
    assert intervals.coverage([*alike, *other]) == (10, 15)
    assert intervals.covered(other, intervals.cells(alike)) == (0, 5)
    assert "10 of 15" in intervals.words([*alike, *other], [])
    assert "held-out figures, 0 of 5" in intervals.words(alike, other)


def test_few_rows_fall_back_and_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    cells = {
        Regime("update", False, None, True): Cell(0.9, 1.2, 12, 3),
        Regime("update", lengths=True): Cell(0.8, 1.4, 15, 3),
        Regime("update"): Cell(0.7, 1.5, 20, 4),
        Regime("step", False): Cell(0.6, 1.6, 8, 2),
        Regime(None): Cell(0.2, 4.0, 40, 6),
    }
    monkeypatch.setattr(error, "_cells", lambda: cells)
    asked = {"tables": True, "lengths": True}
    dense = factors(POLICY_BACKWARD.published or "step", mixture=False, **asked)
    assert (dense.low, dense.high, dense.rows) == (0.9, 1.2, 12)
    assert "12 published updates of dense models with lengths given of 3" in dense.words
    assert "Too few updates of dense models on cards with kernel tables" in dense.words
    assert factors("update", mixture=True, **asked).low == 0.8
    # Runs at their caps say nothing of a plan whose lengths are known.
    assert factors("step", mixture=False, **asked).low == 0.2
    capped = {"tables": True, "lengths": False}
    assert factors("update", mixture=True, **capped).low == 0.7
    assert factors("step", mixture=False, **capped).low == 0.6
    widest = factors("rollout", mixture=True, **asked)
    assert (widest.low, widest.high) == (0.2, 4.0)
    assert "phases of any kind" in widest.words
    with pytest.raises(ValueError, match="phase: 'load'"):
        factors("load", mixture=False, **asked)


def test_the_committed_intervals_answer_every_regime() -> None:
    for phase in error.KINDS:
        for of in range(8):
            found = factors(phase, mixture=bool(of & 1), tables=bool(of & 2), lengths=bool(of & 4))
            assert 0 < found.low <= found.high and found.rows


def test_a_published_mean_is_the_plan_s() -> None:
    for mean, cap in ((639.0, 1024), (13975.0, 27648), (1066.0, 3968)):
        text = runs.lengths(mean, cap)
        plan = Plan(prompt_tokens=64, response_tokens=cap, length_distribution=text)
        assert lengths_of(plan).mean == pytest.approx(mean, rel=0.01)


def test_serving_points_by_precision(tmp_path: Any) -> None:
    base = {
        "model_path": "Qwen/Qwen3-32B",
        "system": "h100_sxm",
        "backend": "vllm",
        "mode": "agg",
        "precision": "fp8",
        "isl": "1024",
        "osl": "512",
        "batch_size": "16",
        "tp_size": "2",
        "silicon_tpot_ms": "10",
    }
    points = [
        base,
        base | {"precision": "fp4"},
        base | {"precision": ""},
        base | {"batch_size": "256"},
        base | {"mode": "disagg"},
        base | {"model_path": "deepseek-ai/DeepSeek-R1"},
    ]
    text = io.StringIO()
    writer = csv.DictWriter(text, base)
    writer.writeheader()
    writer.writerows(points)
    wheel = tmp_path / "some.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr(serving.MEMBER, text.getvalue())
    found = {line["points"]: line for line in serving.summary(tuple(serving.scored(wheel)))}
    assert (found["precision stated"]["count"], found["precision stated"]["planned"]) == (2, 1)
    assert found["none stated, as bf16"]["count"] == 1
    assert found["batches above 128"]["count"] == 1
    # Half the bytes of every weight: fp8 is predicted faster than bf16.
    fp8, bf16 = found["fp8"], found["none stated, as bf16"]
    assert fp8["signed_median"] < bf16["signed_median"]
