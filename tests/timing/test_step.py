"""A step's seconds where an engine on GPUs of its own waits, runs a batch ahead, or never stops."""

from __future__ import annotations

import json

import pytest

from planner import Plan
from planner.answer import to_json
from planner.estimate import estimate
from planner.sweeps.table import sweep
from planner.timing.step import Spent, step_seconds
from planner.values.step_phases import LOAD, POLICY_BACKWARD, POLICY_FORWARD, ROLLOUT, WEIGHT_SYNC

PHASES = (
    Spent(ROLLOUT, "rollout", 30.0, 12.0),
    Spent(POLICY_FORWARD, "trainer", 5.0),
    Spent(POLICY_BACKWARD, "trainer", 20.0),
    Spent(WEIGHT_SYNC, "trainer", 2.0),
)


def test_by_hand() -> None:
    assert step_seconds("synchronous", PHASES) == 57
    assert step_seconds("one-step-off", PHASES) == 32
    # Without the twelve seconds in which places are empty the trainer is the slower side.
    assert step_seconds("asynchronous", PHASES) == 27
    assert step_seconds("asynchronous", (*PHASES, Spent(LOAD, "trainer", None))) is None


SEPARATE = Plan(
    gpus=8,
    rollout="vllm-separate",
    rollout_gpus=4,
    length_distribution="1~lognormal_700~500",
    prompts_per_step=128,
)


@pytest.mark.parametrize("overlap", ["synchronous", "one-step-off", "asynchronous"])
def test_an_estimate_and_a_sweep_agree(overlap: str) -> None:
    plan = SEPARATE.changed(rollout_overlap=overlap)
    table = sweep(plan, {"rollout_gpus": [1, 2, 4], "response_tokens": [512, 2048]})
    for _, row in table.iterrows():
        values = {name: int(row[name]) for name in ("rollout_gpus", "response_tokens")}
        if row["valid"]:
            one = estimate(plan.changed(**values))
            assert row["step_seconds"] == pytest.approx(one.step_seconds, rel=1e-9)
    assert table["valid"].any()


def test_overlap_never_slows_a_step() -> None:
    found = [
        estimate(SEPARATE.changed(rollout_overlap=overlap, response_tokens=4096, model=model))
        for model in ("Qwen/Qwen2.5-0.5B", "Qwen/Qwen2.5-7B")
        for overlap in ("asynchronous", "one-step-off", "synchronous")
    ]
    seconds = [one.step_seconds for one in found]
    assert seconds[0] <= seconds[1] < seconds[2] and seconds[3] <= seconds[4] < seconds[5]


def test_an_asynchronous_engine_waits_for_no_last_reward() -> None:
    """Only for rewards that are made slower than responses: those of a step, then, are its time."""
    of_verl = {"framework": "verl", "framework_version": "0.9.1", "reference": "offloaded"}
    plan = SEPARATE.changed(
        **of_verl, gpus=9, rollout_gpus=1, gpus_per_node=9, max_num_seqs=32,
        rollout_overlap="one-step-off",
    )

    def step(**fields: object) -> float:
        return estimate(plan.changed(**fields)).step_seconds or 0.0

    def weights() -> float:
        phases = estimate(plan).phases
        return sum(phase.seconds or 0.0 for phase in phases if phase.kind.stops_both)

    late = {"reward_seconds": 9.0, "reward_concurrency": 1024}
    assert step(**late) - step() == pytest.approx(9.0)  # the engine is the slower side
    free = step(rollout_overlap="asynchronous")
    assert step(**late, rollout_overlap="asynchronous") == pytest.approx(free)
    # 128 prompts with 8 responses of a minute each, eight at a time: 7,680 s, and prefill.
    slow = {"reward_seconds": 60.0, "reward_concurrency": 8, "rollout_overlap": "asynchronous"}
    rollout = next(phase for phase in estimate(plan).phases if phase.rank == "rollout")
    prefill = sum(float(term.seconds) for term in rollout.times if "prefill" in term.name)
    assert step(**slow) == pytest.approx(1024 * 60 / 8 + prefill + weights(), rel=1e-3)
    table = sweep(plan.changed(**slow), {"response_tokens": [plan.response_tokens]})
    assert table["step_seconds"].iloc[0] == pytest.approx(step(**slow))


def test_a_note_says_which_side_waits() -> None:
    def note(**fields: object) -> str:
        return estimate(SEPARATE.changed(**fields)).notes[-1]

    assert note().startswith("With 4 rollout GPUs to 4 that train (1 to 1) the engine takes")
    assert "one after the other" in note()
    off = note(rollout_overlap="one-step-off", rollout_gpus=4)
    assert "the engine waits" in off and "rollout GPUs of 8 would leave neither the trainer" in off
    assert not any("rollout GPUs" in one for one in estimate(Plan()).notes)


def test_an_answer_is_plain_json() -> None:
    answer = to_json(estimate(SEPARATE))
    assert json.loads(json.dumps(answer))["seconds"] == answer["seconds"]
