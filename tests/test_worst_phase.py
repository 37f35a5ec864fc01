"""The phase that makes the peak: memory that a phase finds cached by another is not its own."""

from __future__ import annotations

from typing import Any

import pytest

import dry_run_answers as answers
from dry_run_answers import phase
from planner.answer import to_json
from planner.dryrun.allocator import AllocatorSettings
from planner.dryrun.ask.answer import answer
from planner.dryrun.logs.log import BIRTH, DEATH, PHASE, STEP, Log, Made
from planner.dryrun.logs.replay import replay
from planner.estimate import estimate
from planner.footprint import Phase, trainers_own, worst_of
from planner.plan import Plan
from planner.plan.methods import methods
from planner.plan.presets import presets
from planner.sweeps.table import sweep
from planner.units import GIB, MIB
from planner.values.step_phases import Moment, StepPhase

COLOCATED: dict[str, Any] = {
    "model": "Qwen/Qwen3-4B",
    "method": "grpo",
    "rollout": "vllm-colocated",
    "gpu": "h100-80gb",
    "gpus": 1,
    "sharding": "none",
    "gradient_checkpointing": "none",
    "empty_cache": "never",
}
"""The engine decodes beside all that the backward has cached, and needs less by itself."""


def made(name: str, reserved: int, inherited: int = 0, outside: int = 0, **more: Any) -> Phase:
    return Phase(
        kind=StepPhase(name, Moment(name), None),
        role="policy",
        rank=more.get("rank", "trainer"),
        instant="",
        terms=(),
        requested_bytes=reserved - inherited,
        allocated_bytes=reserved - inherited,
        reserved_bytes=reserved,
        device_bytes=reserved + outside,
        host_bytes=0,
        seconds=None,
        inherited_bytes=inherited,
    )


def test_the_phase_that_made_the_cache_is_the_worst_one() -> None:
    backward, save = made("backward", 70, outside=1), made("checkpoint", 70, 32, outside=2)
    assert worst_of([backward, save]) is backward


def test_a_phase_that_needs_more_itself_beside_the_cache_is_the_worst_one() -> None:
    # 10 of its own and 45 of the engine's, beside 20 that the backward left.
    backward, rollout = made("backward", 30, outside=1), made("rollout", 30, 20, outside=45)
    load = made("load", 12, outside=45)
    assert worst_of([load, rollout, backward]) is rollout


def test_other_gpus_make_no_cache_of_the_trainers() -> None:
    engine = made("rollout", 60, rank="rollout")
    backward, save = made("backward", 50, outside=1), made("checkpoint", 50, 30, outside=12)
    assert worst_of([engine, backward, save]) is backward


def test_an_estimate_names_the_phase_that_makes_the_peak() -> None:
    found = estimate(Plan(**COLOCATED))
    phases = {one.name: one for one in found.phases}
    assert phases["rollout"].device_bytes > phases["policy backward"].device_bytes
    assert found.worst is phases["policy backward"]
    assert found.device_bytes == phases["rollout"].device_bytes
    assert found.verdict.word == "out of memory"
    assert found.verdict.sentence.endswith(" GiB, during policy backward.")
    assert any(line.startswith("vLLM reserves") for line in found.verdict.lines)
    data = to_json(found)
    assert data["device_bytes"] == found.device_bytes
    assert data["allocated_bytes"] == phases["policy backward"].allocated_bytes
    assert data["requested_bytes"] == phases["policy backward"].requested_bytes


@pytest.mark.parametrize("empty_cache", ["never", "every-step", "between-phases"])
def test_a_sweep_names_the_same_phase(empty_cache: str) -> None:
    plan = Plan(**{**COLOCATED, "empty_cache": empty_cache})
    values = [512, 4096, 16384]
    for row in sweep(plan, {"response_tokens": values}).to_dict("records"):
        length = int(row["response_tokens"])
        one = estimate(
            plan.changed(response_tokens=length, validation_response_tokens=length)
        )
        assert (row["worst_phase"], row["device_bytes"]) == (one.worst.name, one.device_bytes)
        assert row["requested_bytes"] == one.worst.requested_bytes
        assert row["reserved_bytes"] == one.worst.reserved_bytes


