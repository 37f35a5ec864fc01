"""The measuring command, dry: its cases are plans, its loop runs, and its file is reported."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from accuracy import gpu, gpu_report
from accuracy.gpu_cases import Case, cases
from accuracy.tiny import CONFIGS
from planner import catalog
from planner.estimate import estimate
from planner.plan import Plan
from planner.plan.methods import methods
from planner.trial.run.meter import PhaseLog, WallClock

HERE = Path(__file__).parent
PLACE = gpu.Place(device="cpu", meter="counted_meter.Counted", limit_seconds=600)


@pytest.fixture(autouse=True)
def _found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The processes of cases find the stand-in meters."""
    monkeypatch.syspath_prepend(HERE)
    torch.set_num_threads(1)


def tiny(**changes: Any) -> Plan:
    values: dict[str, Any] = {
        "model": "tiny/model",
        "config": catalog.encode_config({**CONFIGS["llama"], "model_type": "llama"}),
        "method": "sft",
        "gpus": 1,
        "sharding": "none",
        "master_dtype": "none",
        "dtype": "fp32",
        "prompts_per_step": 2,
        "micro_batch_size": 1,
        "prompt_tokens": 25,
        "response_tokens": 23,
        "batch_shape": "full",
        "attention": "eager",
        "logits": "full",
        "gradient_checkpointing": "none",
        **changes,
    }
    return Plan(**values)


ADAPTED: dict[str, Any] = {
    "method": "grpo",
    "finetuning": "lora",
    "reference": "adapter-disabled",
    "rollout": "hf",
    "responses_per_prompt": 2,
    "prompts_per_step": 1,
    "response_tokens": 5,
}
SHARDED: dict[str, Any] = {
    "gpus": 4,
    "sharding": "fsdp2",
    "prompts_per_step": 8,
    "dtype": "bf16",
    "master_dtype": "fp32",
}


