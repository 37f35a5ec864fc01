"""Estimates of sampling against sums by hand, and against what the pipeline was seen to hold."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from planner.formulas import sampling as formulas
from planner.sampling import SamplingPlan
from planner.sampling.answer import to_json
from planner.sampling.estimate import advice, at, curve, estimate, host_bytes_of, online_prompts
from planner.sampling.measured import Measured
from planner.sampling.presets import DOCUMENT, PRESETS
from planner.units import GIB

EMBEDDINGS = 28_000 * 50_304 * 4
DOCUMENT_PLAN = PRESETS[DOCUMENT][1]


def stage(plan: SamplingPlan, name: str, **known: Any) -> Any:
    found = estimate(plan, Measured(**known))
    return next(one for one in found.stages if one.name == name)


def terms(plan: SamplingPlan, name: str) -> dict[str, int]:
    return {term.name: int(term.bytes) for term in stage(plan, name).terms}


def test_the_documents_embeddings_exist_twice_while_they_are_joined_and_normalised() -> None:
    assert EMBEDDINGS == 5_634_048_000
    for name in ("concatenate", "normalise"):
        held = terms(DOCUMENT_PLAN, name)
        assert held["embeddings"] + held["second array of embeddings"] == 11_268_096_000
    assert estimate(DOCUMENT_PLAN).worst.name == "concatenate"
    whole = terms(DOCUMENT_PLAN.changed(assembly="in-place"), "embed")
    assert whole["embeddings"] == EMBEDDINGS
    assert "second array of embeddings" not in whole


def test_the_documents_batch_of_logits_is_824_megabytes_on_the_card() -> None:
    held = stage(DOCUMENT_PLAN, "embed")
    logits = next(term for term in held.terms if term.name == "logits of a batch")
    assert (int(logits.bytes), logits.host) == (8 * 512 * 50_304 * 4, False)
    # 12 layers, 768 wide, GPT-2's: a tied embedding of 50,304, positions, biases and norms.
    weights = next(term for term in held.terms if term.name == "weights of the model")
    assert int(weights.bytes) == 497_903_616


def test_brute_force_is_79_teraflop() -> None:
    plan = SamplingPlan(dimensions=50_304, prompts=28_000)
    search = stage(plan, "search", pair_seconds=2 / 36e9)
    assert search.seconds * 36e9 == pytest.approx(2 * 28_000**2 * 50_304)
    assert search.seconds * 36e9 == pytest.approx(78.9e12, rel=1e-3)
    assert search.seconds / 60 == pytest.approx(36.5, abs=0.1)
    assert not search.duration.assumed


def test_an_ivf_search_costs_centres_and_probed_lists() -> None:
    plan = SamplingPlan(
        prompts=10_000, dimensions=100, index="faiss-ivf", lists=50, probes=5,
        training_prompts=4_000,
    )  # fmt: skip
    known = {"pair_seconds": 1e-9, "scan_seconds": 1e-8, "read_seconds": 3e-9, "add_seconds": 5e-9}
    assert stage(plan, "train", **known).seconds == pytest.approx(10 * 4_000 * 50 * 100 * 1e-9)
    # Four million bytes are read for the centres, read again and copied into lists.
    assign = 10_000 * 50 * 100 * 1e-9 + 4e6 * (2 * 3e-9 + 5e-9)
    assert stage(plan, "assign", **known).seconds == pytest.approx(assign)
    # 10,000 prompts meet 50 centres, and 5 lists of 200.
    search = 10_000 * (50 * 100 * 1e-9 + 1_000 * 100 * 1e-8)
    assert stage(plan, "search", **known).seconds == pytest.approx(search)


def test_what_nobody_measured_is_not_made_up() -> None:
    found = to_json(estimate(SamplingPlan(dimensions=64, prompts=5_000, index="faiss-ivf")))
    seconds = {one["name"]: one["seconds"] for one in found["stages"]}
    assert seconds["embed"] is None and seconds["search"] is None
    assert found["seconds"] is None
    assert found["gpu_bytes"] is None
    assert found["recall"] is None
    assert (found["online_prompts"], found["recommended"]["mode"]) == (None, None)
    assert found["verdict"]["word"] == "unknown"
    assumed = next(one for one in found["stages"] if one["name"] == "train")["seconds_from"]
    assert assumed["assumed"] and "two cores" in assumed["source"]


@pytest.mark.parametrize(
    ("plan", "measured"),
    [
        # Peaks of anonymous memory of the pipeline's processes, RssAnon looked at every 4 ms, two
        # cores, synthetic unit vectors: docs/sampling.md.
        (SamplingPlan(prompts=28_000, dimensions=1_280, mode="offline", cores=2),
         {"search": 297.7e6}),
        (SamplingPlan(prompts=60_000, dimensions=1_280, mode="offline", cores=2,
                      index="faiss-ivf"),
         {"train": 462.5e6, "assign": 473.2e6, "search": 564.7e6}),
    ],
)  # fmt: skip
def test_host_ram_is_what_the_pipeline_was_seen_to_hold(
    plan: SamplingPlan, measured: dict[str, float]
) -> None:
    for name, seen in measured.items():
        assert stage(plan, name).host_bytes == pytest.approx(seen, rel=0.05), name


def test_a_runs_own_processes_take_the_place_of_those_measured_here() -> None:
    plan = SamplingPlan(prompts=28_000, dimensions=1_280, mode="offline")
    usual = stage(plan, "search").host_bytes
    assert stage(plan, "search", search_process_bytes=633_000_000).host_bytes == usual + 500 * 10**6


def test_disk_is_four_or_two_bytes_a_value_and_the_result() -> None:
    plan = SamplingPlan(prompts=1_000, dimensions=100)
    raw, half, _, result = estimate(plan).disk
    assert (raw.bytes, half.bytes) == (400_000, 200_000)
    assert estimate(plan).disk_bytes == 400_000 + result.bytes
    assert estimate(plan.changed(dtype="fp16")).disk_bytes == 200_000 + result.bytes


@pytest.mark.parametrize("dtype", ["fp32", "fp16"])
def test_compressed_is_what_parquet_leaves_of_random_directions(
    dtype: Literal["fp32", "fp16"], tmp_path: Path
) -> None:
    plan = SamplingPlan(prompts=4_000, dimensions=640, dtype=dtype)
    vectors = np.random.default_rng(1).standard_normal((4_000, 640), dtype=np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    column = pa.array([row.tobytes() for row in vectors.astype(dtype.replace("fp", "float"))])
    file = tmp_path / "compressed.parquet"
    pq.write_table(
        pa.table({"embedding": column}), file, compression="zstd", use_dictionary=False
    )
    size = estimate(plan).disk.compressed.bytes
    assert size == pytest.approx(file.stat().st_size, rel=0.01)
    own = estimate(plan, Measured(compressed_share=0.5)).disk.compressed.bytes
    assert own == 4_000 * 640 * (4 if dtype == "fp32" else 2) // 2, "a run's own"


def test_online_ends_where_its_peak_is_the_host_ram() -> None:
    for plan in (DOCUMENT_PLAN, DOCUMENT_PLAN.changed(assembly="in-place")):
        limit = online_prompts(plan)
        assert limit is not None
        assert host_bytes_of(at(plan, prompts=limit)) <= plan.host_ram
        assert host_bytes_of(at(plan, prompts=limit + 1)) > plan.host_ram
    # The two arrays of 50,304 fp32 values alone would leave room for 64,040.
    assert online_prompts(DOCUMENT_PLAN) == pytest.approx(62_700, rel=0.01)
    assert online_prompts(DOCUMENT_PLAN.changed(host_ram=1)) == 0


def test_the_curve_is_the_estimate_at_every_number_of_prompts() -> None:
    prompts = np.array([28_000, 280_000, 2_800_000, 28_000_000])
    for plan in (
        DOCUMENT_PLAN,
        SamplingPlan(dimensions=1_280, dtype="fp16", index="faiss-flat", mode="streaming"),
        SamplingPlan(dimensions=1_280, index="faiss-ivf", mode="offline", prompts=280_000),
    ):
        found = curve(plan, prompts)
        assert set(found) == {"online", "offline", "streaming"}
        own = [estimate(plan.changed(prompts=int(one))).host_bytes for one in prompts]
        assert found[plan.mode].tolist() == own
        assert (np.diff(found["online"]) > 0).all()


def test_streaming_flat_holds_no_more_as_prompts_grow_but_for_places_and_weights() -> None:
    plan = SamplingPlan(dimensions=1_280, index="faiss-flat", mode="streaming")
    few, many = curve(plan, np.array([1_000_000, 28_000_000]))["streaming"]
    assert many - few < 28_000_000 * 200
    assert many < 28_000_000 * 1_280 * 4 / 20


def test_the_recommended_mode_is_the_first_that_fits() -> None:
    plan = SamplingPlan(
        prompts=28_000, model="Qwen/Qwen2.5-0.5B", device="h100-80gb", host_ram=24 * GIB
    )
    assert advice(plan).mode == "online"
    # The search alone would keep each start waiting: 2·N²·d at 8 cores' assumed 144 GFLOP/s.
    slow = advice(plan.changed(prompts=1_000_000))
    assert slow.mode == "offline" and "at every start" in slow.reason
    wide = SamplingPlan(prompts=2_800_000, dimensions=50_304, host_ram=24 * GIB)
    streamed = advice(wide)
    assert streamed.mode == "streaming" and "offline needs 525.0 GiB" in streamed.reason
    assert advice(wide.changed(host_ram=GIB // 4)).mode is None
    listed = advice(wide.changed(index="faiss-ivf"))
    assert listed.plan is not None and listed.plan.index == "faiss-flat"


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"host_ram": 64 * GIB}, "fits"),
        ({"host_ram": 6 * GIB}, "tight"),
        ({"host_ram": 5 * GIB}, "out of memory"),
        ({"host_ram": 64 * GIB, "disk": GIB}, "out of memory"),
    ],
)
def test_the_verdict_is_by_host_ram_and_disk(changes: dict[str, int], word: str) -> None:
    plan = SamplingPlan(dimensions=50_304, mode="offline", **changes)
    assert estimate(plan).word == word


def test_a_card_too_small_for_the_model_is_said() -> None:
    plan = SamplingPlan(model="Qwen/Qwen2.5-32B", device="rtx-4090", host_ram=64 * GIB)
    found = estimate(plan)
    assert found.word == "out of memory" and "RTX 4090" in found.sentence


def test_every_number_has_formula_inputs_and_source() -> None:
    for plan in (
        *(plan for _, plan in PRESETS.values()),
        SamplingPlan(dimensions=256, index="faiss-flat", mode="streaming", dtype="fp16"),
        SamplingPlan(model="Qwen/Qwen2.5-0.5B", embedding="logits"),
    ):
        for one in estimate(plan).stages:
            assert one.host_bytes == sum(int(t.bytes) for t in one.terms if t.host)
            for term in one.terms:
                assert term.formula and term.source, term.name
                code = compile(term.formula, "", "eval")
                scope = {**formulas.WEIGHING.__class__.__call__.__globals__["SCOPE"], **term.inputs}
                assert int(eval(code, scope)) == int(term.bytes) or term.layout, term.name


def test_what_a_person_should_doubt_is_said() -> None:
    said = " ".join(estimate(DOCUMENT_PLAN.changed(dimensions=65_536, favour="common")).warnings)
    assert "50,304 values, not 65,536" in said
    assert "all embeddings are copied twice" in said
    assert "favours common prompts" in said
