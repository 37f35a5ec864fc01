"""What passes compute with lengths: against steps that are drawn and laid out row by row."""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.estimate import estimate
from planner.phases.scene import scene_of
from planner.phases.vocabulary import scored_in_step
from planner.plan import Plan
from planner.plan.facts import facts_of
from planner.plan.lengths import lengths_of
from planner.plan.link import from_query_string
from planner.plan.query import to_query_string
from planner.setup.quantities import Passes, quantities
from planner.sweeps.table import sweep

TAIL = "1~lognormal_900~800"
BASE: dict[str, Any] = {
    **{"gpus": 4, "gpus_per_node": 4, "prompts_per_step": 16, "prompts_per_update": 8},
    **{"responses_per_prompt": 8, "micro_batch_size": 4, "logprob_micro_batch_size": 8},
    **{"prompt_tokens": 100, "response_tokens": 4096, "length_distribution": TAIL},
}
EACH, UPDATE = 32, 16
"""Sequences of a GPU in a step, and between two updates."""
PACKED = {"batch_shape": "packed", "attention": "flash"}
STEPS = 300


def steps(plan: Plan) -> np.ndarray[Any, Any]:
    """Lengths of rows: [steps, GPUs, sequences]."""
    bins = lengths_of(plan).bins
    rng = random.Random(11)
    drawn = rng.choices(
        [one.tokens for one in bins], [one.share for one in bins], k=STEPS * 4 * EACH
    )
    return np.array(drawn).reshape(STEPS, 4, EACH) + plan.prompt_tokens


def padded(rows: np.ndarray[Any, Any], together: int) -> np.ndarray[Any, Any]:
    """Padded tokens of each stretch of rows: [steps, GPUs, stretches]."""
    return rows.reshape(STEPS, 4, -1, together).max(-1) * together


def near(passes: Passes, tokens: float, imbalance: float, rounds: float) -> None:
    assert float(passes.tokens) == pytest.approx(tokens, rel=0.02)
    assert float(passes.imbalance) == pytest.approx(imbalance, rel=0.04)
    assert float(passes.rounds) == pytest.approx(rounds, rel=0.05)


def test_a_padded_row_is_as_long_as_the_longest_beside_it() -> None:
    plan = Plan(**BASE, sharding="ddp")
    own = padded(steps(plan), 4)
    updates = own.reshape(STEPS, 4, 2, -1).sum(-1)
    waited = updates.max(1).mean() / updates.mean()
    near(quantities(plan).training, own.sum(-1).mean(), waited, 8)
    scored = padded(steps(plan), 8)
    assert float(quantities(plan).scoring.tokens) == pytest.approx(scored.sum(-1).mean(), rel=0.02)


def test_sharded_gpus_wait_for_each_other_in_every_forward() -> None:
    plan = Plan(**BASE, sharding="fsdp2")
    own = padded(steps(plan), 4)
    near(quantities(plan).training, own.sum(-1).mean(), own.max(1).mean() / own.mean(), 8)


def test_trl_pads_what_a_gpu_sampled_as_a_whole() -> None:
    plan = Plan(**BASE, framework="trl")
    own = padded(steps(plan), EACH)
    near(quantities(plan).training, own.mean(), own.max(1).mean() / own.mean(), 8)
    # A trainer of given answers pads what its collator is handed.
    given = {**BASE, "method": "sft", "responses_per_prompt": 1}
    sizes = {"prompts_per_step": 128, "prompts_per_update": 64, "batch_shape": "padded"}
    sft = Plan(**{**given, **sizes}, framework="trl")
    assert float(quantities(sft).training.tokens) == pytest.approx(
        padded(steps(sft), 4).sum(-1).mean(), rel=0.02
    )


def test_packed_rows_compute_their_own_tokens() -> None:
    plan = Plan(**BASE, **PACKED, sharding="ddp")
    rows = steps(plan)
    sums = rows.sum(-1)
    updates = rows.reshape(STEPS, 4, 2, -1).sum(-1)
    passes = quantities(plan).training
    near(passes, sums.mean(), updates.max(1).mean() / updates.mean(), 8)
    squares = (rows.astype(float) ** 2).sum(-1).mean()
    assert float(passes.tokens * passes.row_tokens) == pytest.approx(squares, rel=0.03)
    scene = scene_of(plan, facts_of(plan))
    scored = (rows - plan.prompt_tokens).sum(-1).mean()
    assert float(scored_in_step(scene, gradient=True)) == pytest.approx(scored, rel=0.02)


