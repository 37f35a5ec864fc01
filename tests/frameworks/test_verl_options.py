"""What a plan may ask of verl's engine beside its usual step: that verl's own code does it."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler
from transformers import Qwen2ForCausalLM

from accuracy.verl_cases import CONFIG, PACKED, TIED, Case
from accuracy.verl_runs import dry_peaks, real_peaks
from dry_peaks import meets_dry_run
from planner.dryrun.logs import curve
from planner.dryrun.run.stage import DryStage
from planner.frameworks.verl import FRAMEWORK, own_step
from planner.frameworks.verl.limits import obstacles
from planner.frameworks.verl.run import seams, step
from planner.frameworks.verl.run.seams import engine, fused

torch.set_num_threads(1)

SMALL: dict[str, Any] = {**PACKED, "prompt_tokens": 8, "response_tokens": 8}
WIDE: dict[str, Any] = {
    **{"prompt_tokens": 512, "response_tokens": 512, "kl": "loss"},
    **{"gpus": 2, "prompts_per_step": 8},
}
CHUNKED: dict[str, Any] = {"logits": "chunked", "logits_dtype": "fp32"}
SCALED: dict[str, Any] = {"dtype": "fp16", "optimizer": "adamw-foreach"}


def _case(config: dict[str, Any] = CONFIG, **changes: Any) -> Case:
    return Case("option", "grpo", {**SMALL, **changes}, config)


OPTIONS: tuple[dict[str, Any], ...] = (
    {"offload": "optimizer-between-phases"},
    {"offload": "parameters-between-phases"},
    {"offload": "all-between-phases"},
    SCALED,
    CHUNKED,
    # Its prompt and its response are a chunk each.
    {**CHUNKED, "entropy": True, "micro_batch_size": 1, "logprob_micro_batch_size": 1},
    {"liger": True, "gradient_checkpointing": "none"},
)


@pytest.mark.parametrize("changes", OPTIONS, ids=str)
def test_the_closed_form_is_what_verl_does(changes: dict[str, Any]) -> None:
    config = {**TIED, "num_hidden_layers": 3, "vocab_size": 32_000, "hidden_size": 256}
    case = Case("whole", "grpo", {**PACKED, **WIDE, **changes}, config)
    assert not own_step.refusal(case.plan)
    meets_dry_run(case.plan, within=0.005, code=FRAMEWORK.name)


def _peaks(case: Case) -> dict[str, curve.Peak]:
    return {peak.phase: peak for peak in curve.peaks(step.execute(case.plan, case.configs))}


def test_verls_engine_says_what_goes_and_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[tuple[str, bool, bool]] = []
    move = engine.FSDPEngine.to

    def moved(own: Any, device: str, model: bool, optimizer: bool, grad: bool) -> None:
        told.append((device, model, optimizer))
        move(own, device=device, model=model, optimizer=optimizer, grad=grad)

    monkeypatch.setattr(engine.FSDPEngine, "to", moved)
    case = _case(offload="all-between-phases")
    found = _peaks(case)
    one = [("card", True, False), ("cpu", True, False), ("card", True, True), ("cpu", True, True)]
    assert told == [("cpu", True, True), *one, *one]
    weights = 4 * 2 * 1024 * 128
    assert found["old log-probs"].host_bytes > 2 * found["policy forward"].host_bytes + weights


def test_nothing_would_move_without_a_seam(monkeypatch: pytest.MonkeyPatch) -> None:
    """Host and device are one memory: verl's transfers are to where a tensor is already."""
    case = _case(offload="all-between-phases")
    away = _peaks(case)["old log-probs"].requested_bytes
    monkeypatch.setattr(seams, "offloading", lambda *_: seams.ExitStack())
    assert _peaks(case)["old log-probs"].requested_bytes > away + 8 * 2 * 1024 * 128


def test_state_that_stays_in_host_ram_is_updated_there() -> None:
    found = _peaks(_case(offload="all"))
    assert found["optimizer step"].requested_bytes < 1024 < found["policy forward"].requested_bytes
    assert found["optimizer step"].host_bytes > 16 * 2 * 1024 * 128


def test_fp16_is_scaled_by_fsdps_own_scaler(monkeypatch: pytest.MonkeyPatch) -> None:
    called = []
    for name in ("scale", "unscale_", "update"):
        own = getattr(ShardedGradScaler, name)

        def watched(*given: Any, own: Any = own, **named: Any) -> Any:
            called.append(own.__name__)
            return own(*given, **named)

        monkeypatch.setattr(ShardedGradScaler, name, watched)
    dry_peaks(_case(**SCALED))
    assert called == ["scale", "scale", "unscale_", "update"] * 2


@pytest.mark.parametrize("run", [dry_peaks, real_peaks])
def test_fp16_stops_on_fused_adamw(run: Any) -> None:
    case = _case(dtype="fp16", optimizer="adamw-fused")
    assert [one.field for one in obstacles(case.plan)] == ["optimizer"]
    with pytest.raises(RuntimeError, match="doesn't match the broadcast shape"):
        run(case)


def test_verls_chunks_score_prompts_too(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = []
    score = fused._fused_linear_for_ppo_fwd

    def scored(hidden_states: torch.Tensor, **named: Any) -> Any:
        rows.append(hidden_states.shape[0])
        return score(hidden_states=hidden_states, **named)

    monkeypatch.setattr(fused, "_fused_linear_for_ppo_fwd", scored)
    before = Qwen2ForCausalLM.forward
    dry_peaks(_case(TIED, **CHUNKED))
    assert set(rows) == {2 * 16}
    assert Qwen2ForCausalLM.forward is before


@pytest.mark.parametrize("run", [dry_peaks, real_peaks])
def test_fused_heads_stop_on_one_that_fsdp2_shards_by_itself(run: Any) -> None:
    case = _case(CONFIG, **CHUNKED)
    with pytest.raises(RuntimeError, match=r"mixed torch\.Tensor and DTensor"):
        run(case)


def test_verl_asks_liger_for_every_model_it_trains(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    apply = DryStage.liger

    def applied(stage: DryStage, model: Any) -> None:
        asked.append(type(model).__name__)
        apply(stage, model)

    monkeypatch.setattr(DryStage, "liger", applied)
    case = Case("liger", "ppo", {**SMALL, "responses_per_prompt": 1, "liger": True}, CONFIG)
    dry_peaks(case)
    assert asked == ["Qwen2ForCausalLM", "Qwen2ForTokenClassification"]
    monkeypatch.setattr(own_step, "find_spec", lambda _: None)
    assert "liger_kernel" in own_step.no_trial(case.plan)
    assert not own_step.no_trial(_case().plan)
