"""verl's own engines without data against verl for real on a CPU, as torch's allocator saw it."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoModelForTokenClassification

from accuracy.verl_cases import BASE, CASES, LIVE, Case
from accuracy.verl_runs import dry_peaks, real_peaks
from dry_peaks import meets_dry_run
from framework_runs import real_and_dry
from planner.dryrun.ask.stand_in import stand_in
from planner.dryrun.logs import curve
from planner.dryrun.logs.log import PHASE
from planner.dryrun.run.world import On
from planner.frameworks.verl import FRAMEWORK, own_step
from planner.frameworks.verl.run import kernels, seams, step, told
from planner.plan import Plan
from planner.plan.frameworks import OWN
from planner.setup.setup import setup_of

torch.set_num_threads(1)

TOLERANCE = 0.01
NAMED = {case.name: case for case in CASES}
SMALL = Case("small", "grpo", {"prompt_tokens": 8, "response_tokens": 8}, CASES[0].config)
WHOLE = {
    "model": "Qwen/Qwen2.5-1.5B",
    "gpu": "h100-80gb",
    "gpus": 8,
    "prompts_per_step": 32,
    "prompt_tokens": 512,
    "response_tokens": 512,
    "kl": "loss",
}


@pytest.mark.parametrize(("name", "head"), LIVE.items())
def test_every_phase_peaks_where_the_allocator_says(name: str, head: On) -> None:
    case = NAMED[name]
    real, dry = real_and_dry(
        case, lambda: real_peaks(case, head), lambda: dry_peaks(case, head), more=head
    )
    assert list(dry) == list(real)
    apart = {phase: dry[phase] / real[phase] - 1 for phase in real}
    assert not {phase: one for phase, one in apart.items() if abs(one) > TOLERANCE}, apart


APART = {"rollout": "vllm-separate", "rollout_gpus": 4, "gpus": 12, "gpus_per_node": 4}
"""Eight GPUs train, as without an engine beside them."""


ENGINES: tuple[dict[str, Any], ...] = ({}, APART)


@pytest.mark.parametrize("engine", ENGINES, ids=str)
def test_the_closed_form_is_what_verl_does(engine: dict[str, Any]) -> None:
    plan = Plan(**{**BASE, **WHOLE, "method": "grpo", **engine})
    meets_dry_run(plan, within=TOLERANCE, code=FRAMEWORK.name)


@pytest.mark.parametrize("seam", ["without_gpu", "_models", "Data"])
def test_nothing_runs_without_a_seam(seam: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def loads(*_: Any, **__: Any) -> Any:
        raise OSError("there is no such checkpoint")

    for kind in (AutoModelForCausalLM, AutoModelForTokenClassification):
        monkeypatch.setattr(kind, "from_pretrained", loads)
    monkeypatch.setattr(seams, seam, lambda *_: nullcontext())
    with pytest.raises((RuntimeError, ImportError, OSError, AttributeError, AssertionError)):
        dry_peaks(SMALL)


def test_an_answer_to_what_is_read_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(step, "answers", dict)
    with pytest.raises(RuntimeError):
        dry_peaks(SMALL)


def test_a_reference_comes_from_host_ram_weight_by_weight(monkeypatch: pytest.MonkeyPatch) -> None:
    case = Case("KL", "grpo", {**SMALL.changes, "kl": "loss"}, SMALL.config)

    def reference() -> curve.Peak:
        log = step.execute(case.plan, case.configs)
        return next(peak for peak in curve.peaks(log) if peak.phase == "reference log-probs")

    copied = reference()
    # Its rotary frequencies are on the device.
    assert copied.host_bytes > 4 * 128 * 2048 > copied.shares["reference", "parameters"] * 100
    monkeypatch.setattr(seams, "_transfers", nullcontext)
    # Without it what is cast is what waits in host RAM, and no fp32 copy is ever on the device.
    assert reference().requested_bytes < copied.requested_bytes


def test_a_compiled_entropy_makes_nothing_over_the_vocabulary(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def widened() -> set[str]:
        made = step.execute(SMALL.plan, SMALL.configs).made.values()
        wide = (each for each in made if each.shape == (32, 2048) and each.dtype == "float32")
        return {each.op for each in wide}

    assert not widened()
    monkeypatch.setattr(kernels, "compiled", lambda function, **_: function)
    assert "aten::_softmax" in widened()


@pytest.mark.parametrize(("reshards", "updates"), [(True, 1), (False, 2)])
def test_a_second_update_runs_where_it_gathers_and_the_first_did_not(
    reshards: bool, updates: int
) -> None:
    several = {"prompts_per_step": 4, "prompts_per_update": 2, "reshard_after_forward": reshards}
    case = Case("updates", "grpo", {**SMALL.changes, **several}, SMALL.config)
    log = step.execute(case.plan, case.configs)
    begun = [log.names[key] for kind, key, value in log.events if kind == PHASE and value]
    assert begun.count("optimizer step") == 2 * updates  # in each of two steps


def test_what_an_engine_did_otherwise_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    other = Plan(**{**SMALL.plan.model_dump(), "master_dtype": "none", "gradient_dtype": "bf16"})
    monkeypatch.setattr(told, "setup_of", lambda _: setup_of(other))
    notes = step.execute(SMALL.plan, SMALL.configs, "cpu", "gpu").notes
    assert any("keeps the policy in fp32" in note for note in notes)


def test_an_answer_says_whose_code_ran(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = Plan(**{**BASE, **WHOLE, "method": "grpo"})
    theirs = stand_in(plan)
    assert (theirs.code, theirs.ran) == (FRAMEWORK.name, "verl 0.9.1's own code")
    assert own_step.DOCUMENT in theirs.notes[0] and theirs.plan == plan
    flat = stand_in(plan.model_copy(update={"sharding": "fsdp1"}))
    assert flat.code == OWN
    assert "verl's own code did not run" in flat.notes[0] and "no check" in flat.notes[1]
    monkeypatch.setattr(own_step, "NEEDED", ("a_package_that_is_not_there",))
    missing = stand_in(plan)
    assert missing.code == OWN and "requirements/verl.txt" in missing.notes[0]
