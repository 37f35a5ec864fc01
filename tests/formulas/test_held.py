"""What the allocator holds and no tensor uses: committed replays, and bounds of totals."""

from __future__ import annotations

import json

import pytest

from accuracy import held as replays
from planner.estimate import estimate, word_of
from planner.footprint import Footprint
from planner.formulas.growth import GROWN, GROWTH, most_growth
from planner.formulas.held import SHARES, held, kind_of
from planner.levels import NOTHING, Totals
from planner.phases.phase import PhasePlan
from planner.plan import Plan
from planner.segments import reserved
from planner.sweep import sweep


def test_shares_are_those_of_the_committed_replays() -> None:
    """``python -m accuracy.held`` writes the rows; nothing is set by hand."""
    rows = json.loads(replays.MEASURED.read_text(encoding="utf-8"))["rows"]
    assert replays.shares(rows) == dict(SHARES)
    for kind in SHARES:
        assert sum(kind_of(Plan(**row["fields"])) == kind for row in rows) >= 10, kind


def test_shares_are_the_least_middle_and_most_in_thousandths() -> None:
    """Twenty-one rows whose held bytes are 0 to 20 of 100 that they follow."""
    fields = {"gpus": 1, "sharding": "none", "finetuning": "full", "gradient_checkpointing": "none"}
    rows = [
        {"fields": fields, "needed_bytes": 300, "moving_bytes": 100, "replayed_bytes": 300 + k}
        for k in range(21)
    ]
    assert replays.shares(rows) == {(False, False, False): (0, 100, 200)}


def test_growth_is_that_of_the_committed_replays() -> None:
    rows = json.loads(replays.MEASURED.read_text(encoding="utf-8"))["rows"]
    assert replays.growth(rows) == dict(GROWTH)
    assert GROWTH.keys() == SHARES.keys()


def test_growth_is_the_most_of_any_order_beyond_one_length() -> None:
    """Of 100 that it follows 30 are held at one length, 80 in the worst order of several."""
    fields = {
        "gpus": 1, "sharding": "none", "gradient_checkpointing": "none", "empty_cache": "never"
    }  # fmt: skip
    row = {
        "fields": fields, "needed_bytes": 300, "moving_bytes": 100,
        "replayed_bytes": 330, "spared_bytes": 0, "varied_bytes": [330, 380, 340],
    }  # fmt: skip
    emptied = {**row, "fields": {**fields, "empty_cache": "between-phases"}, "varied_bytes": [900]}
    paged = {**row, "fields": {**fields, "expandable_segments": True}, "varied_bytes": [900]}
    assert replays.growth([row, emptied, paged]) == {(False, False, False): 500}


def test_growth_follows_the_phase_in_which_most_comes_and_goes_logits_too() -> None:
    """1 MB moves in one phase; in the other 0.8, beside 0.7 of logits that leave no holes."""
    plan = Plan(gradient_checkpointing="full", empty_cache="never")
    terms = [held(plan, size, 4_000_000, 0, 0) for size in (5_000_000, 4_800_000)]
    most = most_growth(plan, [None, *terms], [0, 0, 700_000])
    assert most == 1_500 * GROWTH[kind_of(plan)]


VARIED = {
    "model": "mistralai/Mistral-7B-v0.1", "method": "sft", "gpu": "a100-80gb", "gpus": 2,
    "sharding": "fsdp1", "batch_shape": "padded", "empty_cache": "never",
    "gradient_checkpointing": "full", "micro_batch_size": 4, "prompts_per_step": 8,
    "master_dtype": "none", "gradient_dtype": "bf16", "optimizer": "adamw-fused",
    "prompt_tokens": 1024, "response_tokens": 3072,
}  # fmt: skip


@pytest.mark.parametrize(
    "one", [{"batch_shape": "full"}, {"empty_cache": "every-step"}, {"expandable_segments": True}]
)
def test_only_a_cache_that_meets_other_lengths_grows(one: dict[str, object]) -> None:
    found = [estimate(Plan(**fields)) for fields in (VARIED, VARIED | one)]
    grows = [GROWN.name in {term.name for term in each.worst.terms} for each in found]
    assert grows == [True, False]


