"""Logs as what was measured; where they can be, lines are made by the libraries that print them."""

from __future__ import annotations

import ast
import io
import json
import logging
import time
from contextlib import redirect_stdout
from functools import cache
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from planner.estimate import estimate
from planner.importer.logs import LoggedLengths, read_logs
from planner.importer.logs.as_trial import as_trial
from planner.importer.logs.beside import beside, length_fields
from planner.plan import Plan, try_plan
from planner.plan.lengths import lengths_of
from planner.trial.ask.result import read_result, result_json
from planner.trial.evidence.calibration import calibration, kind_of, ratios
from planner.trial.evidence.correction import apply
from planner.units import GIB, MIB

VALUES: dict[str, Any] = {
    "method": "grpo", "framework": "verl", "model": "Qwen/Qwen2.5-1.5B", "gpu": "h100-80gb",
    "gpus": 8, "prompt_tokens": 512, "response_tokens": 1024, "rollout": "vllm-colocated",
}  # fmt: skip


def plan_of(**changes: Any) -> Plan:
    plan, problems = try_plan(VALUES | changes)
    assert plan is not None, problems
    return plan


@cache
def aggregate_logger() -> Any:
    """verl's module alone, without the package around it, which takes long to import."""
    package = find_spec("verl")
    if package is None:
        pytest.skip("verl is not installed")
    file = f"{package.submodule_search_locations[0]}/utils/logger/aggregate_logger.py"
    spec = spec_from_file_location("aggregate_logger", file)
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def verl_lines(steps: list[dict[str, Any]]) -> str:
    logger = aggregate_logger()
    lines = [logger.concat_dict_to_str(row, step=at) for at, row in enumerate(steps, 1)]
    return "\n".join(f"(TaskRunner pid=33) {line}" for line in lines)


STEP = {
    "actor/entropy": 0.2, "perf/max_memory_allocated_gb": 41.25, "perf/cpu_memory_used_gb": 120.0,
    "perf/max_memory_reserved_gb": 44.5, "timing_s/gen": 12.5, "timing_s/old_log_prob": 3.0,
    "timing_s/update_actor": 9.0, "timing_s/step": 30.0, "response_length/mean": 400.0,
    "response_length/max": 1024.0, "response_length/min": 12.0, "response_length/clip_ratio": 0.03,
    "prompt_length/mean": 88.0, "prompt_length/max": 200.0, "perf/total_num_tokens": 100_000,
}  # fmt: skip


def test_verls_console_lines() -> None:
    numpy = pytest.importorskip("numpy")
    first = STEP | {"timing_s/gen": 99.0, "perf/max_memory_allocated_gb": 60.0}
    second = STEP | {"timing_s/gen": numpy.float64(14.5)}
    [found] = read_logs(verl_lines([first, STEP, second]))
    figures = {one.words: one for one in found.figures}
    assert found.steps == 3 and found.step_tokens == 100_000
    assert figures["timing_s/gen"].value == 13.5  # the first step warms up
    assert figures["timing_s/update_actor"].phases == (
        *("policy forward", "policy backward", "optimizer step"),
    )
    assert figures["perf/max_memory_allocated_gb"].value == 60 * GIB
    assert found.lengths == LoggedLengths(
        mean=400, shortest=12, longest=1024, cut=0.03, prompt_mean=88, prompt_longest=200
    )
    assert found.counts_engine and "vLLM" in found.notes[0]


@cache
def memory_line() -> Any:
    """verl's own function alone, on a card that says what it is told."""
    package = find_spec("verl")
    if package is None:
        pytest.skip("verl is not installed")
    file = Path(package.submodule_search_locations[0]) / "utils/profiler/performance.py"
    tree = ast.parse(file.read_text("utf-8"))
    name = "log_gpu_memory_usage"
    tree.body = [one for one in tree.body if getattr(one, "name", "") == name]
    names: dict[str, Any] = {"logging": logging, "dist": SimpleNamespace()}
    names["dist"].is_initialized = lambda: False
    exec(compile(tree, str(file), "exec"), names)

    def said(head: str, *sizes: str) -> str:
        names["_get_current_mem_info"] = lambda: sizes
        printed = io.StringIO()
        with redirect_stdout(printed):
            names[name](head)
        return printed.getvalue()

    return said


