"""A rollout's stretches against responses that are drawn and scheduled one by one."""

from __future__ import annotations

import heapq
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner import Plan
from planner.estimate import estimate, phase_plans
from planner.phases.scene import scene_of
from planner.plan.facts import facts_of
from planner.plan.lengths import lengths_of
from planner.sweeps.table import sweep
from planner.timing import engine, rollout
from planner.timing.engine_step import Generator

SPREAD = "1~lognormal_700~500"


def lengths(text: str, cap: int = 4096):
    return lengths_of(Plan(length_distribution=text, response_tokens=cap))


def tokens(found: tuple[rollout.Stretch, ...]) -> float:
    return sum(np.sum(one.sequences * one.steps) for one in found)


def steps(found: tuple[rollout.Stretch, ...]) -> float:
    return sum(np.sum(one.steps) for one in found)


def test_two_lengths_by_hand() -> None:
    """Half end after 100 tokens, half after 300; the second stretch is run 15 times of 16."""
    two = lengths("1~hist_100~1_300~1")
    found = rollout.stretches(two, 50, 4, 4, 1)
    assert steps(found) == pytest.approx(100 + 200 * (1 - 0.5**4))
    assert tokens(found) == pytest.approx(4 * 200)
    contexts = np.ravel(found[-1].context_tokens)
    assert contexts.tolist() == [50 + 50.5, 50 + 200.5]
    # Eight engines are waited for: one of 32 responses is nearly always long.
    assert steps(rollout.stretches(two, 50, 4, 4, 8)) == pytest.approx(300, rel=1e-6)


def test_equal_lengths_run_in_waves() -> None:
    point = lengths("", cap=512)
    found = rollout.stretches(point, 100, 600, 256, 8)
    assert [(one.sequences, one.steps) for one in found] == [(256, 1024), (88, 512)]
    assert [one.context_tokens for one in found] == [100 + 256.5] * 2
    assert len(rollout.stretches(point, 100, 512, 256, 8)) == 1


def scheduled(drawn: np.ndarray, places: int) -> int:
    """Steps until all are done where a place is filled as soon as it is free."""
    free = [0] * places
    for length in drawn.tolist():
        heapq.heapreplace(free, free[0] + length)
    return max(free)


@pytest.mark.parametrize(("sequences", "places"), [(128, 128), (128, 64), (1024, 128), (600, 256)])
@pytest.mark.parametrize("text", [SPREAD, "1~uniform_200~2000", "1~lognormal_1500~3000"])
def test_refilling_places_takes_the_steps_that_a_scheduler_takes(
    text: str, sequences: int, places: int
) -> None:
    given_lengths = lengths(text)
    random = np.random.default_rng(0)
    sizes = [one.tokens for one in given_lengths.bins]
    shares = [one.share for one in given_lengths.bins]
    drawn = random.choice(sizes, p=np.array(shares) / sum(shares), size=(200, sequences))
    real = np.mean([scheduled(one, places) for one in drawn])
    found = rollout.stretches(given_lengths, 100, sequences, min(sequences, places), 1)
    assert tokens(found) == pytest.approx(sequences * given_lengths.mean, rel=0.01)
    # Places filled again are a little out of step, which a fresh drain leaves out.
    assert steps(found) == pytest.approx(real, rel=0.1)


def test_a_group_computes_and_keeps_its_prompt_once() -> None:
    # 96 of 100 tokens fill blocks of 16.
    assert rollout.shared_tokens(100, 8) == 96 and rollout.shared_tokens(100, 1) == 0
    assert rollout.shared_tokens(96, 8) == 80
    assert rollout.prefilled_tokens(64, 100, 8) == 64 * 4 + 8 * 96
    assert rollout.prefilled_tokens(64, 100, 1) == 6400
    kept = rollout.held(lengths("", cap=201), 100, 8)
    assert kept == (4 + 12, 4 + 12 + 101)


def test_the_cache_decides_how_many_run() -> None:
    assert rollout.running(600, 256, 100_000, 1000) == 100
    assert rollout.running(600, 256, 10**9, 1000) == 256
    assert rollout.running(20, 256, None, 1000) == 20
    assert rollout.running(20, 256, 500, 1000) == 1


def terms(plan: Plan, **changes: object) -> dict[str, float]:
    scene = scene_of(plan, facts_of(plan))
    [row] = next(one for one in phase_plans(scene) if one.name == "rollout").work
    found = engine.decoding(scene, replace(row, **changes))
    assert found is not None
    return {one.name: one.seconds for one in found}


