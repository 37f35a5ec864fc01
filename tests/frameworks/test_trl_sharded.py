"""TRL's own code over several GPUs without data: DDP's reducer, accelerate's FSDP2."""

from __future__ import annotations

import gc
import inspect
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, get_args

import pytest
import torch
import torch.distributed as dist

from accuracy import trl_runs
from accuracy.trainer_runs import least_peaks
from accuracy.trl_cases import ADAPTERS, AUTOCAST, CASES, CHECKPOINTED, DDP, FSDP2, HF, KL, Case
from accuracy.trl_runs import dry_peaks, real_peaks
from accuracy.trl_summary import stored
from framework_runs import SHARDED, real_and_dry
from planner.dryrun.ask.request import configs_of
from planner.dryrun.logs import curve
from planner.dryrun.run.execute import dry_run
from planner.estimate import estimate
from planner.frameworks.trl import FRAMEWORK, own_step
from planner.frameworks.trl.run import step
from planner.frameworks.trl.run.phases import Phases
from planner.launch.huggingface.run import ranks
from planner.phases.collectives import HEAD_ARRIVES
from planner.plan.fields import Offload

torch.set_num_threads(1)

TOLERANCE = 1e-3
NAMED = {case.name: case for case in CASES}
SPREAD = {"gpus": 4, "prompts_per_step": 16}
BROKEN = (RuntimeError, TypeError, ValueError, NotImplementedError, KeyError)


class Collected(Phases):
    """Garbage of the preparation is gone by each step: it lies in circles, some of it large."""

    def on_step_begin(self, *given: Any, **more: Any) -> None:
        gc.collect()
        super().on_step_begin(*given, **more)


def test_every_phase_peaks_where_the_allocator_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trl_runs, "Phases", Collected)
    case, how = NAMED[SHARDED], inspect.getsource(Collected)
    real, dry = real_and_dry(
        case, lambda: least_peaks(case, real_peaks), lambda: dry_peaks(case), more=how
    )
    assert stored()["cases"][case.name]["real_bytes"] == pytest.approx(real, rel=TOLERANCE)
    assert dry == pytest.approx(real, rel=TOLERANCE) and list(dry) == list(real)


@pytest.mark.parametrize(
    "case",
    [
        Case("untied", "sft", {**FSDP2, **AUTOCAST, **CHECKPOINTED}, "qwen3"),
        Case("groups", "sft", {**FSDP2, **AUTOCAST, **CHECKPOINTED, "shard_size": 4}),
        Case("DDP", "sft", {**DDP, **AUTOCAST}),
        Case("whole", "grpo", {**FSDP2, **KL, **AUTOCAST, "reshard_after_forward": False}),
    ],
    ids=str,
)
def test_the_closed_form_is_what_accelerate_makes(case: Case) -> None:
    plan = case.whole
    assert not own_step.refusal(plan)
    log = dry_run(plan, configs_of(plan), code=FRAMEWORK.name)
    assert not any("TRL's trainer" in note or "full depth" in note for note in log.notes), log.notes
    closed = {phase.name: phase for phase in estimate(plan).phases}
    for peak in curve.peaks(log):
        terms = closed[peak.phase].terms
        besides = sum(term.bytes for term in terms if term.name == "cuBLAS workspaces")
        own = closed[peak.phase].requested_bytes - besides
        assert own == pytest.approx(peak.total_bytes, rel=TOLERANCE), peak.phase
    if case.name == "untied":
        assert closed["policy forward"].instant == HEAD_ARRIVES


def test_ddp_adds_its_buckets_and_nothing_else() -> None:
    sharded = NAMED["SFT, DDP"]
    alone = replace(sharded, changes={**AUTOCAST, "prompts_per_step": 4})
    weights = sum(
        term.bytes for term in estimate(alone.plan).phases[0].terms if term.category == "parameters"
    )
    here, there = dry_peaks(alone), dry_peaks(sharded)
    apart = {phase: there[phase] - here[phase] for phase in here}
    assert apart == pytest.approx(dict.fromkeys(here, weights), rel=1e-3)


