"""What a message means for a plan, and without one."""

from __future__ import annotations

import random

import pytest

from accuracy.messages.proof import judged
from accuracy.messages.sentence import format_size
from planner.estimate import estimate
from planner.footprint import Footprint
from planner.importer.allocations import allocations
from planner.importer.candidates import segment_bytes
from planner.importer.diagnosis import Diagnosis, diagnose
from planner.importer.memory_errors import Frame, read_messages
from planner.importer.traceback_phases import phases_of
from planner.plan import Plan, try_plan
from planner.units import GIB, MIB
from planner.values.step_phases import UPDATE

VALUES = {
    "method": "grpo", "framework": "trl", "model": "Qwen/Qwen2.5-1.5B", "gpu": "h100-80gb",
    "gpus": 1, "rollout": "vllm-colocated", "prompts_per_step": 8, "prompts_per_update": 8,
    "responses_per_prompt": 8, "micro_batch_size": 4, "kl": "none",
    "prompt_tokens": 512, "response_tokens": 2048,
}  # fmt: skip


@pytest.fixture(scope="module")
def footprint() -> Footprint:
    plan, problems = try_plan(VALUES)
    assert plan is not None, problems
    return estimate(plan)


def said(text: str, footprint: Footprint | None = None) -> Diagnosis:
    [message] = read_messages(text)
    return diagnose(message, footprint)


def sentence(asked: int, allocated: int, unallocated: int = 0, others: str = "") -> str:
    sizes = [format_size(one) for one in (asked, 80 * GIB, 0, allocated, unallocated)]
    return (
        "CUDA out of memory. Tried to allocate {}. GPU 0 has a total capacity of {} of which {} is "
        "free. " + others + "Including non-PyTorch memory, this process has "
        f"{format_size(80 * GIB)} memory in use. Of the allocated memory {{}} is allocated "
        "by PyTorch, and {} is reserved by PyTorch but unallocated."
    ).format(*sizes)


def largest(footprint: Footprint) -> tuple[str, str, int, int]:
    """The plan's largest tensor of its update: where, what, the segment, allocated before."""
    names = [one.name for one in UPDATE]
    born = [one for one in allocations(footprint.plan) if one.phase in names and not one.first]
    one = max(born, key=lambda one: (one.tensor_bytes, one.before_bytes))
    return one.phase, one.term.name, segment_bytes(one.tensor_bytes), one.before_bytes


def test_phase_tensor_and_how_sure_are_told(footprint: Footprint) -> None:
    phase, term, asked, before = largest(footprint)
    found = said(sentence(asked, before), footprint)
    place = found.places[0]
    assert place.term is not None and (place.phase, place.term.name) == (phase, term)
    assert any(f"{term} (policy) in {phase}" in line for line in found.said)
    assert found.sure in ("one tensor", "several tensors")
    lines = " ".join(found.said)
    assert ("only tensor" in lines) is (found.sure == "one tensor")


def test_every_fix_lowers_that_phase_and_the_cheapest_kind_comes_first(
    footprint: Footprint,
) -> None:
    phase, _, asked, before = largest(footprint)
    found = said(sentence(asked, before), footprint)
    kinds = [("engine", "memory", "numbers", "training", "GPUs").index(f.kind) for f in found.fixes]
    assert kinds == sorted(kinds) and found.fixes
    for fix in found.fixes:
        changed, _ = try_plan(footprint.plan.model_dump() | dict(fix.changes))
        assert changed is not None and fix.lowered_bytes(phase) > 0
        assert estimate(changed).device_bytes == fix.after.device_bytes


def test_fragmentation_is_mended_by_the_allocator_first(footprint: Footprint) -> None:
    _, _, asked, before = largest(footprint)
    found = said(sentence(asked, before, unallocated=asked + GIB), footprint)
    assert found.message.cause == "fragmentation"
    assert found.fixes[0].changes == {"expandable_segments": True}


def test_no_change_of_the_plan_drives_another_process_off(footprint: Footprint) -> None:
    _, _, asked, before = largest(footprint)
    others = "Process 71 has 40.00 GiB memory in use. "
    found = said(sentence(asked, before, others=others), footprint)
    assert found.fixes == () and "nvidia-smi" in found.following[0]
    assert any("40 GiB of that GPU" in line for line in found.said)


def test_a_size_that_no_tensor_has_is_said_and_the_traceback_still_names_a_phase(
    footprint: Footprint,
) -> None:
    text = sentence(77_777 * MIB, 1 * GIB)
    assert any("No tensor of the plan has" in line for line in said(text, footprint).said)
    traceback = (
        "Traceback (most recent call last):\n"
        f'  File "/site/torch/optim/adamw.py", line 9, in step\n    x\n{text}'
    )
    found = said(traceback, footprint)
    assert found.sure == "phase only" and found.places[0].phase == "optimizer step"