def test_cases_are_plans_of_every_method_and_switch_for_large_cards_and_small() -> None:
    found = list(cases("h200-141gb"))
    assert len(found) >= 60
    assert len({case.name for case in found}) == len(found)
    plans = [case.plan for case in found]
    seen: dict[str, set[Any]] = {
        field: {getattr(plan, field) for plan in plans}
        for field in ("method", "finetuning", "gradient_checkpointing", "batch_shape", "attention")
    }
    assert seen["method"] == methods().keys()
    assert seen["finetuning"] == {"full", "lora"}
    assert seen["gradient_checkpointing"] == {"none", "full"}
    assert seen["batch_shape"] == {"full", "padded"}
    assert seen["attention"] == {"sdpa", "eager"}
    assert {plan.rollout for plan in plans} >= {"hf", "vllm-separate"}
    assert "cached-logprobs" in {plan.reference for plan in plans}
    assert sum(plan.sharding == "fsdp2" for plan in plans) >= 5
    assert sum(case.cap_bytes > 0 for case in found) >= 5
    near = [estimate(case.plan) for case in found if "capacity=" in case.name]
    shares = [footprint.device_bytes / footprint.budget_bytes for footprint in near]
    assert sum(0.9 <= share <= 1.1 for share in shares) >= 10
    small = list(cases("rtx-4090"))
    assert 40 <= len(small) < len(found)


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """The loop's file over tiny plans: three that run and one that runs out of memory."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(HERE)
        out = tmp_path_factory.mktemp("gpu") / "gpu-test.json"
        found = [
            Case("supervised", tiny()),
            Case("group", tiny(**ADAPTED)),
            Case("too much", tiny(), cap_bytes=1_500_000),
        ]
        gpu.measure(found, out, PLACE, {"gpu": "h100-80gb", "driver": None})
        uncounted = replace(PLACE, meter="counted_meter.Uncounted")
        others = [Case("rank", tiny(**SHARDED)), Case("trainer", tiny(framework="trl"))]
        gpu.measure(others, out, uncounted, {})
        gpu.predict(out)
    yield json.loads(out.read_text("utf-8"))


def test_each_case_has_its_phases_predictions_and_versions(measured: dict[str, Any]) -> None:
    rows = {row["name"]: row for row in measured["cases"]}
    assert list(rows) == ["supervised", "group", "too much", "rank", "trainer"]
    assert measured["gpu"] == "h100-80gb"
    last = rows["supervised"]["measured"]["steps"][-1]
    names = ("policy forward", "policy backward", "optimizer step")
    assert tuple(last) == names
    assert [last[name]["entered"] for name in names] == [2, 2, 1]
    assert all(phase["seconds"] > 0 for phase in last.values())
    assert rows["supervised"]["measured"]["versions"]["torch"] == torch.__version__
    phases = tuple(rows["group"]["measured"]["steps"][-1])
    assert phases[:3] == ("rollout", "old log-probs", "reference log-probs")
    for source in ("estimate", "dry run"):
        for name in phases:
            assert set(gpu.LEVELS) < set(rows["group"]["predicted"][source][name])
    assert len(rows["supervised"]["measured"]["steps"]) == 3
    assert tuple(rows["rank"]["measured"]["steps"][-1]) == names
    assert tuple(rows["trainer"]["measured"]["steps"][-1]) == names
    assert rows["trainer"]["measured"]["versions"]["trl"] == "1.16.0"


def test_a_small_step_is_what_the_predictions_say(measured: dict[str, Any]) -> None:
    """The stand-in counts every live byte; a CPU has no cuBLAS workspaces (64 MiB on an H100)."""
    row = measured["cases"][0]
    for name, phase in row["measured"]["steps"][-1].items():
        for source in ("estimate", "dry run"):
            said = row["predicted"][source][name]["requested_bytes"] - 64 * 2**20
            assert said == pytest.approx(phase["requested_bytes"], rel=5e-3), (name, source)


def test_running_out_of_memory_is_a_result_with_its_phase(measured: dict[str, Any]) -> None:
    failed = measured["cases"][2]["measured"]["failed"]
    assert failed["kind"] == "out of memory"
    assert failed["phase"] in ("build", "policy forward", "policy backward", "optimizer step")
    assert failed["message"].startswith("OutOfMemoryError: tried to allocate")
    assert "more words" not in failed["message"]


def test_a_dead_process_is_a_result_and_the_file_is_resumed(tmp_path: Path) -> None:
    out = tmp_path / "gpu.json"
    one = Case("dies", tiny(), cap_bytes=1)
    dies = replace(PLACE, meter="counted_meter.Dies")
    gpu.measure([one], out, dies, {"gpu": "h100-80gb"})
    (row,) = json.loads(out.read_text("utf-8"))["cases"]
    assert row["measured"]["failed"]["kind"] == "crash"
    assert "exit status 7" in row["measured"]["failed"]["message"]
    again = gpu.measure([one], out, replace(PLACE, meter="no.such.Meter"), {})
    assert again["cases"] == [row]


def test_a_phase_entered_again_keeps_its_highest_peak_and_all_its_time() -> None:
    class Says(WallClock):
        numbers = iter((0, 5, 9, 7))

        def reset(self) -> None:
            pass

        def read(self) -> dict[str, int]:
            return {"allocated_bytes": next(self.numbers)}

    log = PhaseLog(Says())  # type: ignore[arg-type]
    log.step()
    for _ in range(3):
        log.on_phase("policy forward", True)
        log.on_phase("policy forward", False)
    (phase,) = log.steps[0].values()
    assert phase["allocated_bytes"] == 9
    assert phase["entered"] == 3
    log.on_phase("policy backward", True)
    with pytest.raises(RuntimeError, match="gone"):
        try:
            raise RuntimeError("gone")
        finally:
            log.on_phase("policy backward", False)
    assert log.current == "policy backward"


def test_the_report_leaves_out_what_is_censored_and_signs_errors(measured: dict[str, Any]) -> None:
    found = gpu_report.errors(measured["cases"])
    assert {error.case for error in found} == {"supervised", "group", "rank", "trainer"}
    whole = [e for e in found if e.phase == gpu_report.WHOLE and e.source == "estimate"]
    assert {e.level for e in whole} == {"allocated", "reserved", "device"}
    peak = max(p["reserved_bytes"] for p in measured["cases"][0]["measured"]["steps"][-1].values())
    (device,) = (e for e in whole if (e.case, e.level) == ("supervised", "device"))
    assert device.measured_bytes == peak + 1000
    page = gpu_report.text([measured])
    assert "5 cases, 4 of them measured" in page
    assert "| too much | out of memory | capped |" in page
    retried = json.loads(json.dumps(measured["cases"][0]))
    retried["measured"]["steps"][-1]["policy backward"]["num_alloc_retries"] = 1
    assert gpu_report.errors([retried]) == []


def test_spreads_are_of_signed_errors_and_the_largest_keeps_its_sign() -> None:
    found = gpu_report.spread([0.01, -0.04, 0.02])
    assert found["median"] == pytest.approx(0.01)
    assert found["max"] == -0.04


def test_without_data_the_page_says_so(tmp_path: Path) -> None:
    assert gpu_report.files(tmp_path) == []
    assert "No measurement on a GPU" in gpu_report.text([])


def test_without_a_card_it_says_so_and_overwrites_nothing(
    capsys: Any, tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    asked = ["--gpu", "h200-141gb", "--out", str(tmp_path / "x.json")]
    assert gpu.main(asked) == 2
    assert "No CUDA device" in capsys.readouterr().err
    (tmp_path / "x.json").write_text("{}", "utf-8")
    assert gpu.main(asked) == 2
    assert "--resume" in capsys.readouterr().err
