"""The replay on a card of its size: what is free is given back before a step is out of memory."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import dry_run_answers as answers
from planner import catalog
from planner.dryrun.allocator import AllocatorSettings, TraceEntry
from planner.dryrun.ask import request
from planner.dryrun.ask.answer import DryRun, answer
from planner.dryrun.ask.document import dry_run_to_json
from planner.dryrun.ask.finding import finding
from planner.dryrun.logs.lengths import fragmentation
from planner.dryrun.logs.log import BIRTH, DEATH, PHASE, STEP, Event, Log, Made
from planner.dryrun.logs.replay import replay_within
from planner.dryrun.run.worker import execute
from planner.estimate import estimate
from planner.formulas.state import DDP_BUCKETS
from planner.plan import Plan
from planner.trial.evidence.stated_error import stated_of
from planner.units import MIB

CARD = AllocatorSettings(capacity_bytes=100 * MIB)
WEIGHT = 20 * MIB


def log_of(*sizes: int, together: bool = False, earlier: tuple[int, ...] = ()) -> Log:
    """A weight, and tensors of so many MiB, one after the other or at once, in the last step."""
    log = Log()
    forward = log.name("policy forward")
    log.events = [*_births(log, 0, WEIGHT)]
    for number, step in enumerate((earlier, sizes)):
        log.events += [(STEP, number, 0), (PHASE, forward, 1)]
        first = len(log.made)
        for key, size in enumerate(step, start=first):
            log.events += _births(log, key, size * MIB)
            log.events += [] if together else [(DEATH, key, size * MIB)]
        log.events.append((PHASE, forward, 0))
    return log


def _births(log: Log, key: int, size: int) -> list[Event]:
    log.made[key] = Made(size, "op", "", "policy", "activations", (size,), "int8")
    return [(BIRTH, key, size)]


def test_a_segment_too_small_is_given_back_before_a_larger_one_is_bought() -> None:
    """20 stay, 40 are cached, 60 are asked for: 120 on an endless card, 80 on one of 100."""
    log = log_of(40, 60)
    endless = replay_within(log, replace(CARD, capacity_bytes=None))
    assert endless.phases["policy forward"].reserved_bytes == WEIGHT + 100 * MIB
    assert (endless.alloc_retries, endless.out_of_memory) == (0, False)
    found = replay_within(log, CARD)
    assert found.phases["policy forward"].reserved_bytes == WEIGHT + 60 * MIB
    assert (found.alloc_retries, found.out_of_memory) == (1, False)


def test_retries_are_those_of_the_last_step() -> None:
    found = replay_within(log_of(60, earlier=(40, 60)), CARD)
    assert (found.alloc_retries, found.allocator.num_alloc_retries) == (0, 1)


def test_what_is_needed_at_once_is_told_as_on_an_endless_card() -> None:
    trace: list[TraceEntry] = []
    found = replay_within(log_of(40, 60, together=True), CARD, trace=trace)
    assert found.out_of_memory and found.alloc_retries == 0
    assert found.phases["policy forward"].reserved_bytes == WEIGHT + 100 * MIB
    assert [entry.action for entry in trace].count("alloc") == 3, "the failed replay's are gone"
    assert "oom" not in {entry.action for entry in trace}


def test_expandable_segments_grow_into_the_pages_that_are_given_back() -> None:
    card = replace(CARD, expandable_segments=True)
    found = replay_within(log_of(40, 60), card)
    assert found.phases["policy forward"].reserved_bytes <= 100 * MIB
    assert not found.out_of_memory


def test_steps_of_other_lengths_stay_within_the_card_too() -> None:
    falling, _ = fragmentation([log_of(60), log_of(70)], CARD)
    assert falling.reserved_bytes == WEIGHT + 70 * MIB
    assert falling.alloc_retries == 1


def capacity(plan: Plan) -> int:
    found = request.capacity_of(plan)
    assert found is not None
    return found


def test_the_capacity_is_the_card_less_what_stands_beside_the_step() -> None:
    alone = Plan(model="Qwen/Qwen2.5-0.5B", method="sft", gpus=1)
    card = catalog.gpu(alone.gpu).require_budget_bytes()
    context = estimate(alone).phases[-1]
    assert card - capacity(alone) == context.device_bytes - context.reserved_bytes
    # Buckets that the executed step lacks stand beside it.
    spread = alone.changed(gpus=8, sharding="ddp")
    terms = [term for phase in estimate(spread).phases for term in phase.terms]
    buckets = max(int(term.bytes) for term in terms if term.name == DDP_BUCKETS.name)
    assert card - capacity(spread) > buckets > 0
    # So does an engine, by the little that it holds asleep.
    colocated = Plan(model="Qwen/Qwen2.5-0.5B", method="grpo", gpus=1)
    assert 2 * 2**30 > capacity(alone) - capacity(colocated) > 0


@pytest.mark.parametrize(
    "changes", [{"gpus": 8, "sharding": "zero3"}, {"optimizer": "adamw-8bit"}], ids=str
)
def test_a_step_whose_state_is_the_closed_forms_has_no_capacity(changes: dict[str, Any]) -> None:
    """It executes whole weights where ZeRO has shards: no card of the plan's holds that."""
    plan = Plan(model="Qwen/Qwen2.5-0.5B", method="sft", **{"gpus": 1, **changes})
    assert request.capacity_of(plan) is None
    told = execute({"plan": plan.model_dump(), "capacity_bytes": request.capacity_of(plan)})
    assert not told["out_of_memory"]