def total(plan: Plan, **changes: object) -> float:
    return sum(terms(plan, **changes).values())


BASE = Plan(model="Qwen/Qwen2.5-1.5B", gpus=8, prompts_per_step=128, response_tokens=4096)
SPREAD_OUT = BASE.changed(length_distribution=SPREAD)


def test_terms_are_what_a_rollout_of_equal_lengths_takes() -> None:
    found = terms(BASE)
    arch, card = facts_of(BASE).policy, facts_of(BASE).gpu
    generator = Generator(arch=arch, gpu=card, dtype="bf16")
    each = generator.step(128, BASE.prompt_tokens + 4097 / 2)
    prompts = {"prefill", "prefill attention"}
    decoding = sum(seconds for name, seconds in found.items() if name not in prompts)
    assert decoding == pytest.approx(4096 * each)
    # 16 prompts of 512 tokens for 128 responses, and 16 tokens of each in no shared block.
    passed, _ = generator.prefill(8192)
    assert found["prefill"] == pytest.approx((16 * 496 + 128 * 16) / 8192 * passed)


def test_lengths_below_the_cap_take_less_and_wait_for_the_longest() -> None:
    capped, spread = terms(BASE), terms(SPREAD_OUT)
    assert sum(spread.values()) < 0.8 * sum(capped.values())
    assert "waiting for the longest" not in capped
    mean = lengths_of(SPREAD_OUT).mean
    assert spread["decode GEMMs"] == pytest.approx(
        capped["decode GEMMs"] * mean / 4096
    )
    # Two to six times as many steps as the mean response has.
    assert spread["waiting for the longest"] > spread["decode GEMMs"]


def test_a_full_cache_runs_fewer_and_computes_them_again() -> None:
    short = terms(SPREAD_OUT, cache_tokens=20_000)
    assert short["recomputation of preempted sequences"] > 0
    assert "recomputation of preempted sequences" not in terms(SPREAD_OUT, cache_tokens=10**9)


@given(st.integers(5_000, 400_000), st.floats(1.01, 3))
@settings(max_examples=25, deadline=None)
def test_a_larger_cache_is_never_slower(size: int, more: float) -> None:
    less = total(SPREAD_OUT, cache_tokens=size)
    assert total(SPREAD_OUT, cache_tokens=int(size * more)) <= less * (1 + 1e-3)


@given(st.integers(800, 8192), st.integers(1, 4000))
@settings(max_examples=25, deadline=None)
def test_a_shorter_tail_is_never_slower(cap: int, more: int) -> None:
    """The same responses, cut earlier."""
    short, long = (lengths(SPREAD, size) for size in (cap, cap + more))
    assert total(SPREAD_OUT, lengths=short) <= total(SPREAD_OUT, lengths=long) * (1 + 1e-9)


def test_without_graphs_a_rollout_is_never_faster() -> None:
    for one in (BASE, SPREAD_OUT):
        assert total(one, eager=True) > total(one)


def test_transformers_computes_every_row_until_the_longest_ends() -> None:
    sizes = {"gpus": 1, "prompts_per_step": 2, "prompts_per_update": 2, "sharding": "none"}
    plan = SPREAD_OUT.changed(rollout="hf", micro_batch_size=1, **sizes)
    found = terms(plan)
    longest = lengths_of(plan).longest_of(16)
    # 28 layers at 0.88 ms for forty kernels, once for the prompts and once for every other token;
    # autocast casts seven weights, three biases, the inputs of five projections, and queries and
    # keys back, and each of two norms needs no cast to fp32 and back.
    each = 28 * 0.88e-3 * (40 + 7 + 3 + 5 + 2 - 4) / 40
    assert sum(found.values()) == pytest.approx(longest * each, rel=2e-3)


