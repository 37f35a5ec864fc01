"""Memory that ends is a result; a model that does not fit is measured in part."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from accuracy.tiny import CONFIGS
from planner import catalog
from planner.plan import Plan
from planner.plan.link import from_query_string
from planner.trial.ask.request import request_of
from planner.trial.ask.result import TrialResult, read_result, result_json
from planner.trial.run.runner import run_trial
from trial.running import TOLERANCE, errors, tiny

torch.set_num_threads(1)


@pytest.fixture(scope="module", autouse=True)
def _quick_collections() -> Iterator[None]:
    """Every run collects garbage; libraries' own objects need not be looked at each time."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


def trial(plan: Plan, **choices: Any) -> TrialResult:
    """A trial in this process."""
    request = request_of(plan, **{"steps": 1, "warm_up": 2, **choices})
    result = run_trial(request, "in-a-test", lambda name, more: None)
    assert read_result(result_json(result)) == result
    return result


DEEP = tiny("sft", "qwen3", layers=10, gradient_checkpointing="full", prompts_per_step=4)
WIDE = tiny("sft", "qwen3", prompts_per_step=4, prompt_tokens=100, response_tokens=100)
CAP = 9_000_000


def test_memory_that_ends_says_where_and_what_would_have_fitted() -> None:
    whole = trial(WIDE)
    assert whole.predicted is not None and whole.predicted.requested_bytes
    peak = whole.predicted.phases[0].requested_bytes
    assert peak is not None and peak > CAP
    result = trial(WIDE, cap_bytes=CAP, truncate="never")
    assert result.status == "out of memory"
    assert result.measured is None and len(result.ran) == 1
    ended = result.out_of_memory
    assert ended is not None and ended.phase == "policy forward"
    assert ended.capacity_bytes == CAP
    assert ended.live_bytes is not None and ended.asked_bytes is not None
    assert ended.live_bytes <= CAP < ended.live_bytes + ended.asked_bytes
    assert ended.predicted is not None and ended.predicted.out_of_memory
    assert ended.predicted.bytes == peak
    assert ended.would_fit is not None
    fits = from_query_string(ended.would_fit).plan
    assert fits is not None
    again = trial(fits, cap_bytes=CAP, truncate="never")
    assert again.status == "completed", ended.would_fit_words
    assert again.measured is not None and again.measured.verdict is not None
    assert again.measured.budget_bytes == CAP


def test_the_last_byte_decides() -> None:
    """One byte below the highest peak of the run is too little, the peak itself is enough."""
    plan = tiny("sft", "llama")
    whole = trial(plan)
    assert whole.measured is not None
    peaks = [phase.requested_bytes or 0 for phase in whole.measured.phases]
    # The first step is lower: it begins without the optimizer's states.
    assert trial(plan, cap_bytes=max(peaks), truncate="never").status == "completed"
    short = trial(plan, cap_bytes=max(peaks) - 1, truncate="never")
    assert short.out_of_memory is not None and short.out_of_memory.phase == "policy backward"


@pytest.mark.parametrize(
    "plan",
    [
        tiny("grpo", "llama", layers=9, vocab=200, prompts_per_step=2, logits="response"),
        tiny("sft", "gemma3_text", layers=12, attention="sdpa", gradient_checkpointing="full"),
        # With few words and checkpoints the peak is in the logits of a shallow model only.
        tiny("sft", "qwen3", layers=16, gradient_checkpointing="full", vocab=2000),
    ],
    ids=("group", "period", "moving"),
)
def test_two_shallow_runs_tell_the_whole_model(plan: Plan, request: pytest.FixtureRequest) -> None:
    truth, depths = trial(plan), (6, 8)
    result = trial(plan, depths=depths)
    assert result.extrapolated and tuple(one.layers for one in result.ran) == depths
    assert truth.measured is not None and result.measured is not None
    for phase in truth.measured.phases:
        led = result.measured.phase(phase.name)
        assert led is not None and led.requested_bytes is not None
        assert led.requested_bytes == pytest.approx(phase.requested_bytes, rel=TOLERANCE)
        assert led.tokens == phase.tokens and led.flops == phase.flops
    other = "policy backward the peak at full depth comes at another instant"
    moved = any(other in note for note in result.notes)
    assert moved == ("moving" in request.node.name)
    for one in result.ran:
        assert one.measured is not None and one.predicted is not None
        assert from_query_string(one.plan).plan is not None
        for phase in one.measured.phases:
            said = one.predicted.phase(phase.name)
            assert said is not None
            assert said.requested_bytes == pytest.approx(phase.requested_bytes, rel=TOLERANCE)


