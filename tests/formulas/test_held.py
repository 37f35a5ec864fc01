"""What the allocator holds and no tensor uses: committed replays, and bounds of totals."""

from __future__ import annotations

import json

import pytest

from accuracy import held as replays
from planner.estimate import estimate
from planner.footprint import Footprint
from planner.formulas.growth import GROWN, GROWTH, most_growth
from planner.formulas.held import SHARES, Kind, Share, Spread, held, kind_of
from planner.plan import Plan
from planner.sweeps.table import sweep
from planner.totals.levels import NOTHING, Totals
from planner.totals.limits import word_of
from planner.totals.peaks import peak_of
from planner.totals.segments import reserved


def test_shares_are_those_of_the_committed_replays() -> None:
    """``python -m accuracy.held`` writes the rows; nothing is set by hand."""
    rows = json.loads(replays.MEASURED.read_text(encoding="utf-8"))["rows"]
    assert replays.shares(rows) == dict(SHARES)
    for kind in SHARES:
        assert sum(kind_of(Plan(**row["fields"])) == kind for row in rows) >= 7, kind


WHOLE = {"gpus": 1, "sharding": "none", "finetuning": "full", "gradient_checkpointing": "none"}


ROOM = 10**12
"""A card on which nothing is short."""


def row(held_bytes: float, *, apart: int = 500, goes: int = 100) -> dict[str, object]:
    """A row of 400 needed, of which ``goes`` come and go, and ``apart`` bytes for 400 at once."""
    of = {"apart": apart, "together": 400, "limit": 1000, "needed": 400, "kept": 400 - goes}
    return {"fields": WHOLE, "needed_bytes": 400, "of": of, "replayed_bytes": 400 + held_bytes}


def test_shares_are_the_least_middle_and_most_in_thousandths() -> None:
    """Held bytes are 0 to 20 of 100 that come and go, and none of what kinds need apart."""
    rows = [row(k, apart=400) for k in range(21)]
    assert replays.shares(rows) == {Kind(False, False, False, False): Share(0, 0, 100, 200)}