def test_a_budget_takes_as_few_micro_batches_as_the_fullest_gpu_needs() -> None:
    """As verl counts them: the most over GPUs of ceil(tokens / budget), in each update."""
    for name, budget in (("plain", 6000), ("plain", 9000), ("verl", 9000)):
        plan = Plan(**BASE, **PACKED, framework=name, max_tokens_per_micro_batch=budget)
        tokens = steps(plan).reshape(STEPS, 4, 2, UPDATE).sum(-1)
        if name == "verl":  # deals sequences out evenly
            tokens = tokens.mean(1, keepdims=True)
        rounds = np.ceil(tokens / budget).max(1).sum(-1).mean()
        passes = quantities(plan).training
        assert float(passes.rounds) == pytest.approx(rounds, abs=2 * 0.6), (name, budget)
        assert float(passes.rounds) < 2 * UPDATE / (budget // (100 + 4096))
        assert name != "verl" or passes.imbalance == 1


def test_memory_is_planned_for_the_longest_there_can_be() -> None:
    plan = Plan(**BASE)
    capped = estimate(plan.changed(length_distribution=""))
    with_tail = estimate(plan)
    assert with_tail.device_bytes == capped.device_bytes
    assert [phase.device_bytes for phase in with_tail.phases] == [
        phase.device_bytes for phase in capped.phases
    ]
    counted = estimate(plan.changed(length_distribution="1~hist_100~99_1000~1"))
    shorter = estimate(plan.changed(length_distribution="", response_tokens=1000))
    own = [phase for phase in counted.phases if phase.name.startswith("policy")]
    assert own and counted.device_bytes < capped.device_bytes
    for phase in own:
        same = next(each for each in shorter.phases if each.name == phase.name)
        assert phase.requested_bytes == same.requested_bytes
    assert any("longer than 1,000 tokens" in note for note in counted.notes)


def test_an_engine_is_sized_for_the_cap_whatever_was_counted() -> None:
    plan = Plan(**BASE, gpu_memory_utilization=0.25)
    counted = plan.changed(length_distribution="1~hist_100~1")
    at_cap, own = (estimate(each) for each in (plan.changed(length_distribution=""), counted))
    for one, other in zip(at_cap.phases, own.phases, strict=True):
        if one.name == "rollout":
            assert one.device_bytes == other.device_bytes
    assert [text for text in own.warnings if "whole-length" in text] == [
        text for text in at_cap.warnings if "whole-length" in text
    ]


COUNTS = st.dictionaries(st.integers(1, 4096), st.integers(1, 100), min_size=2, max_size=20)
SETTINGS: tuple[dict[str, Any], ...] = (
    {},
    {"sharding": "ddp"},
    PACKED,
    {**PACKED, "max_tokens_per_micro_batch": 9000},
    {"framework": "trl"},
    {"framework": "verl", "max_tokens_per_micro_batch": 9000},
    {"rollout": "hf"},
)


@settings(max_examples=40, deadline=None)
@given(COUNTS, st.integers(1, 4096), st.sampled_from(SETTINGS))
def test_a_shorter_tail_is_never_slower_nor_larger(
    counts: dict[int, int], tokens: int, how: dict[str, Any]
) -> None:
    shorter = {**counts}
    longest = max(shorter)
    moved, to = shorter.pop(longest), min(tokens, longest)
    shorter[to] = shorter.get(to, 0) + moved

    def of(these: dict[int, int]) -> Plan:
        pairs = "_".join(f"{at}~{count}" for at, count in these.items())
        return Plan(**{**BASE, **how, "length_distribution": f"1~hist_{pairs}"})

    short, long = of(shorter), of(counts)
    one, other = estimate(short), estimate(long)
    assert one.step_seconds is not None and other.step_seconds is not None
    assert one.step_seconds <= other.step_seconds * (1 + 1e-9)
    # Reserved bytes may differ either way, as they do between two caps: segments are of whole MiB.
    for mine, theirs in zip(one.phases, other.phases, strict=True):
        assert mine.requested_bytes <= theirs.requested_bytes
    cap = estimate(long.changed(length_distribution=""))
    assert other.step_seconds <= (cap.step_seconds or math.inf) * (1 + 1e-9)
    for name in ("training", "scoring"):
        mine, theirs = (getattr(quantities(each), name) for each in (short, long))
        assert mine.tokens <= theirs.tokens * (1 + 1e-9)
        assert mine.tokens * mine.imbalance <= theirs.tokens * theirs.imbalance * (1 + 1e-9)
        assert mine.rounds <= theirs.rounds
        assert mine.imbalance >= 1 - 1e-9


@pytest.mark.parametrize("how", SETTINGS)
def test_a_sweep_has_the_lengths_of_each_of_its_plans(how: dict[str, Any]) -> None:
    plan = Plan(**{**BASE, **how})
    over = {"response_tokens": [300, 4096, 8000], "micro_batch_size": [1, 4], "gpus": [4, 8]}
    table = sweep(plan, over)
    assert table["valid"].any()
    for row in table[table["valid"]].to_dict("records"):
        changes = {name: int(row[name]) for name in over}
        follows = {
            "validation_response_tokens": changes["response_tokens"],
            "logprob_micro_batch_size": plan.logprob_micro_batch_size,
        }
        one = estimate(Plan(**{**plan.model_dump(), **changes, **follows}))
        assert row["step_seconds"] == pytest.approx(one.step_seconds)
        assert row["device_bytes"] == one.device_bytes


def test_a_link_carries_one_text() -> None:
    plan = Plan(**{**BASE, "length_distribution": "1~hist_900~4_100~2_900~2"})
    assert plan.length_distribution == "1~hist_100~1_900~3"
    for short in (False, True):
        again = from_query_string(to_query_string(plan, short=short))
        assert again.plan == plan and not again.problems


def test_a_hostile_link_loses_its_lengths_and_says_so() -> None:
    reading = from_query_string("v=4&length_distribution=1~hist_5~1_%3Cscript%3E~1")
    assert reading.plan is not None and reading.plan.length_distribution == ""
    (problem,) = reading.problems
    assert problem.field == "length_distribution" and "<script>" in problem.sentence
    assert "planner lengths" in problem.fix