def test_a_small_card_played_by_a_cap_gets_fewer_layers() -> None:
    result = trial(DEEP, cap_bytes=7_000_000)
    assert result.status == "completed" and result.extrapolated
    assert all(one.layers < 10 for one in result.ran)
    assert result.measured is not None and result.measured.verdict is not None
    assert result.measured.verdict.word == "out of memory"
    assert (result.measured.requested_bytes or 0) > 7_000_000
    assert max(map(abs, errors(result).values())) < TOLERANCE
    assert any("are available" in note for note in result.notes)
    roomy = trial(tiny("sft", "llama"), cap_bytes=24 * 2**30)
    assert not roomy.extrapolated
    assert roomy.measured is not None and roomy.measured.verdict is not None
    assert roomy.measured.verdict.word == "fits"


def test_a_card_that_is_larger_than_the_machine_is_played_with_the_machines_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What runs is cut to what is here; the verdict is that of the card that is played."""
    monkeypatch.setattr("planner.trial.run.device.guarded_bytes", lambda asked: 7_000_000)
    result = trial(DEEP, cap_bytes=24 * 2**30)
    assert result.status == "completed" and result.extrapolated
    assert result.measured is not None and result.measured.verdict is not None
    assert (result.measured.requested_bytes or 0) > 7_000_000
    assert result.measured.budget_bytes == 24 * 2**30
    assert result.measured.verdict.word == "fits"


def test_what_will_not_fit_at_all_names_the_smallest_that_would() -> None:
    result = trial(WIDE, cap_bytes=6_500_000)
    assert result.status == "will not fit" and not result.ran
    ended = result.out_of_memory
    assert ended is not None and ended.asked_bytes is None
    assert ended.would_fit is not None and "smallest trial" in result.reason
    smaller = from_query_string(ended.would_fit).plan
    assert smaller is not None
    assert trial(smaller, cap_bytes=6_500_000).status == "completed"
    nothing = trial(WIDE, cap_bytes=50_000)
    assert nothing.status == "will not fit"
    assert nothing.out_of_memory is not None and nothing.out_of_memory.would_fit is None


def test_a_processor_that_is_too_slow_gets_fewer_layers(monkeypatch: Any) -> None:
    monkeypatch.setattr("planner.trial.run.sizing.processor_flops_per_second", lambda dtype: 4e7)
    result = trial(DEEP, limit_seconds=120.0)
    assert result.extrapolated
    assert any("would take about" in note for note in result.notes)
    nothing = trial(DEEP, limit_seconds=5.0)
    assert nothing.status == "will not fit"


@pytest.mark.parametrize(
    "plan",
    [
        tiny("ppo", "qwen3", critic="shared", logits="response"),
        tiny("grpo", "llama", reference="cached-activations", logits="response"),
        tiny("dpo", "qwen2", reference="dual-output", finetuning="lora", dtype="bf16"),
    ],
    ids=("shared critic", "cached activations", "dual output"),
)
def test_other_roles_are_measured_as_predicted(plan: Plan) -> None:
    assert max(map(abs, errors(trial(plan)).values())) < TOLERANCE


def test_a_config_without_a_head_size_runs() -> None:
    """As most of Qwen2 are: the size of a head follows from the others."""
    config = {**CONFIGS["qwen2"], "model_type": "qwen2"}
    del config["head_dim"]
    plan = tiny("sft", "qwen2").changed(config=catalog.encode_config(config))
    assert trial(plan).status == "completed"


def test_kernels_that_are_missing_are_said_by_their_field() -> None:
    result = trial(tiny("sft", "llama", liger=True, attention="sdpa"))
    assert result.status == "failed" and result.reason.startswith("liger: ")


def test_random_lengths_still_show_the_longest() -> None:
    plan = tiny("sft", "qwen3", prompts_per_step=4)
    result = trial(plan, lengths="random", steps=5)
    assert result.lengths == "random"
    assert max(map(abs, errors(result).values())) < TOLERANCE
    assert result.measured is not None
    full = trial(plan).measured
    assert full is not None
    short, long = result.measured.phase("policy forward"), full.phase("policy forward")
    assert short is not None and long is not None
    assert short.tokens and long.tokens and short.tokens < long.tokens


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"optimizer": "adamw-8bit"}, "optimizer"),
        ({"sharding": "zero3", "gpus": 8, "prompts_per_step": 16}, "sharding"),
        (
            {"offload": "all", "sharding": "fsdp2", "gpus": 2, "prompts_per_step": 4},
            "offload",
        ),
    ],
)
def test_what_no_trial_runs_is_refused_with_the_field(changes: Any, field: str) -> None:
    result = trial(tiny("sft", "llama", **changes))
    assert result.status == "failed"
    assert result.reason.startswith(f"{field}: ") and "set " in result.reason