def test_the_share_apart_is_the_one_that_explains_most() -> None:
    """Held is half of what kinds need apart and a tenth of what comes and goes, give or take 1."""
    rows = [
        row(apart // 2 + goes // 10 + (apart + goes) // 50 % 3 - 1, apart=400 + apart, goes=goes)
        for apart in (0, 100, 200, 300)
        for goes in (100, 150, 200, 250, 300)
    ]
    ((kind, share),) = replays.shares(rows).items()
    assert (kind, share.apart) == (Kind(False, False, False, False), 500)
    assert share.low < 100 < share.high
    assert abs(share.centre - 100) <= 10


def test_growth_is_that_of_the_committed_replays() -> None:
    rows = json.loads(replays.MEASURED.read_text(encoding="utf-8"))["rows"]
    assert replays.growth(rows) == dict(GROWTH)
    assert GROWTH.keys() == {kind for kind in SHARES if not kind.expandable}


def test_growth_is_the_most_of_any_order_beyond_one_length() -> None:
    """Of 100 that it follows 30 are held at one length, 80 in the worst order of several."""
    one = {**row(30, apart=400), "varied_bytes": [430, 480, 440]}
    fields = {**WHOLE, "empty_cache": "never"}
    same = {**one, "fields": fields}
    emptied = {**same, "fields": {**fields, "empty_cache": "between-phases"}, "varied_bytes": [900]}
    paged = {**same, "fields": {**fields, "expandable_segments": True}, "varied_bytes": [900]}
    unvaried = {key: value for key, value in same.items() if key != "varied_bytes"}
    found = replays.growth([same, emptied, paged, unvaried])
    assert found == {Kind(False, False, False, False): 500}


def test_growth_follows_the_phase_in_which_most_comes_and_goes() -> None:
    """0.6 and 1 MB come and go in two phases, and kinds need 0.5 MB more apart than together."""
    plan = Plan(gradient_checkpointing="full", empty_cache="never")
    spread = Spread(apart=6_500_000, together=6_000_000, states=0)
    terms = [held(kind_of(plan), size, 4_000_000, spread, ROOM) for size in (4_600_000, 5_000_000)]
    most = most_growth(plan, [None, *terms])
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
    """Of 5 MB needed 4 stay; kinds need no more apart than together."""
    plan = Plan(gradient_checkpointing="full")
    share = SHARES[kind_of(plan)]
    term = held(kind_of(plan), 5_000_000, 4_000_000, Spread(5_000, 5_000, 4_000), ROOM)
    assert (term.low, term.bytes, term.high) == tuple(1000 * part for part in share[1:])


@pytest.mark.parametrize(("states", "broken"), [(2_000_000, 2_000_000), (9_000_000, 3_000_000)])
def test_states_break_no_more_than_they_take(states: int, broken: int) -> None:
    """Kinds need 3 MB more apart than together; all weights train, sharded and checkpointed."""
    plan = Plan(gpus=8, sharding="fsdp2", gradient_checkpointing="full")
    term = held(kind_of(plan), 20_000_000, 20_000_000, Spread(13_000_000, 10_000_000, states), ROOM)
    assert term.bytes == SHARES[kind_of(plan)].apart * broken // 1000 > 0


def test_the_card_bounds_what_is_held_and_not_its_upper_bound() -> None:
    """Free segments go back before a request fails: at the centre no card is more than full."""
    plan = Plan(gpus=8, sharding="fsdp2", gradient_checkpointing="full")
    spread = Spread(13_000_000, 10_000_000, 9_000_000)
    sizes = (kind_of(plan), 20_000_000, 9_000_000, spread)
    free, full = (held(*sizes, room) for room in (ROOM, 1_000_000))
    assert full.bytes == 1_000_000 < free.bytes
    assert full.high == free.high > free.bytes


def test_gradients_optimizer_logits_and_activations_stand_apart_over_a_step() -> None:
    """Mistral-7B on two A100s: logits and activations of 14 GiB find no room in 20 of states.

    The replay of the plan's own dry run reserves 48.9 GiB, of which 33.8 are ever used at once.
    """
    plan = Plan(
        model="mistralai/Mistral-7B-v0.1", method="sft", gpu="a100-80gb", gpus=2, sharding="fsdp1",
        master_dtype="none", gradient_dtype="bf16", attention="flash", optimizer="adamw-foreach",
        batch_shape="full", prompts_per_step=8, prompts_per_update=8, micro_batch_size=4,
        prompt_tokens=1, response_tokens=4095, gradient_checkpointing="full", logits="full",
    )  # fmt: skip
    found = max(phase.reserved_bytes for phase in estimate(plan).phases)
    assert found == pytest.approx(REPLAYED, rel=0.05)


REPLAYED = 52_489_617_408
"""What :func:`planner.dryrun.logs.replay.replay` of that plan's dry run reserves."""


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


def test_the_sentence_says_what_may_be_needed(found: Footprint) -> None:
    """On a card that the centre fits with a tenth to spare, and the upper bound does not."""
    card = round(found.device_bytes / 0.9) + 1
    assert card < found.high_bytes
    plan = found.plan.changed(gpu="custom", gpu_bytes=card)
    again = estimate(plan)
    assert again.device_bytes <= 0.9 * again.budget_bytes and again.high_bytes > again.budget_bytes
    assert again.verdict.word == "tight"
    most = f"{again.high_bytes / 2**30:,.1f} GiB"
    assert f"upper bound {most}" in again.verdict.sentence
    assert not [line for line in again.verdict.lines if most in line], "told once"


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
    sums = [
        instants({"parameters": 1_000, "rest": 8_000, "optimizer": 500}),
        instants({"parameters": 1_000, "gradients": 3_000, "optimizer": 1_000}),
    ]
    peaks = [
        peak_of(each, [0], [(0, 0, 0)], [0])._replace(device=need, doubted=need, kept=kept)
        for each, need, kept in zip(sums, [9_500, 5_000], [1_500, 2_000], strict=True)
    ]
    first, second = reserved(plan, [True, True], peaks, ROOM)
    assert first.total == second.total
    whole = Spread(apart=1_000 + 3_000 + 1_000 + 8_000, together=9_500, states=500)
    assert first.held == held(kind_of(plan), 9_500, 1_500, whole, ROOM - 9_500)
    alone, _ = reserved(plan.changed(empty_cache="between-phases"), [True, True], peaks, ROOM)
    assert alone.held == held(kind_of(plan), 9_500, 1_500, Spread(9_500, 9_500, 500), ROOM - 9_500)
    assert alone.carried == (0, 0, 0)