def test_the_card_bounds_growth_and_growth_decides_no_verdict() -> None:
    """On a card between both upper bounds: the driver then has free segments back."""
    whole, varied = (estimate(Plan(**VARIED | {"batch_shape": s})) for s in ("full", "padded"))
    assert whole.high_bytes < varied.high_bytes < varied.budget_bytes
    card = {"gpu": "custom", "gpu_bytes": (whole.high_bytes + varied.high_bytes) // 2}
    small, fixed = (
        estimate(Plan(**VARIED | card | {"batch_shape": shape})) for shape in ("padded", "full")
    )
    assert fixed.high_bytes < small.high_bytes == small.budget_bytes
    assert small.verdict.word == fixed.verdict.word == "fits"
    (term,) = (term for term in small.worst.terms if term.name == GROWN.name)
    assert term.bytes == 0 == term.low


def test_what_stays_leaves_no_holes() -> None:
    """Of 5 MB needed 4 stay; kinds need 500 kB more apart than together."""
    plan = Plan(gradient_checkpointing="full")
    share = SHARES[kind_of(plan)]
    term = held(plan, 5_000_000, 4_500_000, 3_500_000, 3_000_000)
    assert (term.low, term.bytes, term.high) == tuple(1000 * part for part in share)


@pytest.fixture(scope="module")
def found() -> Footprint:
    return estimate(
        Plan(
            model="mistralai/Mistral-7B-v0.1", method="sft", gpus=8, sharding="fsdp2",
            gradient_checkpointing="full", micro_batch_size=4, prompts_per_step=32,
        )
    )  # fmt: skip


def test_bounds_enclose_the_centre_in_every_phase(found: Footprint) -> None:
    for phase in found.phases:
        assert phase.low_bytes <= phase.device_bytes <= phase.high_bytes, phase.name
        assert phase.device_bytes == sum(int(t.bytes) for t in phase.terms if not t.host)
    assert found.low_bytes < found.device_bytes < found.high_bytes


@pytest.mark.parametrize("empty_cache", ["never", "between-phases", "every-step"])
def test_a_sweep_has_the_bounds_of_each_plans_own_estimate(empty_cache: str) -> None:
    plan = Plan(method="grpo", rollout="vllm-colocated", empty_cache=empty_cache)
    table = sweep(plan, {"response_tokens": [256, 4096], "micro_batch_size": [1, 4]})
    for row in table.to_dict("records"):
        own = estimate(
            plan.changed(
                response_tokens=row["response_tokens"], micro_batch_size=row["micro_batch_size"]
            )
        )
        assert (row["low_bytes"], row["high_bytes"]) == (own.low_bytes, own.high_bytes)
        assert row["verdict"] == own.verdict.word


def test_a_plan_whose_upper_bound_is_beyond_the_card_is_tight() -> None:
    assert word_of(80, 99, 100) == "fits"
    assert word_of(80, 101, 100) == "tight"
    assert word_of(91, 95, 100) == "tight"
    assert word_of(101, 120, 100) == "out of memory"
    assert word_of(10, 10, 100, blocked=True) == "out of memory"


def test_the_sentence_says_what_may_be_needed(found: Footprint) -> None:
    """On a card that the centre fits with a tenth to spare, and the upper bound does not."""
    card = round(found.device_bytes / 0.9) + 1
    assert card < found.high_bytes
    plan = found.plan.changed(gpu="custom", gpu_bytes=card)
    again = estimate(plan)
    assert again.device_bytes <= 0.9 * again.budget_bytes and again.high_bytes > again.budget_bytes
    assert again.verdict.word == "tight"
    assert " may need " in again.verdict.sentence


def instants(*sizes: dict[str, int]) -> list[Totals]:
    return [
        NOTHING._replace(**{"allocated": sum(kinds.values())}, **{
            name: size for name, size in kinds.items() if name != "rest"
        })
        for kinds in sizes
    ]  # fmt: skip


def test_cached_memory_carries_its_bounds_and_kinds_of_all_phases_count() -> None:
    """With the cache never emptied every phase reserves what the highest needs, bounds and all."""
    plan = Plan(empty_cache="never", gradient_checkpointing="full")
    phases = [PhasePlan(name=name, role="policy", instants=()) for name in ("a", "b")]
    sums = [
        instants({"parameters": 1_000, "rest": 8_000}),
        instants({"parameters": 1_000, "gradients": 3_000, "optimizer": 1_000}),
    ]
    kept = [1_000, 2_000]
    first, second = reserved(plan, phases, [9_000, 5_000], kept, sums)
    assert first.total == second.total
    assert first.held == held(plan, 9_000, 1_000, 1_000 + 3_000 + 1_000 + 8_000, 9_000)
    alone, _ = reserved(
        plan.changed(empty_cache="between-phases"), phases, [9_000, 5_000], kept, sums
    )
    assert alone.held == held(plan, 9_000, 1_000, 9_000, 9_000)
    assert alone.carried == (0, 0, 0)
