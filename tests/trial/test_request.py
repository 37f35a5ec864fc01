"""A request as a command, as a file and in words."""

from __future__ import annotations

from typing import Any

import pytest

from planner import estimate
from planner.__main__ import parser
from planner.cli import trial
from planner.plan import Plan
from planner.plan.presets import presets
from planner.trial.ask import description
from planner.trial.ask import request as asked
from planner.trial.ask.description import describe
from planner.trial.ask.request import TrialRequest, read_request, request_of

PLAN = Plan(model="Qwen/Qwen2.5-0.5B", method="sft", gpus=1, sharding="none")
ALL: dict[str, Any] = {
    "device": "cuda:2",
    "steps": 5,
    "warm_up": 3,
    "cap_bytes": 24 * 2**30,
    "limit_seconds": 42.5,
    "host_limit_bytes": 2**33,
    "model_folder": "/models/qwen",
    "lengths": "random",
    "truncate": "never",
    "snapshot": "/tmp/snapshot.pickle",
    "processes": 2,
}


def test_the_command_has_an_option_for_every_field() -> None:
    assert set(ALL) == TrialRequest.model_fields.keys() - {"plan", "depths", "ray"}
    request = request_of(PLAN, **ALL, depths=(2, 4))
    flags = [text for field in ALL for text in (f"--{field.replace('_', '-')}", f"{ALL[field]}")]
    parsed = parser().parse_args(["trial", request.plan, "--depths", "2,4", *flags])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(asked, "existing_folder", str)
        assert trial._request(parsed) == request
    assert request.devices() == ("cuda:2", "cuda:3")
    assert read_request(request.model_dump_json()) == request


@pytest.mark.parametrize(
    ("choices", "said"),
    [
        ({"device": "cuda"}, "device: "),
        ({"device": "cpu; rm -rf /"}, "device: "),
        ({"steps": 0}, "steps: "),
        ({"cap_bytes": 0}, "cap_bytes: "),
        ({"limit_seconds": float("inf")}, "limit_seconds: "),
        ({"depths": (1, 2, 3)}, "depths: "),
        ({"snapshot": "a\nb"}, "snapshot: "),
        ({"run": "rm"}, "run: "),
    ],
)
def test_bad_choices_name_their_field(choices: Any, said: str) -> None:
    with pytest.raises(ValueError, match=f"^{said}"):
        request_of(PLAN, **choices)


def test_a_damaged_file_names_its_field() -> None:
    text = request_of(PLAN).model_dump_json().replace('"steps":3', '"steps":"3"')
    with pytest.raises(ValueError, match="^steps: "):
        read_request(text)


def refusal(plan: Plan) -> str:
    """How a machine without a GPU and without flash_attn must refuse the plan; empty: it runs."""
    if plan.sharding.startswith("zero"):
        return "which no trial runs; set sharding to fsdp2, whose shards hold as much."
    # verl's critic asks for a kernel of its own.
    if plan.framework == "verl" and plan.critic == "separate":
        return "flash_attn is not installed here."
    # Without its kernel it runs with torch's, and then compile meets adapters in half precision.
    if plan.attention == "flash" and plan.compile and plan.finetuning == "lora":
        return "Set compile to false."
    return ""


@pytest.mark.parametrize("key", presets())
def test_every_preset_is_described(key: str) -> None:
    plan = presets()[key].plan
    found = describe(request_of(plan, device="cuda:0", cap_bytes=24 * 2**30))
    expected = refusal(plan)
    assert bool(found.refused) == bool(expected) and found.refused.endswith(expected)
    assert found.most_bytes <= 24 * 2**30
    assert found.most_seconds == 300.0 and "5.0 min" in found.most_words
    if not plan.sharding.startswith("zero"):
        assert ("rank 0 of 8" in found.runs) == (plan.gpus == 8)
    assert f"all {describe_layers(plan)} layers" in found.runs


def test_the_most_a_processor_gives_is_tensors_alone_and_what_is_guarded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(description, "guarded_bytes", lambda asked: asked or 10**15)
    tensors = max(phase.requested_bytes for phase in estimate(PLAN).phases)
    found = describe(request_of(PLAN))
    assert found.most_bytes == tensors < estimate(PLAN).device_bytes
    assert "of this machine's memory for tensors (estimate)" in found.most_words
    assert describe(request_of(PLAN, device="cuda:0")).most_bytes == estimate(PLAN).device_bytes
    capped = describe(request_of(PLAN, cap_bytes=2**30))
    assert capped.most_bytes == 2**30 and "(memory cap)" in capped.most_words
    limited = describe(request_of(PLAN, host_limit_bytes=2**29))
    assert limited.most_bytes == 2**29 and "of this machine's RAM" in limited.most_words
    monkeypatch.setattr(description, "guarded_bytes", lambda asked: 2**28)
    scarce = describe(request_of(PLAN))
    assert scarce.most_bytes == 2**28
    assert scarce.most_words.startswith("80% of this machine's free RAM, ")


def describe_layers(plan: Plan) -> int:
    from planner.plan.facts import facts_of

    return facts_of(plan).policy.layers


def test_what_no_trial_runs_is_said_before() -> None:
    found = describe(request_of(PLAN.changed(optimizer="adamw-8bit")))
    assert found.refused.startswith("optimizer: ")