def test_verls_lines_between_phases() -> None:
    line = memory_line()
    lines = (
        line("rank 0: Before FSDP", "0.00", "0.00", "0.52", "79.10"),
        line("After FSDP", "3.01", "3.25", "4.10", "79.10"),
        line("After FSDP", "2.90", "3.50", "4.00", "79.10"),
        "Before generate_sequences, memory allocated (GB): 7.50, memory reserved (GB): 9.00\n",
    )
    text = "".join(f"(WorkerDict pid=71) {one}" for one in lines)
    [found] = read_logs(text)
    assert {one.words: one.value / GIB for one in found.figures} == {
        "After FSDP, allocated": 3.01,
        "After FSDP, reserved": 3.50,
        "After FSDP, device": 4.10,
        "Before FSDP, device": 0.52,
        "Before generate_sequences, allocated": 7.50,
        "Before generate_sequences, reserved": 9.00,
    }
    # They are of no peak: nothing of the plan stands beside them, and nothing is corrected by them.
    assert all(one.estimated is None for one in beside(found, estimate(plan_of())))
    [both] = read_logs(text + verl_lines([STEP]))
    assert both.steps == 1 and len(both.figures) > 6
    with pytest.raises(ValueError, match="no memory of training"):
        as_trial([found], plan_of())


TABLE = """\
Top 10 memory users: PID\tMEM(GB)\tCOMMAND
3471\t12.50\tray::WorkerDict.actor_rollout_generate_sequences
3472\t12.25\tray::WorkerDict.actor_rollout_generate_sequences
2936\t4.10\t
3815\t2.46\tray::TaskRunner.run
2421\t0.05\tray::RuntimeEnvAgent
"""


@pytest.mark.parametrize("form", [TABLE, TABLE.replace("\n", ", "), TABLE.replace("\t", " ")])
def test_rays_largest_processes(form: str) -> None:
    node = "Memory on the node (IP: 10.0.0.7, ID: 90ef) was 118.20GB used / 124.00GB limit (0.95)\n"
    [found] = read_logs(f"(raylet) {node}OOM kill reason: it is full\n{form}")
    [figure] = found.figures
    assert (figure.quantity, figure.value) == ("host_bytes", pytest.approx(118.20 * GIB))
    assert found.notes[1:3] == (
        "ray::WorkerDict.actor_rollout_generate_sequences: 24.8 GiB, 2 of its processes together.",
        "ray::TaskRunner.run: 2.46 GiB, 1 of its processes together.",
    )


def test_transformers_and_trls_history_as_it_is_printed() -> None:
    callback = pytest.importorskip("transformers.trainer_callback").PrinterCallback()
    printed = io.StringIO()
    state = SimpleNamespace(is_local_process_zero=True)
    with redirect_stdout(printed):
        for at, seconds in enumerate((40.0, 10.0, 11.0), 1):
            row = {
                "loss": 0.01, "num_tokens": 12_000.0 * at, "completions/mean_length": 210.5,
                "completions/max_length": 500.0, "completions/min_length": 20.0,
                "completions/clipped_ratio": 0.0, "step_time": seconds, "epoch": 0.01,
            }  # fmt: skip
            callback.on_log(None, state, None, logs=row)
    [found] = read_logs(f"[rank0]: noise\n{printed.getvalue()}")
    assert (found.form, found.steps, found.step_tokens) == ("TRL", 3, 12_000)
    assert [one.value for one in found.figures] == [10.5]
    assert found.lengths is not None and found.lengths.longest == 500


def test_a_trainers_state_with_bytes() -> None:
    rows: list[dict[str, Any]] = [{"loss": 1.0, "step": at} for at in range(4)]
    rows.append({
        "train_steps_per_second": 0.25, "train_runtime": 16.0, "before_init_mem_gpu": 1 * MIB,
        "init_mem_gpu_alloc_delta": 100 * MIB, "train_mem_gpu_alloc_delta": 200 * MIB,
        "train_mem_gpu_peaked_delta": 700 * MIB,
    })  # fmt: skip
    [found] = read_logs(json.dumps({"log_history": rows, "global_step": 4}, indent=1))
    assert (found.form, found.steps) == ("transformers", 4)
    assert {one.quantity: one.value for one in found.figures} == {
        "seconds": 4.0,
        "allocated_bytes": 1001 * MIB,
    }


