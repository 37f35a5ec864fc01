"""Sampling plans: rules as sentences, what is derived, links that come back the same."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.sampling import FIELDS, SamplingPlan, try_sampling_plan
from planner.sampling.derived import chunk_of, lists_of, part_of, probes_of, training_of, width_of
from planner.sampling.link import MAX_KEYS, from_query, from_query_string, to_query, to_query_string
from planner.sampling.plan import choices
from planner.sampling.presets import DOCUMENT, PRESETS

BASE: dict[str, Any] = {"prompts": 28_000, "dimensions": 1_280}


def test_a_plan_needs_little_and_is_frozen() -> None:
    plan = SamplingPlan(**BASE)
    assert (plan.neighbours, plan.index, plan.mode, plan.favour) == (10, "exact", "online", "rare")
    assert hash(plan) == hash(SamplingPlan(**BASE))
    with pytest.raises(ValueError, match="frozen"):
        plan.prompts = 3  # type: ignore[misc]


@pytest.mark.parametrize(
    ("changes", "field", "said"),
    [
        ({"dimensions": 0}, "dimensions", "Without a model"),
        ({"neighbours": 10, "prompts": 10}, "neighbours", "not its own neighbour"),
        ({"index": "faiss-ivf", "lists": 8, "probes": 9}, "probes", "exceeds"),
        ({"index": "faiss-ivf", "prompts": 400, "lists": 11}, "lists", "39 training prompts"),
        ({"index": "faiss-ivf", "training_prompts": 28_001}, "training_prompts", "exceeds"),
        ({"lists": 4}, "lists", "Only an IVF index"),
        ({"probes": 4}, "probes", "Only an IVF index"),
        ({"training_prompts": 4}, "training_prompts", "Only an IVF index"),
        ({"assembly": "concatenate", "mode": "offline"}, "assembly", "Document 003's code"),
        ({"assembly": "concatenate", "dtype": "fp16"}, "assembly", "Document 003's code"),
        ({"model_dtype": "fp16"}, "model_dtype", "CPU"),
        ({"dtype": "bf16"}, "dtype", "Choose fp32 or fp16"),
        ({"prompts": True}, "prompts", "whole number"),
        ({"prompts": 28_000.0}, "prompts", "whole number"),
        ({"model": "nobody/nothing"}, "model", "not in the catalog"),
        ({"device": "rtx-4091"}, "device", "rtx-4090"),
        ({"prompt": 3}, "prompt", "not a field"),
        ({"model": "karpathy/nanochat-d20"}, "model_dtype", "half precision"),
    ],
)
def test_what_cannot_be_is_refused_with_field_and_fix(
    changes: dict[str, Any], field: str, said: str
) -> None:
    plan, problems = try_sampling_plan({**BASE, **changes})
    assert plan is None
    found = [problem.sentence for problem in problems if problem.field == field]
    assert found and said in found[0], problems


def test_what_a_plan_leaves_out_is_derived() -> None:
    plan = SamplingPlan(prompts=280_000, dimensions=1_280, index="faiss-ivf")
    assert lists_of(plan) == 4 * 529  # the root of 280,000 is 529.2
    assert probes_of(plan) == 46
    assert training_of(plan) == 64 * 2_116
    assert chunk_of(plan) == 13_056  # 64 MiB of 5,120 bytes are 13,107 rows, 51 times 256
    assert part_of(SamplingPlan(prompts=28_000, dimensions=1_280)) == 5_376
    assert lists_of(plan.changed(lists=7, probes=2)) == 7
    few = SamplingPlan(prompts=100, dimensions=4, index="faiss-ivf")
    assert (lists_of(few), probes_of(few), training_of(few)) == (2, 1, 100)


@pytest.mark.parametrize(("embedding", "width"), [("logits", 151_936), ("hidden", 896)])
def test_a_model_says_how_long_an_embedding_is(embedding: Any, width: int) -> None:
    assert width_of(SamplingPlan(model="Qwen/Qwen2.5-0.5B", embedding=embedding)) == width


def test_what_is_derived_is_the_same_over_an_array() -> None:
    from planner.sampling.estimate import at

    plan = SamplingPlan(prompts=280_000, dimensions=1_280, index="faiss-ivf")
    prompts = np.array([50, 1_000, 280_000, 28_000_000])
    for derived in (lists_of, probes_of, training_of, chunk_of, part_of):
        whole = derived(at(plan, prompts=prompts))
        each = [derived(at(plan, prompts=int(one))) for one in prompts]
        assert np.broadcast_to(whole, prompts.shape).tolist() == each, derived.__name__


def plans() -> st.SearchStrategy[SamplingPlan]:
    """Valid plans: what the rules blame is left to its default."""
    numbers: dict[str, st.SearchStrategy[Any]] = {
        "prompts": st.integers(2, 10**9),
        "neighbours": st.integers(1, 1024),
        "dimensions": st.integers(1, 2**20),
        "lists": st.integers(0, 5_000),
        "probes": st.integers(0, 5_000),
        "training_prompts": st.integers(0, 10**6),
        "chunk_prompts": st.integers(0, 10**8),
        "host_ram": st.integers(0, 2**53),
        "disk": st.integers(0, 2**53),
        "cores": st.integers(1, 4096),
        "batch_size": st.integers(1, 64),
        "prompt_tokens": st.integers(1, 8192),
        "model": st.sampled_from(("", "Qwen/Qwen2.5-0.5B", "openai-community/gpt2")),
        "device": st.sampled_from(("cpu", "rtx-4090", "h100-80gb")),
    }
    fields = {
        field: numbers[field] if field in numbers else st.sampled_from(choices(field))
        for field in FIELDS
    }
    return st.fixed_dictionaries(fields).map(_valid)


def _valid(values: dict[str, Any]) -> SamplingPlan:
    while True:
        plan, problems = try_sampling_plan(values)
        if plan is not None:
            return plan
        # Defaults alone make a plan, so this ends.
        blamed = {problem.field for problem in problems} & values.keys() - {"dimensions"}
        for field in blamed or values.keys() - {"dimensions"}:
            del values[field]


@settings(deadline=None, max_examples=100)
@given(plans())
def test_a_link_reads_back_as_the_same_plan(plan: SamplingPlan) -> None:
    reading = from_query_string("https://headroom.example/sampling?" + to_query_string(plan))
    assert (reading.plan, reading.problems) == (plan, ())


@settings(deadline=None, max_examples=150)
@given(
    st.dictionaries(
        st.sampled_from((*FIELDS, "v", "prompt", "\x00")) | st.text(max_size=12),
        st.text(max_size=20) | st.lists(st.text(max_size=9), max_size=3),
        max_size=12,
    )
)
def test_nothing_that_a_link_holds_breaks_its_reader(query: Any) -> None:
    reading = from_query(query)
    assert reading.plan is not None or reading.problems
    for problem in reading.problems:
        assert problem.field or problem.message
        assert all(character.isprintable() for character in problem.message)


def test_a_complete_link_has_the_version_and_every_field() -> None:
    query = to_query(SamplingPlan(**BASE))
    assert set(query) == {"v", *FIELDS}
    assert (query["v"], query["prompts"], query["model"]) == ("1", "28000", "")


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("v=2&prompts=5&dimensions=4", "version 1"),
        ("prompts=1e3&dimensions=4", "whole number"),
        ("prompts=٣&dimensions=4", "whole number"),
        ("prompts=-4&dimensions=4", "whole number"),
        ("prompts=20&prompts=30&dimensions=4", "2 times"),
        ("promts=20&dimensions=4", "Did you mean prompts"),
        ("dimensions=4&mode=offfline", "Choose online or offline or streaming"),
        ("&".join(f"k{n}=1" for n in range(MAX_KEYS + 1)), "at most"),
        ("dimensions=4&model=" + "a" * 9_000, "at most"),
    ],
)
def test_what_is_wrong_with_a_link_is_said(query: str, said: str) -> None:
    reading = from_query_string("?" + query)
    assert any(said in problem.sentence for problem in reading.problems), reading.problems


def test_the_rest_of_a_link_is_used() -> None:
    reading = from_query_string("dimensions=4&neighbours=20&index=best&prompts=500")
    assert reading.plan == SamplingPlan(dimensions=4, neighbours=20, prompts=500)
    assert [problem.field for problem in reading.problems] == ["index"]


def test_the_documents_case_is_a_link() -> None:
    _, plan = PRESETS[DOCUMENT]
    query = parse_qs(to_query_string(plan), keep_blank_values=True)
    assert (query["prompts"], query["embedding"]) == (["28000"], ["logits"])
    assert width_of(plan) == 50_304
    assert from_query_string(to_query_string(plan)).plan == plan
