"""verl's critic runs FlashAttention-2 whatever a plan says; policy and reference run the plan's."""

from __future__ import annotations

from typing import Any

import pytest
from transformers import AutoModelForTokenClassification
from verl.utils.model import load_valuehead_model

from accuracy.verl_cases import CONFIG, ONE, PACKED, Case
from planner.estimate import estimate
from planner.frameworks.verl.overrides import overrides
from planner.frameworks.verl.run import step
from planner.plan import Plan
from planner.setup.setup import setup_of

PPO: dict[str, Any] = {
    **{"framework": "verl", "method": "ppo", "gpu": "h100-80gb", "gpus": 1},
    **{"micro_batch_size": 2, "prompts_per_step": 4, "kl": "reward"},
}


def test_verl_asks_for_it_whatever_its_configuration_says(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, Any] = {}
    monkeypatch.setattr(
        AutoModelForTokenClassification, "from_pretrained", lambda **told: asked.update(told)
    )
    load_valuehead_model("a/model", None, None, False)
    assert asked["attn_implementation"] == "flash_attention_2"
    plan = Plan(**PPO, attention="sdpa")
    models = setup_of(plan)
    assert models["critic"].attention == "flash"
    assert models["policy"].attention == models["reference"].attention == "sdpa"
    plain = Plan(method="ppo", framework="plain", attention="sdpa")
    assert setup_of(plain)["critic"].attention == "sdpa"


def test_an_export_asks_for_the_policys_alone() -> None:
    told = overrides(Plan(**PPO, attention="sdpa"))
    named = {key: value for key, value in told.items() if key.endswith("attn_implementation")}
    assert named == {"+actor_rollout_ref.model.override_config.attn_implementation": "sdpa"}


@pytest.mark.parametrize("attention", ["sdpa", "flash"])
def test_the_estimate_has_no_mask_of_its_rows_and_says_why(attention: str) -> None:
    found = estimate(Plan(**PPO, attention=attention))
    masked = {
        phase.name
        for phase in found.phases
        if any(term.name.startswith("attention mask") for term in phase.terms)
    }
    assert not masked & {"values", "critic update"}
    assert ("policy backward" in masked) == (attention == "sdpa")
    said = [note for note in found.notes if "critic with flash attention" in note]
    assert len(said) == (attention == "sdpa")


def test_without_data_it_runs_the_kernel_too() -> None:
    case = Case("critic", "ppo", {**PACKED, **ONE, "prompt_tokens": 8}, CONFIG)
    ran = {one.op for one in step.execute(case.plan, case.configs, "gpu").made.values()}
    assert "aten::_flash_attention_forward" in ran
    assert any("_scaled_dot_product_" in name for name in ran)
