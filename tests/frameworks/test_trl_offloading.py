"""TRL's own offloading without data and without a card: what goes to host RAM and comes back."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest
import torch
from trl.models.activation_offloading import OffloadActivations

from accuracy.trainer_runs import least_peaks
from accuracy.trl_cases import ADAPTERS, AUTOCAST, CASES, PAIRS, Case
from accuracy.trl_runs import dry_peaks, real_peaks
from framework_runs import OFFLOADED, real_and_dry
from planner.dryrun.logs import curve
from planner.estimate import estimate
from planner.frameworks.trl import FRAMEWORK, own_step
from planner.frameworks.trl.run import offloading, step
from planner.plan import Plan
from planner.units import MIB

torch.set_num_threads(1)

NAMED = {case.name: case for case in CASES}
OF_TRAINER, OF_STATE = OFFLOADED
OF_ACCELERATE = "SFT, FSDP2, activations offloaded"
BROKEN = (RuntimeError, NotImplementedError, AttributeError, TypeError, AssertionError)


@pytest.mark.parametrize("name", [OF_TRAINER, OF_STATE])
def test_every_phase_peaks_where_the_allocator_says(name: str) -> None:
    case = NAMED[name]
    assert not own_step.refusal(case.plan)
    real, dry = real_and_dry(case, lambda: least_peaks(case, real_peaks), lambda: dry_peaks(case))
    assert dry == pytest.approx(real, rel=1e-5) and list(dry) == list(real)


@pytest.mark.parametrize("name", [OF_TRAINER, OF_STATE, OF_ACCELERATE])
def test_nothing_goes_to_the_host_without_the_seam(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = NAMED[name]
    assert max(peak.host_bytes for peak in _peaks(case)) > 0
    monkeypatch.setattr(step, "offloading", lambda *_: nullcontext())
    with pytest.raises(BROKEN):
        _peaks(case)


def test_storages_without_an_address_would_be_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """What has been offloaded is not offloaded again: told apart by address."""
    case = NAMED["SFT, activations offloaded"]
    whole = max(peak.host_bytes for peak in _peaks(case))
    monkeypatch.setattr(offloading, "_address", lambda _: 0)
    assert max(peak.host_bytes for peak in _peaks(case)) < whole


def test_what_is_brought_back_is_on_a_stream_of_its_own() -> None:
    log = step.execute(NAMED[OF_TRAINER].plan, {"policy": NAMED[OF_TRAINER].config})
    back = [made for made in log.made.values() if made.stream and not made.host]
    assert back and {made.op for made in back} == {"aten::clone"}
    waiting = [made for made in log.made.values() if made.host]
    assert {made.shape for made in back} <= {made.shape for made in waiting}


def test_state_in_host_ram_is_never_on_the_device() -> None:
    update = next(peak for peak in _peaks(NAMED[OF_STATE]) if peak.phase == "optimizer step")
    assert update.requested_bytes < MIB / 4
    weights = 4 * (2 * 4096 * 256 + 4 * 256 * (2 * 256 + 2 * 128 + 3 * 704))
    assert update.host_bytes == pytest.approx(4 * weights, rel=0.01)  # gradients and two moments


def test_the_estimate_has_the_trainers_stash() -> None:
    """By hand: of two rows of 1,024 a layer's input in Qwen2.5-1.5B."""
    one = 2 * 1024 * 1536 * 2

    def bytes_of(name: str, **changes: Any) -> dict[str, int]:
        values = {**NAMED[OF_TRAINER].whole.model_dump(), "prompt_tokens": 512}
        plan = Plan(**{**values, "response_tokens": 512, "sharding": "none", **changes})
        found = next(phase for phase in estimate(plan).phases if phase.name == name)
        return {term.name: int(term.bytes) for term in found.terms if not term.host}

    kept = OffloadActivations.__init__.__kwdefaults__ or {}
    assert (kept.get("max_fwd_stash_size") or 5) == FRAMEWORK.pinned["activations"]
    forward, backward = bytes_of("policy forward"), bytes_of("policy backward")
    assert forward["checkpointed layer inputs"] == FRAMEWORK.pinned["activations"] * one
    assert forward["embeddings of the backward before, and their gradient"] == 2 * one
    assert backward["checkpointed layer inputs"] == one
    assert backward["brought back for the layer above"] == 2 * one  # the final norm's, in fp32
    spread = {"gpus": 8, "prompts_per_step": 32, "prompts_per_update": 32}
    sharded = bytes_of("policy forward", sharding="fsdp2", reduce_dtype="bf16", **spread)
    assert "brought back for the layer above" not in sharded
    assert sharded.get("checkpointed layer inputs", one) == one


def test_dpo_is_told_to_offload() -> None:
    """It has no export, and its arguments had left the field out."""
    case = Case("DPO", "dpo", {**NAMED[OF_TRAINER].changes, **PAIRS, **AUTOCAST, **ADAPTERS})
    assert own_step.arguments(case.plan)["activation_offloading"] is True
    sharded = case.plan.model_copy(update={"sharding": "fsdp2"})
    assert "activation_offloading" not in own_step.arguments(sharded)


def _peaks(case: Case) -> list[curve.Peak]:
    return curve.peaks(step.execute(case.plan, {"policy": case.config}))
