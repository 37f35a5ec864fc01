"""The rollout engine's stations, with a stand-in for vLLM; and a note where it is missing."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch

from planner.plan import Plan
from planner.trial.ask.request import request_of
from planner.trial.run import rollout
from planner.trial.run.runner import run_trial
from trial.running import tiny

GIB = 2**30


class Card:
    """Bytes in use, as the stand-in leaves them."""

    def __init__(self) -> None:
        self.used = 1 * GIB
        self.said: list[str] = []


CARD = Card()


class Weights:
    """Takes tensors as vLLM's model does, and checks that they are the policy's own."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def load_weights(self, bucket: list[tuple[str, torch.Tensor]]) -> None:
        self.names += [name for name, _ in bucket]
        CARD.used += 10


class StandIn:
    """What the trial asks of ``vllm.LLM``."""

    last: Any = None

    def __init__(self, **options: Any) -> None:
        self.options = options
        self.model = Weights()
        runner = SimpleNamespace(model_runner=SimpleNamespace(model=self.model))
        self.llm_engine = SimpleNamespace(model_executor=SimpleNamespace(driver_worker=runner))
        CARD.used += 20 * GIB
        CARD.said.append("awake")
        StandIn.last = self

    def generate(self, prompts: list[Any], sampling: Any, use_tqdm: bool) -> None:
        assert len(prompts[0]["prompt_token_ids"]) == 25
        assert sampling.options["ignore_eos"] and not use_tqdm
        CARD.used += 1 * GIB
        CARD.said.append(f"generate {len(prompts)} x {sampling.options['max_tokens']}")

    def sleep(self, level: int) -> None:
        CARD.used -= 19 * GIB
        CARD.said.append(f"sleep {level}")

    def wake_up(self) -> None:
        CARD.used += 19 * GIB
        CARD.said.append("wake")


class Sampling:
    def __init__(self, **options: Any) -> None:
        self.options = options


@pytest.fixture
def vllm(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    module = ModuleType("vllm")
    module.LLM, module.SamplingParams = StandIn, Sampling  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "vllm", module)
    CARD.__init__()  # type: ignore[misc]
    yield


def colocated(**changes: Any) -> Plan:
    values = {"rollout": "vllm-colocated", "gpus": 1, "rollout_gpus": 0, "response_tokens": 512}
    return tiny("grpo", "llama", **{**values, **changes})


@pytest.mark.parametrize("adapters", [False, True])
def test_the_engine_is_taken_through_a_step(vllm: None, adapters: bool) -> None:
    changes: dict[str, Any] = {"finetuning": "lora", "dtype": "bf16"} if adapters else {}
    plan = colocated(**changes)
    found = rollout.measure_engine(plan, "cpu", used=lambda: CARD.used)
    assert CARD.said == ["awake", "generate 2 x 256", "sleep 2", "wake"]
    assert found.residue_bytes == 2 * GIB
    generation, sync = found.phases
    assert (generation.name, sync.name) == ("rollout", "weight sync")
    assert generation.device_bytes == 21 * GIB
    assert sync.device_bytes == 21 * GIB + 10
    assert generation.tokens == 2 * 512
    given = StandIn.last
    assert given.options["load_format"] == "dummy"
    assert given.options["trust_remote_code"] is False
    assert given.options["enable_sleep_mode"] is True
    assert given.options["max_model_len"] == 25 + 512
    names = given.model.names
    assert "model.layers.1.mlp.down_proj.weight" in names and "lm_head.weight" in names
    assert not [name for name in names if "lora" in name or "base_layer" in name]
    assert any("asleep it kept 2 GiB" in note for note in found.notes)
    assert any("merged" in note for note in found.notes) == adapters


def test_an_engine_that_never_sleeps_has_no_residue(vllm: None) -> None:
    found = rollout.measure_engine(colocated(vllm_sleep_level=0), "cpu", used=lambda: CARD.used)
    assert found.residue_bytes is None
    assert "sleep" not in " ".join(CARD.said)


def test_without_an_engine_a_note_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "needs a GPU" in rollout.missing("cpu")
    monkeypatch.setattr(rollout, "find_spec", lambda name: None)
    assert "not installed" in rollout.missing("cuda")
    monkeypatch.setattr(rollout, "find_spec", lambda name: object())
    assert not rollout.missing("cuda")
    request = request_of(colocated(response_tokens=8))
    result = run_trial(request, "no-engine", lambda name, more: None)
    assert result.status == "completed"
    assert any("needs a GPU" in note for note in result.notes)
