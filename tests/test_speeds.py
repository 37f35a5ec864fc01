"""Measured shares in a link: the round trip, hostile text, and what they make of the times."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks_of_cards import H100
from planner.__main__ import main
from planner.advice import recommend
from planner.answer import to_json
from planner.catalog.efficiencies import efficiencies, typical
from planner.estimate import estimate
from planner.footprint import Footprint
from planner.plan import Plan
from planner.plan.factors import Factor, Factors
from planner.plan.facts import facts_of, holding, obstacle
from planner.plan.link import from_query, from_query_string
from planner.plan.presets import presets
from planner.plan.query import to_query, to_query_string
from planner.speeds import BOUNDS, SPEED_KEYS, Speed, Speeds, speeds_from_text, speeds_to_text
from planner.sweeps.table import sweep
from planner.trial.evidence.correction import apply

ALONE = Plan(
    model="Qwen/Qwen2.5-1.5B", method="sft", gpu="h100-80gb", gpus=1, sharding="none",
    rollout="none", kl="none", reference="none",
)  # fmt: skip
"""One card: nothing is waited for but its own work."""


def _speed(draw: st.DrawFn, key: str) -> Speed:
    low, high = BOUNDS[key]  # type: ignore[index]
    values = st.integers(int(low * 10**9), int(high * 10**9))
    found = sorted(draw(st.tuples(values, values, values)))
    return Speed(key, *(value / 10**9 for value in found))  # type: ignore[arg-type]


@st.composite
def benchmarks(draw: st.DrawFn) -> Speeds:
    keys = draw(st.lists(st.sampled_from(SPEED_KEYS), min_size=1, unique=True))
    return Speeds(
        gpu=draw(st.sampled_from(("h100-80gb", "rtx-4090"))),
        torch=draw(st.sampled_from(("2.13.0", "2.13.0+cu130"))),
        driver=draw(st.sampled_from(("", "580.95.05"))),
        date="2026-11-22",
        speeds=tuple(_speed(draw, key) for key in keys),
    )


@settings(deadline=None, max_examples=100)
@given(benchmarks())
def test_a_link_carries_a_benchmark_beside_the_plan(speeds: Speeds) -> None:
    assert speeds_from_text(speeds_to_text(speeds)) == speeds
    plan = Plan()
    for short in (False, True):
        link = to_query_string(plan, short=short, benchmark=speeds)
        reading = from_query_string("https://headroom.example/?" + link)
        assert (reading.plan, reading.benchmark) == (plan, speeds)
        assert (reading.problems, reading.unknown) == ((), ())


def test_a_link_without_a_benchmark_is_as_it_was() -> None:
    assert "benchmark" not in to_query(Plan())
    assert from_query({"preset": "grpo-7b@1"}).benchmark is None
    assert from_query({"preset": "grpo-7b@1", "benchmark": ""}).problems == ()


HEAD = "1~h100-80gb~2.13.0~580.1~2026-11-22"
GOOD = HEAD + "_training-compute~0.2~0.3~0.4"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("x", "does not begin"),
        (HEAD, "holds no value"),
        ("2" + GOOD[1:], "does not begin"),
        (GOOD.replace("h100-80gb", "<script>"), "the card"),
        (GOOD.replace("2.13.0", "2.13.0\x1b[2J"), "the version of torch"),
        (GOOD.replace("2.13.0", ""), "the version of torch"),
        (GOOD.replace("580.1", "５80"), "the driver"),
        (GOOD.replace("2026-11-22", "yesterday"), "the day"),
        (GOOD.replace("training-compute", "link-bandwidth"), "none of"),
        (GOOD.replace("training-compute", "x" * 100), "none of"),
        (GOOD.replace("0.2~", ""), "low~typical~high"),
        (GOOD.replace("0.4", "0.4~0.5"), "low~typical~high"),
        (GOOD.replace("0.3", "0.5"), "out of order"),
        (GOOD.replace("0.2", "0.009"), "outside 0.01 to 1.2"),
        (GOOD.replace("0.4", "1.3"), "outside 0.01 to 1.2"),
        (GOOD.replace("0.3", "nan"), "a value of"),
        (GOOD.replace("0.3", "inf"), "a value of"),
        (GOOD.replace("0.3", "3e-1"), "a value of"),
        (GOOD.replace("0.3", "-0.3"), "a value of"),
        (GOOD.replace("0.3", "0." + "3" * 40), "a value of"),
        (GOOD.replace("0.3", "0.3\n"), "a value of"),
        (GOOD + "_training-compute~0.2~0.3~0.4", "twice"),
        (GOOD + "_", "none of"),
        (GOOD + "_" * 3000, "more than 2000"),
    ],
)
def test_a_hostile_benchmark_is_refused_and_the_plan_stands(text: str, says: str) -> None:
    reading = from_query({"preset": "grpo-7b@1", "benchmark": text})
    assert reading.plan is not None and reading.benchmark is None
    [problem] = reading.problems
    assert problem.field == "benchmark"
    assert says in problem.message and problem.message.startswith("benchmark ")
    assert problem.sentence.isprintable() and len(problem.sentence) < 400
    assert from_query({"preset": "grpo-7b@1", "benchmark": GOOD}).problems == ()


@settings(deadline=None, max_examples=200)
@given(st.text(alphabet="1~_ h0-28.3training-compute+é\x00", max_size=60))
def test_no_text_breaks_the_reader(text: str) -> None:
    assert from_query({"preset": "grpo-7b@1", "benchmark": text}).plan is not None


def seconds(footprint: Footprint) -> dict[str, float]:
    return {one.name: one.seconds for one in footprint.phases if one.seconds is not None}


def test_times_move_by_the_quotient_of_the_shares_and_memory_stays() -> None:
    before, after = estimate(ALONE), estimate(ALONE, H100)
    half = replace(
        H100, speeds=tuple(replace(one, low=0.1, typical=0.15) for one in H100.speeds[:1])
    )
    slower = seconds(estimate(ALONE, half))
    # A measured share of whole layers stands alone, in place of kernels' shares.
    assert slower["policy forward"] == pytest.approx(2 * seconds(after)["policy forward"])
    assert slower["policy backward"] == pytest.approx(2 * seconds(after)["policy backward"])
    # Published: 0.77 of the bandwidth.
    quotient = seconds(after)["optimizer step"] / seconds(before)["optimizer step"]
    assert quotient == pytest.approx(0.77 / 0.50)
    assert after.step_seconds is not None and before.step_seconds is not None
    assert after.step_seconds != before.step_seconds
    assert [one.terms for one in after.phases] == [one.terms for one in before.phases]


def test_decoding_waits_for_the_launches_that_were_measured() -> None:
    plan = ALONE.changed(
        method="grpo", rollout="hf", responses_per_prompt=2, prompts_per_step=1,
        prompts_per_update=1, response_tokens=500,
    )  # fmt: skip
    launches = replace(H100, speeds=H100.speeds[-1:])
    before, after = (seconds(estimate(plan, given))["rollout"] for given in (None, launches))
    # 500 tokens of 28 layers, at 0.44 ms for forty kernels in place of 0.88, beyond what the card
    # needs; autocast casts seven weights, three biases, the inputs of five projections, and queries
    # and keys back, and each of two norms needs no cast to fp32 and back.
    assert before - after == pytest.approx(500 * 28 * 0.44e-3 * (40 + 7 + 3 + 5 + 2 - 4) / 40)


def test_an_estimate_says_what_its_times_rest_on() -> None:
    published, measured = estimate(ALONE), estimate(ALONE, H100)
    assert "published runs" in published.seconds_source
    assert "training-compute" in measured.seconds_source
    for part in ("h100-80gb", "torch 2.13.0+cu130", "driver 580.95.05", "2026-11-22"):
        assert part in measured.seconds_source
        assert any(part in note for note in measured.notes)
        assert part in to_json(measured)["seconds_from"]
    assert published.speeds is None and measured.speeds == H100


def test_the_bounds_of_a_measured_share_are_those_of_the_measured_shapes() -> None:
    shares = efficiencies()["training-compute"]
    assert shares.spread(facts_of(ALONE, H100).gpu) == pytest.approx((0.3 / 0.4, 0.3 / 0.2))
    assert shares.spread(facts_of(ALONE).gpu) != shares.spread(facts_of(ALONE, H100).gpu)


@pytest.mark.parametrize(
    ("change", "field"),
    [({"gpu": "a100-80gb"}, "gpu"), ({"torch": "2.12.1+cu130"}, "torch_version")],
)
def test_a_benchmark_of_something_else_is_refused(change: dict[str, str], field: str) -> None:
    other = replace(H100, **change)  # type: ignore[arg-type]
    assert obstacle(other, ALONE).startswith(f"{field}: ")
    assert holding(other, ALONE) is None and holding(H100, ALONE) == H100
    for refused in (lambda: estimate(ALONE, other), lambda: sweep(ALONE, {"gpus": [1]}, other)):
        with pytest.raises(ValueError, match=f"^{field}: "):
            refused()


def test_a_sweep_has_the_times_of_the_estimates_and_other_cards_keep_theirs() -> None:
    table = sweep(ALONE, {"gpu": ["h100-80gb", "a100-80gb"], "response_tokens": [512, 1024]}, H100)
    for _, row in table.iterrows():
        plan = ALONE.changed(gpu=row["gpu"], response_tokens=row["response_tokens"])
        wanted = estimate(plan, holding(H100, plan)).step_seconds
        assert row["step_seconds"] == pytest.approx(wanted, rel=1e-12)
    assert typical("training-compute", facts_of(ALONE.changed(gpu="a100-80gb"), H100).gpu) == 0.63


def test_recommendations_compare_times_of_one_kind() -> None:
    plan = presets()["grpo-7b@1"].plan
    benchmark = replace(H100, gpu=plan.gpu)
    before = estimate(plan, benchmark)
    assert before.step_seconds is not None
    for one in recommend(before):
        again = estimate(plan.changed(**one.changes), benchmark).step_seconds
        assert again is not None and one.step_seconds == pytest.approx(again)


def test_the_command_line_honours_the_link(capsys: pytest.CaptureFixture[str]) -> None:
    link = to_query_string(ALONE, benchmark=H100)
    assert main(["estimate", link, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["seconds"] == pytest.approx(estimate(ALONE, H100).step_seconds)
    assert "580.95.05" in answer["seconds_from"]
    assert main(["estimate", link]) == 0
    assert "Times rest on" in capsys.readouterr().out
    assert main(["sweep", link, "--over", "response_tokens=512,1024", "--csv"]) == 0
    said = capsys.readouterr()
    wanted = estimate(ALONE.changed(response_tokens=512), H100).step_seconds
    head, first = (line.split(",") for line in said.out.splitlines()[:2])
    assert float(first[head.index("step_seconds")]) == pytest.approx(wanted)
    assert main(["launch", link, "--framework", "trl"]) in (0, 2)
    assert "benchmark applies to estimates only" in capsys.readouterr().err
    assert main(["estimate", to_query_string(ALONE.changed(gpu="a100-80gb"), benchmark=H100)]) == 2
    assert capsys.readouterr().err.startswith("gpu: ")


def test_a_calibrations_seconds_are_not_counted_on_top_of_a_benchmark() -> None:
    factors = Factors(
        gpu="h100-80gb",
        method="sft",
        torch="2.13.0+cu130",
        transformers="5.23.0",
        factors=(
            Factor("estimate", "policy backward", "requested", 1.1, 2),
            Factor("estimate", "policy backward", "seconds", 1.5, 2),
        ),
    )
    for speeds, factor in ((None, 1.5), (H100, 1.0)):
        before = estimate(ALONE, speeds)
        done = apply(factors, before)
        name = "policy backward"
        assert seconds(done.footprint)[name] == pytest.approx(factor * seconds(before)[name])
        assert any("rest on the benchmark" in one for one in done.notes) == (speeds is not None)
        sizes = [
            next(one.requested_bytes for one in found.phases if one.name == name)
            for found in (before, done.footprint)
        ]
        assert sizes[1] == round(1.1 * sizes[0])
