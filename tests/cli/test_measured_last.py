"""Rules come before a measurement, and what it finds decides what nobody chose."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from planner import catalog
from planner.catalog import spot
from planner.cli import plan_argument
from planner.dryrun.run.spot.measurement import measure
from planner.plan.unmeasured import unmeasured
from planner.problem import PlanError

BLOOM = {"model_type": "bloom", "hidden_size": 32, "n_layer": 2, "n_head": 4, "vocab_size": 160}
STEP = "method=sft&gpus=1&prompt_tokens=64&response_tokens=64&prompts_per_step=4"
Names = tuple[str, ...]


@pytest.fixture
def measured_now(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Names]:
    """The settings that the command line has measured, here and not in a process of its own."""
    asked: list[Names] = []

    def here(key: str, config: Mapping[str, Any], names: Names) -> None:
        asked.append(names)
        spot.keep(key, {"config": dict(config), **measure(config, names)})

    monkeypatch.setenv("HEADROOM_CACHE", str(tmp_path))
    monkeypatch.setattr(spot, "_known", {})
    monkeypatch.setattr(plan_argument, "_measure", here)
    return asked


@pytest.fixture
def bloom(tmp_path: Path) -> str:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(BLOOM))
    return str(path)


@pytest.mark.parametrize("wrong", ["turns=3", "master_dtype=none&gradient_dtype=fp32", "gpu=A100"])
def test_what_a_rule_refuses_is_refused_without_a_measurement(
    wrong: str, measured_now: list[Names], bloom: str
) -> None:
    with pytest.raises(PlanError) as refusal:
        plan_argument.require_asked(f"{STEP}&{wrong}", bloom)
    assert measured_now == []
    field = wrong.split("&")[-1].split("=")[0]
    assert {problem.field for problem in refusal.value.problems} == {field}
    config = catalog.encode_config(catalog.parse_config(BLOOM).config)
    values = {"method": "sft", "gpus": 1, "config": config}
    assert unmeasured(values) is not None and unmeasured({**values, "turns": 3}) is None


def test_attention_follows_a_model_that_transformers_runs_eagerly_alone(
    measured_now: list[Names], bloom: str
) -> None:
    """At once, and not only when the same is asked again; what a person chose is refused."""
    asked = plan_argument.require_asked(STEP, bloom)
    assert asked.plan.attention == "eager" and "attention" not in asked.chosen
    assert any("eager/" in name for names in measured_now for name in names)
    from planner.estimate import estimate

    said = "transformers refuses sdpa for bloom: attention is eager."
    assert said in estimate(asked.plan).notes
    with pytest.raises(PlanError, match="does not run for bloom"):
        plan_argument.require_asked(f"{STEP}&attention=sdpa", bloom)