SLOWLY_SCORED = {
    "framework": "verl",
    "framework_version": "0.9.1",
    "reference": "offloaded",
    "reward_seconds": 0.2,
    "reward_concurrency": 4,
}
MESH = {
    "response_tokens": [700, 2048],
    "max_num_seqs": [16, 256],
    "prompts_per_step": [64, 128],
    "gpus": [8, 16],
}


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"length_distribution": SPREAD},
        {"length_distribution": "1~uniform_1~900", "enforce_eager": True},
        {"length_distribution": "1~hist_5~3_400~2_900~1", "rollout_tensor_parallel": 2},
        {"model": "Qwen/Qwen3-30B-A3B", "gpu": "h200-141gb", "kv_cache_dtype": "fp8"},
        {"length_distribution": SPREAD, "gpu_memory_utilization": 0.12},
        {"length_distribution": SPREAD, "async_scheduling": False},
        {**SLOWLY_SCORED, "length_distribution": SPREAD},
        SLOWLY_SCORED,
    ],
)
def test_a_sweep_has_what_each_estimate_has(changes: dict[str, object]) -> None:
    plan = BASE.changed(**changes)
    table = sweep(plan, MESH)
    for place in range(0, len(table), 3):
        row = table.iloc[place]
        values = {name: int(row[name]) for name in MESH}
        one = estimate(plan.changed(**values, prompts_per_update=values["prompts_per_step"]))
        assert row["step_seconds"] == pytest.approx(one.step_seconds, rel=1e-9)


def test_rewards_are_waited_for_and_resampling_generates_more() -> None:
    slow = BASE.changed(reward_seconds=0.5, reward_concurrency=64)
    # 128 prompts with 8 responses, 64 at a time: sixteen rounds of half a second.
    assert terms(slow)["rewards waited for"] == pytest.approx(8)
    assert total(slow) - total(BASE) == pytest.approx(8)
    again = slow.changed(resampling_factor=1.5)
    assert total(again) == pytest.approx(1.5 * total(slow))
    assert total(slow.changed(reward="model")) == pytest.approx(total(BASE))


def scored_after(drawn: np.ndarray, places: int, each: float, machines: int) -> float:
    """Seconds from the last response's end to the last reward's; a step takes one second."""
    free, ended = [0.0] * places, []
    for length in drawn.tolist():
        ended.append(free[0] + length)
        heapq.heapreplace(free, ended[-1])
    ready = [0.0] * machines
    for end in sorted(ended):
        heapq.heapreplace(ready, max(ready[0], end) + each)
    return max(ready) - max(ended)


@pytest.mark.parametrize("each", [2.0, 30.0, 120.0, 400.0])
@pytest.mark.parametrize("text", ["", SPREAD, "1~uniform_200~2000"])
@pytest.mark.parametrize(("sequences", "places"), [(128, 128), (600, 128), (256, 64)])
def test_rewards_beside_decoding_are_late_by_what_a_queue_is(
    text: str, sequences: int, places: int, each: float
) -> None:
    machines = 8
    shape = lengths(text)
    random = np.random.default_rng(1)
    shares = np.array([one.share for one in shape.bins])
    sizes = [one.tokens for one in shape.bins]
    drawn = random.choice(sizes, p=shares / shares.sum(), size=(100, sequences))
    real = float(np.mean([scored_after(one, places, each, machines) for one in drawn]))
    at_once = min(sequences, places)
    pieces = [
        (one, one.steps * 1.0) for one in rollout.stretches(shape, 100, sequences, at_once, 1)
    ]
    late = max(each, rollout.overdue(each / machines, sequences, 1, pieces))
    whole = sequences * each / machines
    # Of all that there is to score within a fiftieth, or one response's reward.
    assert late == pytest.approx(real, abs=0.02 * whole + each)


def test_verl_scores_while_others_decode_and_trl_when_all_have_ended() -> None:
    slow = {"reward_seconds": 0.05, "reward_concurrency": 8}
    plain = SPREAD_OUT.changed(**slow)
    # 128 prompts with 8 responses, 8 at a time.
    assert terms(plain)["rewards waited for"] == pytest.approx(128 * 0.05)
    of_verl = {"framework": "verl", "framework_version": "0.9.1", "reference": "offloaded"}
    verl = plain.changed(**of_verl)
    late = terms(verl)
    assert "rewards waited for" not in late
    # 6.4 s of rewards beside a minute of decoding: the last one's alone is seen.
    assert late["exposed reward time"] == pytest.approx(0.05)
    one_machine = terms(verl.changed(reward_concurrency=1, reward_seconds=0.5))
    decoded = sum(terms(SPREAD_OUT.changed(**of_verl)).values())
    behind = one_machine["exposed reward time"]
    assert behind == pytest.approx(1024 * 0.5 - decoded, rel=0.01)
    again = verl.changed(resampling_factor=1.5)
    assert terms(again)["exposed reward time"] == pytest.approx(1.5 * 0.05)