VLLM = """\
(EngineCore_DP0 pid=212) INFO 10-06 12:00:31 [model.py:3480] Model loading took 2.8871 GiB and 6 s
(EngineCore_DP0 pid=212) INFO 10-06 12:00:31 [worker.py:440] Available KV cache memory: 10.56 GiB
(EngineCore_DP0 pid=212) INFO 10-06 12:00:31 [kv.py:1087] GPU KV cache size: 49,152 tokens
INFO 10-06 12:00:40 [runner.py:3480] Graph capturing finished in 8 secs, took 0.31 GiB
INFO Sleep mode freed 65.37 GiB memory, 4.29 GiB memory is still in use.
"""


def test_vllms_start_stands_beside_its_terms() -> None:
    footprint = estimate(plan_of())
    [found] = read_logs(VLLM)
    by_term = {one.figure.term: one for one in beside(found, footprint)}
    assert by_term["vLLM weights"].ratio == pytest.approx(1.0, abs=0.02)
    assert by_term["vLLM KV cache"].figure.value == pytest.approx(10.56 * GIB)
    assert by_term["vLLM CUDA graphs"].estimated
    assert "49,152 tokens" in found.notes[0] and "4.29 GiB" in found.notes[1]


@pytest.mark.parametrize(
    "text",
    [
        "index, memory.used [MiB], memory.total [MiB]\n0, 61000 MiB, 9\n1, 61234 MiB, 9",
        "memory.total [MiB], memory.used [MiB]\n81559, 61234\n81559, 9\nend",
        "| N/A   35C    P0     70W / 400W |   61234MiB / 81559MiB |      0%      Default |",
    ],
)
def test_nvidia_smi(text: str) -> None:
    [found] = read_logs(text)
    assert [(one.quantity, one.value) for one in found.figures] == [("device_bytes", 61234 * MIB)]


