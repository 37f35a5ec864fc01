"""What a cached reference costs: its pass, its files and what a step waits for, by hand.

One step of four pairs, or of four responses, of 512 prompt and 512 response tokens through
Qwen2.5-0.5B; sizes as in ``test_work.py``.
"""

from __future__ import annotations

import datetime as dt
import json
from typing import Any

import pytest

from planner.__main__ import main
from planner.answer import to_json
from planner.cost import cost, reference_words
from planner.estimate import estimate, phase_plans
from planner.footprint import Footprint
from planner.phases.scene import scene_of
from planner.plan import Plan
from planner.plan.facts import facts_of
from planner.plan.methods import methods
from planner.sweeps.table import sweep
from planner.trial.ask.footprints import figures_of
from planner.trial.run.cadence import trial_flops

RESPONSE, HIDDEN, STEPS = 512, 896, 100
PARAMETERS = 494_032_768
ACTIVATIONS = {"reference": "cached-activations"}
LOG_PROBS = {"reference": "cached-logprobs"}


def pairs(**changes: Any) -> Plan:
    return plan(method="dpo", responses_per_prompt=1, rollout="none", **changes)


def plan(**changes: Any) -> Plan:
    usual: dict[str, Any] = {
        "model": "Qwen/Qwen2.5-0.5B", "method": "grpo", "rollout": "hf", "gpus": 1,
        "sharding": "none", "prompts_per_step": 4, "prompts_per_update": 4,
        "responses_per_prompt": 2, "prompt_tokens": 512, "response_tokens": RESPONSE,
        "steps": STEPS, "price_per_gpu_hour": 3.6,
    }  # fmt: skip
    return Plan(**{**usual, **changes})


def seconds(footprint: Footprint, name: str) -> float:
    (phase,) = [phase for phase in footprint.phases if phase.name == name]
    assert phase.seconds is not None
    return phase.seconds


def test_given_pairs_are_scored_once_before_the_run_and_wait_on_a_disk() -> None:
    scored = seconds(estimate(pairs(reference="copy")), "reference log-probs")
    sums, states = estimate(pairs(**LOG_PROBS)), estimate(pairs(**ACTIVATIONS))
    for found, step_bytes in (
        # A loss over pairs needs one sum of each response; eight of them a step.
        (sums, 8 * 4),
        (states, 8 * RESPONSE * HIDDEN * 2),
    ):
        cache = found.reference_cache
        assert cache is not None and not cache.each_step
        assert cache.responses == STEPS * 8
        assert (cache.step_bytes, cache.disk_bytes) == (step_bytes, STEPS * step_bytes)
        # An assumed disk of 1,000 MiB/s, the most that a gp3 volume is sold with.
        assert cache.read_seconds == pytest.approx(step_bytes / 1_048_576_000)
        assert "reference log-probs" not in [phase.name for phase in found.phases]
    assert sums.reference_cache and sums.reference_cache.seconds == pytest.approx(STEPS * scored)
    # The model is so small that launching decides, head or not: 4 forwards of pairs, 24 layers.
    assert states.reference_cache
    assert states.reference_cache.seconds == pytest.approx(STEPS * 4 * 24 * 0.88e-3)


def test_a_step_waits_for_the_disk_that_its_node_shares() -> None:
    spread = {"prompts_per_step": 32, "prompts_per_update": 32, "sharding": "fsdp2"}
    for gpus, node, of_node in ((1, 8, 1), (8, 8, 8), (16, 8, 8), (16, 4, 4)):
        asked = pairs(**{**spread, **ACTIVATIONS, "gpus": gpus, "gpus_per_node": node})
        found = estimate(asked)
        (forward,) = [one for one in found.phases if one.name == "policy forward"]
        assert forward.times is not None
        (read,) = [one for one in forward.times if "read from the disk" in one.name]
        mine = 32 // gpus * 2 * RESPONSE * HIDDEN * 2
        assert read.seconds == pytest.approx(of_node * mine / 1_048_576_000)
        assert found.reference_cache and found.reference_cache.read_seconds == read.seconds
        assert found.step_seconds and found.step_seconds > read.seconds
    sampled = estimate(plan(**ACTIVATIONS))
    assert sampled.reference_cache and sampled.reference_cache.read_seconds is None
    times = [term.name for phase in sampled.phases for term in phase.times or ()]
    assert not [name for name in times if "disk" in name], "new responses wait on no disk"