def test_another_card_is_another_question() -> None:
    plan = Plan(model="Qwen/Qwen2.5-0.5B", method="sft", gpus=1)
    smaller = plan.changed(gpu_bytes=30 * 2**30)
    keys = {request.key_of(each, full_depth=False) for each in (plan, smaller)}
    assert len(keys) == 2
    assert capacity(smaller) < capacity(plan)


@pytest.fixture(scope="module")
def ran() -> DryRun:
    """A run of a real A100 that measured 71.3 GiB: an endless card would hold 83.8 of 79.2.

    The plan of the row fms-a100_80gb-010 of accuracy/peaks/rows.json.
    """
    plan = Plan(
        model="mistralai/Mistral-7B-v0.1",
        method="sft",
        gpu="a100-80gb",
        gpus=1,
        sharding="none",
        dtype="bf16",
        master_dtype="none",
        gradient_dtype="bf16",
        batch_shape="full",
        attention="flash",
        optimizer="adamw-foreach",
        prompts_per_step=8,
        prompts_per_update=8,
        micro_batch_size=8,
        prompt_tokens=1,
        response_tokens=4095,
        gradient_checkpointing="full",
        logits="full",
    )
    asked = {"plan": plan.model_dump(), "capacity_bytes": request.capacity_of(plan)}
    return answer(plan, execute(asked))


def test_a_step_that_ran_is_not_called_out_of_memory(ran: DryRun) -> None:
    assert (ran.alloc_retries, ran.out_of_memory) == (1, False)
    assert ran.footprint.device_bytes < ran.footprint.budget_bytes
    assert ran.footprint.verdict.word == "tight"
    assert dry_run_to_json(ran)["dry_run"]["alloc_retries"] == 1
    assert any("frees its cache 1 time a step to stay" in said for said in finding(ran))


def test_a_step_that_fits_by_giving_memory_back_is_tight_and_says_so() -> None:
    alone, again = (
        stated_of(answer(answers.plan(), answers.found(alloc_retries=times))) for times in (0, 3)
    )
    assert alone.footprint.verdict.word == "fits"
    assert again.footprint.verdict.word == "tight"
    why = "To fit, the allocator frees its cached memory 3 times a step."
    told = alone.footprint.verdict.sentence.replace("Fits.", "Tight.")
    assert again.footprint.verdict.sentence == told
    assert {*again.footprint.verdict.lines} - {*alone.footprint.verdict.lines} == {why}
    # What nothing was given back for has no such line, and neither has what does not fit at all.
    assert not any("allocator" in line for line in alone.footprint.verdict.lines)
    small = answers.plan().changed(gpu_bytes=2**30)
    lost = answer(small, answers.found(alloc_retries=3)).footprint.verdict
    assert lost.word == "out of memory" and "allocator" not in " ".join(lost.lines)


@pytest.mark.parametrize(
    ("told", "sentence"),
    [
        ({"alloc_retries": 3}, "PyTorch frees its cache 3 times a step to stay"),
        ({"out_of_memory": True}, "The step runs out of memory even after PyTorch frees its cache"),
    ],
)
def test_what_the_card_took_is_a_sentence(told: dict[str, int], sentence: str) -> None:
    found = answer(answers.plan(), answers.found(**told))
    assert sum(said.startswith(sentence) for said in finding(found)) == 1
    usual = finding(answer(answers.plan(), answers.found()))
    assert not any(said.startswith(sentence) for said in usual)