@pytest.mark.parametrize(
    "name", ["_verify_param_shape_across_processes", "__init__", "_rebuild_buckets"]
)
def test_ddp_reads_data_without_a_seam(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The hook stands in place of an all-reduce, and is set as a model is wrapped."""
    case, all_of_them = Case("DDP", "sft", {**DDP, **CHECKPOINTED}, "llama"), ranks.ddp_seams
    assert any(name == found for _, found, _ in all_of_them(_stage()))

    def others(stage: Any) -> Any:
        return tuple(seam for seam in all_of_them(stage) if seam[1] != name)

    monkeypatch.setattr(ranks, "ddp_seams", others)
    with pytest.raises((RuntimeError, NotImplementedError)):
        dry_peaks(case)


def _stage() -> Any:
    return SimpleNamespace(tracker=None)


def test_buckets_that_go_on_over_layers_do_not_repeat(monkeypatch: pytest.MonkeyPatch) -> None:
    case = NAMED["SFT, DDP"]
    config = {**case.config, "num_hidden_layers": 9}

    def sizes() -> dict[str, int]:
        log = dry_run(case.plan, {"policy": config}, code=FRAMEWORK.name)
        return {peak.phase: peak.total_bytes for peak in curve.peaks(log)}

    monkeypatch.setattr(ranks, "_by_layer", lambda _: dist._compute_bucket_assignment_by_size)
    cut = sizes()
    monkeypatch.undo()
    assert cut["optimizer step"] < 0.95 * sizes()["optimizer step"]


@pytest.mark.parametrize("name", ["_init_default_mesh", "build_device_mesh"])
def test_fsdp2_reads_data_without_a_seam(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    shards = 2 if name == "build_device_mesh" else 0
    changes = {**HF, **KL, **AUTOCAST, **SPREAD, "sharding": "fsdp2", "shard_size": shards}
    _without_fsdp2s(name, monkeypatch)
    with pytest.raises(BROKEN):
        dry_peaks(Case("shards", "grpo", changes, "llama"))


def test_weights_without_an_address_are_one_weight(monkeypatch: pytest.MonkeyPatch) -> None:
    """accelerate finds the optimizer's weights by address; Adam would have two moments of one."""
    case = Case("SFT", "sft", {**FSDP2, **AUTOCAST}, "llama")
    whole = dry_peaks(case)["optimizer step"]
    _without_fsdp2s("data_ptr", monkeypatch)
    assert dry_peaks(case)["optimizer step"] < 0.75 * whole


def _without_fsdp2s(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    all_of_them = ranks.fsdp2_seams()
    left = tuple(seam for seam in all_of_them if seam[1] != name)
    assert len(left) == len(all_of_them) - 1
    monkeypatch.setattr(ranks, "fsdp2_seams", lambda: left)


def test_a_block_repeated_is_the_whole_model() -> None:
    for name in ("SFT, DDP", "SFT, FSDP2"):
        case = NAMED[name]
        config = {**case.config, "num_hidden_layers": 11}
        logs = [
            dry_run(case.plan, {"policy": config}, full_depth=whole, code=FRAMEWORK.name)
            for whole in (False, True)
        ]
        short, whole = ({peak.phase: peak.total_bytes for peak in curve.peaks(log)} for log in logs)
        assert short == pytest.approx(whole, rel=1e-4)
        assert not any("full depth" in note for log in logs for note in log.notes)


def test_a_reference_that_is_one_unit_is_run_shallow() -> None:
    """Its one flat buffer is as much larger as the model is deeper, to the byte."""
    plan = Case("reference", "dpo", {**AUTOCAST, **SPREAD, "sharding": "fsdp2"}).plan
    config = {**NAMED["SFT"].config, "num_hidden_layers": 9}
    logs = [
        dry_run(plan, {"policy": config}, full_depth=whole, code=FRAMEWORK.name)
        for whole in (False, True)
    ]
    short, whole = ({peak.phase: peak.total_bytes for peak in curve.peaks(log)} for log in logs)
    # Of the gradients that are clipped each has a norm of 4 bytes.
    assert whole.pop("optimizer step") - short.pop("optimizer step") <= 4 * 12 * 9 * 4
    assert short == whole
    per_layer = 256 * (2 * 256 + 2 * 128 + 3 * 704)
    weights = 2 * (2 * 4096 * 256 + 9 * per_layer)
    largest = [
        max(made.size_bytes for made in log.made.values() if made.category == "activations")
        for log in logs
    ]
    assert largest[0] == largest[1] == pytest.approx(weights, rel=0.02)
    assert not any("full depth" in note for log in logs for note in log.notes)


def test_only_what_accelerate_shards_by_itself_runs() -> None:
    plan = Case("SFT", "sft", {**AUTOCAST, **SPREAD, "sharding": "fsdp2"}).plan
    assert not own_step.refusal(plan)
    for sharding, why in (("fsdp1", "FSDP1's flat parameters"), ("zero2", "DeepSpeed's engine")):
        assert why in own_step.refusal(plan.model_copy(update={"sharding": sharding}))
    away = {where: plan.model_copy(update={"offload": where}) for where in get_args(Offload)}
    runs = [where for where, one in away.items() if not own_step.refusal(one)]
    assert runs == ["none", "all"]
    assert "everything in host RAM throughout" in own_step.refusal(away["all-between-phases"])


def test_adapters_that_a_first_pass_leaves_out_are_refused_by_torch_itself() -> None:
    changes = {**FSDP2, **HF, **KL, **AUTOCAST, **ADAPTERS}
    case = Case("GRPO", "grpo", changes)
    assert "adapters disabled" in own_step.refusal(case.plan)
    with pytest.raises(RuntimeError, match="grad_dtype"):
        step.execute(case.plan, {"policy": case.config}, "cpu")
    without = replace(case, changes={**changes, "kl": "none"})
    assert not own_step.refusal(without.plan) and dry_peaks(without)