def test_a_traceback_decides_between_moments_of_one_size(footprint: Footprint) -> None:
    plan = footprint.plan
    born = allocations(plan)
    twice = next(
        (one, other)
        for one in born
        for other in born
        if one.phase == "policy forward" and other.phase == "policy backward"
        and segment_bytes(one.tensor_bytes) == segment_bytes(other.tensor_bytes) > 64 * MIB
    )  # fmt: skip
    text = sentence(segment_bytes(twice[0].tensor_bytes), twice[0].before_bytes)
    frame = '  File "/site/torch/autograd/graph.py", line 8, in _engine_run_backward\n    x\n'
    found = said(f"Traceback (most recent call last):\n{frame}{text}", footprint)
    assert found.places[0].phase == "policy backward"


@pytest.mark.parametrize(
    ("frames", "left"),
    [
        ([("trainer.py", "training_step", ""), ("x.py", "f", "loss.backward()")],
         ("policy backward",)),
        ([("trainer.py", "training_step", ""), ("modeling_qwen2.py", "forward", "self.lm_head(x)")],
         ("policy forward",)),
        ([("x.py", "step", "optimizer.step()")], ("optimizer step",)),
        ([("ray", "WorkerDict.actor_rollout_compute_log_prob", "")],
         ("old log-probs", "reference log-probs")),
        ([("ray", "WorkerDict.ref_compute_ref_log_prob", "")], ("reference log-probs",)),
        ([("grpo_trainer.py", "_generate", "model.generate(**x)")], ("rollout", "validation")),
        ([("my.py", "main", "")], ()),
    ],
)  # fmt: skip
def test_calls_narrow_the_phases(
    frames: list[tuple[str, str, str]], left: tuple[str, ...]
) -> None:
    known = (
        *("load", "rollout", "old log-probs", "reference log-probs", "policy forward"),
        *("policy backward", "optimizer step", "weight sync", "validation"),
    )
    assert phases_of([Frame(*one) for one in frames], known)[0] == left


def test_an_engine_without_room_for_its_cache_is_not_told_to_take_less(
    footprint: Footprint,
) -> None:
    own = footprint.plan.gpu_memory_utilization
    found = said("No available memory for the cache blocks. Try increasing", footprint)
    assert found.places[0].phase == "load" and found.fixes
    assert all(fix.after.plan.gpu_memory_utilization >= own for fix in found.fixes)
    full = "Free memory on device (40.0/79.1 GiB) on startup is less than desired GPU memory "
    found = said(f"{full}utilization (0.9, 71.19 GiB).", footprint)
    assert all(fix.after.plan.gpu_memory_utilization <= own for fix in found.fixes)


def test_sglang_wants_more_to_start_and_less_to_run() -> None:
    start = said("RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.")
    assert start.following[0].startswith("Raise")
    frame = '  File "/site/sglang/srt/model_executor.py", line 8, in forward\n    x\n'
    text = sentence(GIB, 70 * GIB)
    run = said(f"Traceback (most recent call last):\n{frame}{text}")
    assert run.following[0].startswith("Lower")


def test_host_ram_is_mended_by_what_takes_less_of_it(footprint: Footprint) -> None:
    away = footprint.plan.changed(offload="all-between-phases", host_ram_per_node=2**38)
    found = said("Memory cgroup out of memory: Killed process 1 (python3)", estimate(away))
    assert any("host RAM" in line for line in found.said) and found.sure == "nothing"
    assert found.fixes
    for fix in found.fixes:
        assert (fix.after.host_bytes or 0) < (fix.before.host_bytes or 0)


def test_without_a_plan_the_text_speaks_and_asks_for_the_script() -> None:
    found = said(sentence(GIB, 70 * GIB, unallocated=256 * MIB))
    assert found.places == () and found.fixes == () and found.sure == "nothing"
    assert found.said[0].startswith("Torch asked for 1 GiB on GPU 0")
    assert "script" in found.following[-1]


def test_another_card_than_the_plans_is_said(footprint: Footprint) -> None:
    text = sentence(GIB, 20 * GIB).replace("80.00 GiB", "23.68 GiB")
    assert any("set gpu to the card" in line for line in said(text, footprint).said)


def test_a_drawn_sample_of_the_proof() -> None:
    """``python -m accuracy.messages`` has all of it; these are other plans."""
    from accuracy.pinned import table
    from planner.plan.link import from_query_string

    rows = table.read(900)
    hits: list[bool] = []
    for number in random.Random(3).sample(range(600, 900), 60):
        plan = from_query_string(rows[number].link).plan
        try:
            found = plan and judged(plan, ["a few bytes short"], random.Random(number))
        except ValueError:  # a mixture with too many tensors to play
            continue
        for one in (found or {}).values():
            hits.append((one.phase, one.term) == (one.said_phase, one.said_term))
        if len(hits) == 20:
            break
    assert len(hits) == 20 and sum(hits) >= 19


def test_a_plan_is_needed_for_births() -> None:
    plan = Plan(**VALUES)
    born = allocations(plan)
    assert born[0].phase == "load" and born[0].before_bytes == 0
    weights = [one for one in born if one.phase == "load" and one.term.name == "weights"]
    assert sum(one.many * one.tensor_bytes for one in weights) == pytest.approx(
        4 * 1_543_714_304, rel=1e-3
    )
    moments = [one for one in born if "moments" in one.term.name]
    assert moments and all(one.phase == "optimizer step" and one.first for one in moments)