def test_torchs_own_memory_summary(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = pytest.importorskip("torch.cuda.memory")
    peaks = {"allocated_bytes": 41 * GIB, "requested_bytes": 40 * GIB, "reserved_bytes": 44 * GIB}

    class Stats(dict[str, int]):
        def __missing__(self, name: str) -> int:
            return 0

    stats = Stats({f"{name}.all.peak": size for name, size in peaks.items()})
    stats |= {f"{name}.all.current": size for name, size in peaks.items()}
    stats["num_ooms"] = 1
    stats["num_alloc_retries"] = 3
    for name in ("allocated", "active", "requested", "reserved", "inactive_split"):
        for pool in ("all", "large_pool", "small_pool"):
            for what in ("current", "peak", "allocated", "freed"):
                stats.setdefault(f"{name}_bytes.{pool}.{what}", 0)
    for name in ("allocation", "active", "segment", "inactive_split"):
        for pool in ("all", "large_pool", "small_pool"):
            for what in ("current", "peak", "allocated", "freed"):
                stats.setdefault(f"{name}.{pool}.{what}", 0)
    for name in ("oversize_allocations", "oversize_segments"):
        for what in ("current", "peak", "allocated", "freed"):
            stats.setdefault(f"{name}.{what}", 0)
    monkeypatch.setattr(memory, "memory_stats", lambda device=None: stats)
    monkeypatch.setattr(memory, "_get_device_index", lambda device, optional: 0)
    [found] = read_logs(memory.memory_summary())
    assert {one.quantity: one.value for one in found.figures} == peaks
    assert found.censored and "3 times" in found.notes[0]


def test_figures_stand_beside_the_phases_that_they_cover() -> None:
    footprint = estimate(plan_of())
    [found] = read_logs(verl_lines([STEP]))
    told = {one.figure.words: one for one in beside(found, footprint)}
    seconds = {one.name: one.seconds or 0.0 for one in footprint.phases}
    update = seconds["policy forward"] + seconds["policy backward"] + seconds["optimizer step"]
    assert told["timing_s/update_actor"].estimated == pytest.approx(update)
    assert told["timing_s/step"].estimated == footprint.step_seconds
    most = max(one.allocated_bytes for one in footprint.phases if one.rank == "trainer")
    assert told["perf/max_memory_allocated_gb"].estimated == most


def test_lengths_become_the_plans_fields() -> None:
    plan = plan_of()
    cut = LoggedLengths(mean=400, longest=1024, cut=0.03, prompt_mean=88.4)
    told = plan.changed(**length_fields(cut, plan))
    lengths = lengths_of(told)
    assert told.mean_prompt_tokens == 88
    assert float(lengths.mean) == pytest.approx(400, rel=0.03)
    assert float(lengths.reaching(1024)) == pytest.approx(0.03, abs=0.012)
    whole = LoggedLengths(mean=200, longest=600, cut=0.0)
    lengths = lengths_of(plan.changed(**length_fields(whole, plan)))
    assert float(lengths.mean) == pytest.approx(200, rel=0.03)
    responses = plan.prompts_per_step * plan.responses_per_prompt
    assert float(lengths.longest_of(responses)) == pytest.approx(600, rel=0.05)
    assert length_fields(LoggedLengths(mean=200), plan) == {}
    with pytest.raises(ValueError, match=r"^lengths: .*above the plan's 1,024"):
        length_fields(LoggedLengths(mean=900, longest=4096, cut=0.0), plan)


def test_a_log_calibrates_as_a_trial_does() -> None:
    plan = plan_of(rollout="hf", framework="plain")
    footprint = estimate(plan)
    seconds = {one.name: one.seconds or 0.0 for one in footprint.phases}
    most = max(one.allocated_bytes for one in footprint.phases if one.rank == "trainer")
    step = {
        "timing_s/gen": 1.25 * seconds["rollout"],
        "timing_s/update_actor": 0.8
        * (seconds["policy forward"] + seconds["policy backward"] + seconds["optimizer step"]),
        "perf/max_memory_allocated_gb": 1.1 * most / GIB,
    }
    shape = plan.changed(length_distribution="1~hist_1024~1")
    result = as_trial(read_logs(verl_lines([step])), shape)
    assert read_result(result_json(result)) == result
    factors, _ = calibration([result], kind_of(result))
    found = {(one.phase, one.quantity): one.factor for one in factors.factors}
    assert found["rollout", "seconds"] == pytest.approx(1.25, abs=0.02)
    assert found["policy backward", "seconds"] == pytest.approx(0.8, abs=0.02)
    [(_, allocated)] = [one for one in found.items() if one[0][1] == "allocated"]
    assert allocated == pytest.approx(1.1, abs=0.01)
    corrected = apply(factors, estimate(shape)).footprint
    now = max(one.allocated_bytes for one in corrected.phases if one.rank == "trainer")
    assert now == pytest.approx(1.1 * most, rel=0.01)
    at_caps = as_trial(read_logs(verl_lines([step])), plan)
    assert {one.quantity for one in ratios([at_caps], kind_of(at_caps))} == {"allocated"}


def test_verls_peaks_with_an_engine_in_them_correct_nothing() -> None:
    result = as_trial(read_logs(verl_lines([STEP])), plan_of())
    assert result.measured is not None
    assert all(one.allocated_bytes is None for one in result.measured.phases)
    with pytest.raises(ValueError, match="no memory of training and no seconds by phase"):
        as_trial(read_logs(VLLM), plan_of())


HOSTILE = (
    *('{"source":"trial"', "phase  dry run, a measured, reserved\n", "Memory on the node was "),
    *(", memory allocated (GB): 1", "Top 10 memory users\n1 2.00 a\n"),
    *("{'loss': ", "step:1 - a:", "step:1 - a:1 - \n", "| 1MiB / 2MiB |\n", "memory.used\n0\n"),
    *('{"log_history":[', "'", "{'loss': '1', 'b': '2'}", "KV cache size: 1\n"),
)


@pytest.mark.parametrize("text", HOSTILE)
def test_anything_is_read_in_no_time(text: str) -> None:
    whole = (text * (10 * 2**20 // len(text)))[: 10 * 2**20]
    start = time.process_time()
    read_logs(whole)
    assert time.process_time() - start < 3


def test_a_text_without_a_log_gives_nothing() -> None:
    assert read_logs("python train.py --steps 3\nstep: three\n{'a': 1}\n") == ()