def test_a_dry_run_names_the_phase_that_makes_the_peak() -> None:
    """The checkpoint stays the estimate's, with what the estimate's own backward left cached."""
    few = [phase("policy backward", {"parameters": 1, "activations": 2})]
    found = answer(answers.plan(gradient_checkpointing="none"), answers.found(phases=few))
    saved = next(one for one in found.footprint.phases if one.name == "checkpoint")
    assert saved.device_bytes == max(one.device_bytes for one in found.footprint.phases)
    assert saved.inherited_bytes > 10 * GIB
    assert found.footprint.worst.name != "checkpoint"


def test_what_a_replayed_phase_finds_cached_and_never_uses_is_inherited() -> None:
    log = Log()

    def lives(phase: str, key: int, size: int) -> None:
        log.made[key] = Made(size, "op", "", "policy", "activations", (size,), "int8")
        begins = (PHASE, log.name(phase), 1)
        log.events += [begins, (BIRTH, key, size), (DEATH, key, size), (PHASE, 0, 0)]

    log.events.append((STEP, 0, 0))
    lives("backward", 0, 100 * MIB)
    lives("optimizer step", 1, 40 * MIB)
    held = replay(log, AllocatorSettings()).phases
    assert held["backward"].inherited_bytes == 0
    assert held["optimizer step"].reserved_bytes == 100 * MIB
    assert held["optimizer step"].inherited_bytes == 60 * MIB


def test_the_trainers_own_peak_is_of_its_tensors_in_its_phases() -> None:
    sizes = [("trainer", 30), ("rollout", 90), ("trainer", 50), ("trainer", 40)]
    assert trainers_own(sizes) == 50


@pytest.mark.parametrize("method", methods())
def test_it_is_the_sum_of_what_the_trainer_made(method: str) -> None:
    """Terms of any phase but the engine's, the driver's and the allocator's."""
    asked = {name: value for name, value in COLOCATED.items() if name not in ("method", "rollout")}
    found = estimate(Plan(**asked, method=method))
    others = ("engine", "device", "allocator")
    sums = [
        sum(term.bytes for term in one.terms if term.category not in others and not term.host)
        for one in found.phases
    ]
    assert found.trainer_bytes == max(sums)
    budget = found.budget_bytes
    # Its share, and beside it embeddings of 8,192 tokens.
    pool = int(0.5 * budget) + 8192 * 2560 * 2
    engine = found.plan.rollout == "vllm-colocated"
    assert engine == (methods()[method].generates and methods()[method].engines)
    assert found.engine_bytes == (pool if engine else 0)


def test_an_engine_of_its_own_is_beside_no_trainer() -> None:
    found = estimate(Plan(rollout="vllm-separate", gpus=9, rollout_gpus=1, gpus_per_node=1))
    assert found.engine_bytes == 0
    assert max(found.phases, key=lambda one: one.device_bytes).rank == "rollout"


def test_document_000s_own_peaks_grow_where_the_pool_hides_it() -> None:
    """From 2,000 to 8,000 tokens, a third of them prompt, with and without a critic."""
    lengths = [2_000, 8_000]
    for method, more, own in (
        ("intuitor", {}, (13.3, 42.8)),
        ("ppo", {"critic": "separate", "kl": "loss"}, (15.4, 45.0)),
    ):
        plan = presets()["intuitor-1.5b@1"].plan.changed(
            method=method, self_certainty="full", **more
        )
        for tokens, gib in zip(lengths, own, strict=True):
            prompt = tokens // 3
            rest = tokens - prompt
            found = estimate(
                plan.changed(
                    prompt_tokens=prompt, response_tokens=rest, validation_response_tokens=rest
                )
            )
            assert found.trainer_bytes / GIB == pytest.approx(gib, abs=0.06)
            assert found.engine_bytes / GIB == pytest.approx(39.6, abs=0.05)
