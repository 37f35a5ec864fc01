"""What seconds mean: rates, utilization, GPU-hours and dollars, each with an interval."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest

from planner.cost import cost
from planner.estimate import estimate
from planner.footprint import Factors, Footprint
from planner.plan import Plan
from planner.plan.length_words import offered
from planner.plan.presets import presets
from planner.sweeps.table import sweep
from planner.throughput import Figure, answer_json, read_figure, throughput

PLAN = presets()["grpo-7b@1"].plan.changed(price_per_gpu_hour=2.0)
DOUBT = Factors(low=0.5, high=3.0, rows=9, words="0.50 to 3.00 times the estimate.")


def doubted(plan: Plan = PLAN, **changes: object) -> Footprint:
    """An estimate whose every phase, and the step, has one known interval."""
    found = estimate(plan.changed(**changes))
    phases = tuple(replace(one, doubt=one.doubt and DOUBT) for one in found.phases)
    return replace(found, phases=phases, doubt=DOUBT, step_seconds=40.0)


def figures(footprint: Footprint) -> dict[str, Figure]:
    return throughput(footprint, cost(footprint))


def test_a_rate_is_tokens_by_seconds_and_gpus_and_its_interval_is_upside_down() -> None:
    rate = figures(doubted())["tokens_per_second_per_gpu"]
    tokens = 64 * 8 * (512 + 2048)  # prompts, responses of each, tokens of both
    assert rate.value == pytest.approx(tokens / 40 / 8)
    assert (rate.low, rate.high) == pytest.approx((rate.value / 3, rate.value / 0.5))


def test_hours_and_dollars_are_as_uncertain_as_the_step() -> None:
    found = figures(doubted(steps=90))
    assert found["gpu_hours_per_step"].value == pytest.approx(40 * 8 / 3600)
    assert found["gpu_hours_run"].value == pytest.approx(8.0)
    usd = found["usd_run"]
    assert (usd.value, usd.low, usd.high) == pytest.approx((16.0, 8.0, 48.0))
    assert read_figure(usd) == "$16.00 ($8.00–$48.00)"
    paid = cost(doubted(steps=90))
    assert paid.usd_run == pytest.approx(usd.value) and paid.gpu_hours_run == pytest.approx(8.0)


def test_model_flops_are_six_a_parameter_and_token_and_attention() -> None:
    done = estimate(PLAN).done
    assert done is not None
    # Qwen2.5-7B: 7,615,616,512 parameters, of them an embedding of 152,064 × 3,584 that is read
    # and not multiplied; 28 layers of 28 heads of 128, each position seeing half of its row.
    tokens, row = 64 * 8 * 2560 / 8, 2560
    matrices = 6 * (7_615_616_512 - 152_064 * 3584) * tokens
    attention = (4 + 10) * 28 * 28 * 128 * tokens * row / 2
    scored = 6 * 152_064 * 3584 * tokens * 512 / 2560  # prompts meet no head
    assert done.model_flops == pytest.approx(matrices + attention - scored, rel=2e-3)


def test_recomputation_is_work_and_no_use() -> None:
    once, twice = (estimate(PLAN.changed(gradient_checkpointing=each)) for each in ("none", "full"))
    assert once.done and twice.done
    assert twice.done.model_flops == once.done.model_flops
    assert twice.done.performed_flops > 1.25 * once.done.performed_flops
    assert figures(doubted())["hfu"].value > figures(doubted())["mfu"].value


def test_frozen_weights_need_four_a_parameter() -> None:
    whole, adapters = estimate(PLAN).done, estimate(PLAN.changed(finetuning="lora")).done
    assert whole and adapters
    assert adapters.model_flops / whole.model_flops == pytest.approx(4 / 6, rel=0.05)


def test_padding_is_no_tokens_and_no_model_flops() -> None:
    shorter = PLAN.changed(length_distribution=offered(PLAN))
    full, short = estimate(PLAN).done, estimate(shorter).done
    packed = estimate(shorter.changed(batch_shape="packed", attention="flash")).done
    assert full and short and packed
    assert short.tokens < 0.8 * full.tokens
    assert short.model_flops < short.performed_flops / 1.3, "padding, and layers done again"
    assert packed.model_flops == pytest.approx(short.model_flops, rel=0.01)
    assert packed.performed_flops < short.performed_flops


def test_no_card_is_said_to_exceed_its_peak() -> None:
    mfu = figures(replace(doubted(), phases=estimate(PLAN).phases))["mfu"]
    assert mfu.low is not None and mfu.high is not None
    assert mfu.low <= mfu.value <= mfu.high <= 1


def test_nothing_is_said_of_a_plan_that_does_not_run() -> None:
    plan = PLAN.changed(response_tokens=65_536, micro_batch_size=64, prompts_per_update=64)
    found = estimate(plan)
    assert found.verdict.word == "out of memory" and found.step_seconds
    assert figures(found) == {}
    answer = answer_json(found)
    assert answer["throughput"] == {} and answer["cost"]["usd_run"] is None


def test_without_a_price_there_are_hours_and_no_dollars() -> None:
    free = replace(cost(doubted()), price_per_gpu_hour=None)
    found = throughput(doubted(), free)
    assert "gpu_hours_run" in found and "usd_run" not in found


def test_the_json_opens_each_figure() -> None:
    answer = json.loads(json.dumps(answer_json(doubted())))
    assert any(note.startswith("Every row is planned at full length") for note in answer["notes"])
    rate = answer["throughput"]["tokens_per_second_per_gpu"]
    assert rate["low"] < rate["value"] < rate["high"]
    assert eval(rate["formula"], {}, rate["inputs"]) == pytest.approx(rate["value"])
    assert rate["unit"] == "tokens per second" and rate["source"]


FIGURES = {
    *("tokens_per_second_per_gpu", "mfu", "hfu", "gpu_hours_per_step", "usd_per_step"),
    *("gpu_hours_run", "usd_run"),
}


def test_a_sweep_has_what_each_estimate_says() -> None:
    over = {"response_tokens": [1024, 65_536], "reference": ["none", "copy"]}
    table = sweep(PLAN, over, phase_seconds=True)
    assert len(table) == 4
    for _, row in table[table["valid"].astype(bool)].iterrows():
        found = estimate(
            PLAN.changed(response_tokens=int(row["response_tokens"]), reference=row["reference"])
        )
        said = throughput(found, cost(found))
        assert row["low_step_seconds"] == pytest.approx(found.low_seconds)
        assert row["high_step_seconds"] == pytest.approx(found.high_seconds)
        if row["verdict"] == "out of memory":
            assert row[["usd_run", "low_usd_run", "gpu_hours_run"]].isna().all()
            assert row[["usd_per_step", "gpu_hours_per_step"]].isna().all()
            continue
        assert set(said) == FIGURES
        for key, figure in said.items():
            ends = (row[f"low_{key}"], row[key], row[f"high_{key}"])
            assert ends == pytest.approx((figure.low, figure.value, figure.high))
    assert not {"low_mfu", "high_usd_per_step"} & set(sweep(PLAN, over))


def test_a_sweep_has_each_phases_seconds_where_they_are_asked_for() -> None:
    plan = PLAN.changed(save_steps=100)
    over = {"gpus": [8, 16], "reference": ["none", "copy"]}
    table = sweep(plan, over, phase_seconds=True)
    for _, row in table.iterrows():
        one = estimate(plan.changed(gpus=int(row["gpus"]), reference=row["reference"]))
        for phase in one.phases:
            seconds = row[f"seconds: {phase.name}"]
            if phase.seconds is None:
                assert math.isnan(seconds)
            else:
                assert seconds == pytest.approx(phase.seconds)
        assert row["seconds: checkpoint"] > 0 and math.isnan(row["seconds: load"])
    assert not any(name.startswith("seconds: ") for name in sweep(plan, over))


def test_a_reference_scored_elsewhere_is_paid_for_in_sweeps_too() -> None:
    pairs = Plan(method="dpo", reference="cached-logprobs", price_per_gpu_hour=2.0)
    sampled = PLAN.changed(kl="loss", reference="cached-logprobs")
    for plan in (pairs, sampled):
        found = estimate(plan)
        paid = cost(found)
        assert paid.usd_reference
        row = sweep(plan, {"steps": [plan.steps]}).iloc[0]
        assert row["usd_run"] == pytest.approx(paid.usd_run)