def test_the_pass_before_the_run_is_in_its_hours_and_its_price() -> None:
    found = estimate(pairs(**LOG_PROBS))
    assert found.reference_cache and found.reference_cache.seconds and found.step_seconds
    money = cost(found, today=dt.date(2026, 11, 22))
    before = found.reference_cache.seconds / 1000  # 3.6 dollars an hour
    assert money.usd_reference == pytest.approx(before)
    assert money.usd_run == pytest.approx(STEPS * found.step_seconds / 1000 + before)
    assert money.usd_per_step == pytest.approx(found.step_seconds / 1000)
    assert money.hours_run == pytest.approx(
        (STEPS * found.step_seconds + found.reference_cache.seconds) / 3600
    )
    words = reference_words(found, money)
    assert "up to 800 responses" in words and "of them in under a millisecond" in words
    states = estimate(pairs(**ACTIVATIONS))
    # 7 MiB at 1,000 MiB/s; at 125 MiB/s, and at the 7 GB/s of a local drive.
    assert "each step reads 7 MiB of them in 7.00 ms (1.05–56.0); the disk" in reference_words(
        states, cost(states)
    )
    known = estimate(pairs(**ACTIVATIONS, disk_bytes_per_second=2**29))
    assert "each step reads 7 MiB of them in 13.7 ms." in reference_words(known, cost(known))
    plain = estimate(pairs(reference="copy"))
    assert cost(plain).usd_reference == 0 and reference_words(plain, cost(plain)) == ""


SAMPLING = [name for name, one in methods().items() if one.generates and one.engines]


@pytest.mark.parametrize("method", SAMPLING)
def test_sampled_responses_are_scored_in_every_step_by_other_gpus(method: str) -> None:
    asked = plan(method=method)
    copied, found = estimate(asked.changed(reference="copy")), estimate(asked.changed(**LOG_PROBS))
    scored = seconds(copied, "reference log-probs")
    assert seconds(found, "reference log-probs") == pytest.approx(scored)
    assert found.step_seconds == pytest.approx(copied.step_seconds)
    cache = found.reference_cache
    assert cache is not None and cache.each_step
    assert (cache.responses, cache.seconds) == (8, pytest.approx(scored))
    assert (cache.disk_bytes, cache.step_bytes) == (0, 8 * RESPONSE * 4)
    assert cache.weight_bytes == 2 * PARAMETERS
    assert any("Responses are new in each step" in warning for warning in found.warnings)
    money = cost(found)
    elsewhere = STEPS * scored / 1000
    assert money.usd_reference == pytest.approx(elsewhere)
    assert found.step_seconds
    assert money.usd_run == pytest.approx(STEPS * found.step_seconds / 1000 + elsewhere)
    assert money.usd_run and money.usd_per_step == pytest.approx(money.usd_run / STEPS)


def test_waiting_takes_no_memory_of_its_own() -> None:
    found = estimate(plan(**LOG_PROBS, empty_cache="between-phases"))
    (waits,) = [phase for phase in found.phases if phase.name == "reference log-probs"]
    (before,) = [phase for phase in found.phases if phase.name == "old log-probs"]
    assert not waits.executed and waits.device_bytes < before.device_bytes
    assert not [term for term in waits.terms if term.role == "reference"]
    # The policy's log-probs of eight sequences wait here too.
    assert sum(term.bytes for term in waits.terms if "log-probs" in term.name) == 8 * 512 * 4


def test_hidden_states_are_scored_without_the_head_and_copied_to_the_gpu() -> None:
    asked = plan(**ACTIVATIONS)
    rows = {one.name: one.work for one in phase_plans(scene_of(asked, facts_of(asked)))}
    (other,) = rows["reference log-probs"]
    assert (other.scored_tokens, other.elsewhere) == (0, True)
    head = rows["policy forward"][1]
    assert head.host_bytes == 8 * RESPONSE * HIDDEN * 2
    cache = estimate(asked).reference_cache
    # PCIe 5 x16: 63 GB/s in one direction, of which efficiencies.json takes 0.8 as typical.
    assert cache and cache.copy_seconds == pytest.approx(head.host_bytes / (63e9 * 0.8))


def test_a_card_of_unknown_slot_has_no_time_to_copy() -> None:
    unknown = estimate(plan(**ACTIVATIONS, gpu="custom", gpu_bytes=80 * 2**30))
    assert unknown.reference_cache and unknown.reference_cache.copy_seconds is None
    assert unknown.reference_cache.seconds is None and cost(unknown).usd_reference is None


def test_answers_carry_it_and_trials_do_not_run_it() -> None:
    found = estimate(plan(**LOG_PROBS))
    answer = json.loads(json.dumps(to_json(found)))
    assert answer["reference_cache"]["each_step"] is True
    assert answer["reference_cache"]["read_seconds"] is None
    figures = figures_of(found).reference_cache
    assert figures and figures.responses == 8
    assert to_json(estimate(plan(reference="copy")))["reference_cache"] is None
    apart = plan(reference="none", kl="none")
    assert trial_flops(plan(**LOG_PROBS), 2) == trial_flops(apart, 2)


def test_the_command_line_says_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["estimate", "method=dpo&reference=cached-logprobs&v=2"]) == 0
    assert "Before the run the reference scores up to 64,000 responses" in capsys.readouterr().out


def test_a_sweep_has_the_same_seconds() -> None:
    for asked in (plan(**LOG_PROBS), plan(**ACTIVATIONS), pairs(**ACTIVATIONS)):
        row = sweep(asked, {"response_tokens": [512, 1024]})
        for place, tokens in enumerate((512, 1024)):
            one = estimate(asked.changed(response_tokens=tokens))
            assert row["step_seconds"][place] == pytest.approx(one.step_seconds)
            assert row["device_bytes"][place] == one.device_bytes
