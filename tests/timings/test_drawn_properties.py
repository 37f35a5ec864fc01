"""The same properties of plans drawn at random, with shares fixed and rows without padding.

What may be slower all the same is told by :func:`accuracy.timings.chains.beyond_shares`.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from accuracy.timings import chains
from accuracy.timings.chains import FASTER, RUN, SIZES, TAILS, beyond_shares, seconds, slower
from benchmarks_of_cards import H100
from planner.plan import Plan, try_plan
from planner.setup.quantities import quantities
from planner.values.dealing import rest
from random_plans import plans

MODELS = ("Qwen/Qwen2.5-0.5B", "Qwen/Qwen2.5-7B", "Qwen/Qwen3-30B-A3B", "google/gemma-2-2b")
LEFT = ("v", "preset", "set", "config", "gpu", "gpu_bytes", "batch_shape", "length_distribution")
drawn = settings(max_examples=60, deadline=None)


def unpadded(plan: Plan, shape: str) -> dict[str, Any] | None:
    """A drawn plan on the card of the benchmark whose rows are full, or packed; None for none."""
    fields: dict[str, Any] = {
        name: getattr(plan, name) for name in type(plan).model_fields if name not in LEFT
    }
    fields |= {"gpu": "h100-80gb", "dtype": "bf16", "batch_shape": shape}
    if shape == "packed":
        fields["attention"] = "flash"
    return fields if is_a_plan(fields) else None


ROLLOUT = {"cache", "captured"}
PADDED = 0.3
"""At most, by steps that are padded to a captured size."""


def is_a_plan(fields: dict[str, Any]) -> bool:
    """One whose rows none has to fill up: those take the time of rows that are there."""
    plan = try_plan(fields)[0]
    return plan is not None and not rest(plan, plan.micro_batch_size)


def unexplained(chain: list[dict[str, Any]]) -> dict[str, float]:
    """Phases that some change makes slower for no reason that is listed."""
    found: dict[str, float] = {}
    if not all(map(is_a_plan, chain)):
        return found
    for before, after in pairwise(chain):
        for phase, by in slower([seconds(before, H100), seconds(after, H100)]).items():
            known = kinds(before, after) & (ROLLOUT if phase == "rollout" else {"budget"})
            if not known or (known == {"captured"} and by > PADDED):
                found[phase] = by
    return found


SHAPES = st.sampled_from(("full", "packed"))


@given(plans(MODELS), SHAPES, st.sampled_from(sorted(FASTER)))
@drawn
def test_a_faster_card_is_never_slower(plan: Plan, shape: str, what: str) -> None:
    fields = unpadded(plan, shape)
    assert fields is None or not slower(chains.faster(fields, what, H100))


@given(plans(MODELS), SHAPES, st.sampled_from(("micro_batch_size", "logprob_micro_batch_size")))
@drawn
def test_a_larger_micro_batch_is_never_slower(plan: Plan, shape: str, field: str) -> None:
    fields = unpadded(plan, shape)
    if fields is not None and not plan.max_tokens_per_micro_batch:
        assert not unexplained([{**fields, field: size} for size in SIZES])


@given(plans(MODELS), SHAPES, st.sampled_from(chains.SEQUENCES))
@drawn
def test_eager_is_never_faster_than_graphs(plan: Plan, shape: str, sequences: int) -> None:
    fields = unpadded(plan, shape)
    if fields is not None and plan.rollout.startswith("vllm"):
        base = {**fields, "max_num_seqs": sequences}
        assert not unexplained([{**base, "enforce_eager": eager} for eager in (True, False)])


@given(plans(MODELS), st.sampled_from(chains.SEQUENCES))
@drawn
def test_a_shorter_tail_is_never_slower(plan: Plan, sequences: int) -> None:
    fields = unpadded(plan, "packed")
    if fields is not None and plan.rollout not in ("none", "in-graph"):
        base = {**fields, "max_num_seqs": sequences}
        assert not unexplained([{**base, "length_distribution": tail} for tail in TAILS])


def kinds(before: dict[str, Any], after: dict[str, Any]) -> set[str]:
    return {one.partition(":")[0] for one in beyond_shares(before, after)}


def test_reasons_are_of_what_they_name() -> None:
    small: dict[str, Any] = {**RUN, "model": "Qwen/Qwen2.5-7B", "gpu": "a100-40gb-pcie"}
    eager, graphs = ({**small, "enforce_eager": one} for one in (True, False))
    assert "cache" in kinds(eager, graphs)
    assert "cache" not in kinds(graphs, eager)
    apart = {"max_num_seqs": 5, "rollout": "vllm-separate", "rollout_gpus": 4, "gpu": "h100-80gb"}
    assert "captured" in kinds({**eager, **apart}, {**graphs, **apart})
    assert "captured" not in kinds(
        *({**one, **apart, "max_num_seqs": 8} for one in (eager, graphs))
    )
    assert not kinds({**RUN, "micro_batch_size": 1}, {**RUN, "micro_batch_size": 2})
    spread, even = ({**RUN, "length_distribution": tail} for tail in TAILS[-2:])
    budget = {"max_tokens_per_micro_batch": 4096}
    assert not kinds(spread, even) and kinds({**spread, **budget}, {**even, **budget}) == {"budget"}


def test_a_token_budget_is_filled_by_whole_rows_where_all_are_of_one_length() -> None:
    """The exception itself: two rows of 2,176 tokens do not fit into 4,096, nor do longer ones."""
    budget = {**RUN, "prompt_tokens": 2048, "max_tokens_per_micro_batch": 4096}
    spread, even = (
        quantities(Plan(**budget, length_distribution=tail)).scoring for tail in TAILS[-2:]
    )
    assert spread.tokens > even.tokens and spread.rounds < even.rounds == 64
