"""A model in a folder: the scripts take it, and the preflight says where it is not the plan's."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from launch.running import PATHS, run, unpack
from launch.test_bundle import Node
from launch.tiny_models import config
from planner import catalog
from planner.launch.export import export, fitted, why_not
from planner.plan import Plan

CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "plain": ("dpo", {"gpus": 1}),
    "trl": ("grpo", {"gpus": 1}),
    "hf_trainer": ("sft", {"gpus": 1}),
    "verl": ("ppo", {"gpus": 1, "logits": "full", "response_tokens": 64, "prompt_tokens": 64}),
}


def planned(framework: str, **more: Any) -> Plan:
    method, fields = CASES[framework]
    own = {"config": catalog.encode_config(config()), "method": method, "framework": framework}
    return fitted(Plan(**{**own, **fields, **more}), framework)


@pytest.mark.parametrize("framework", CASES)
def test_the_folder_of_the_weights_is_asked_for_and_taken(framework: str, tmp_path: Path) -> None:
    folder = unpack(export(planned(framework), framework), tmp_path)
    with pytest.raises(subprocess.CalledProcessError) as stopped:
        run(folder, **PATHS)
    assert b"set MODEL to the folder of the weights" in stopped.value.stderr
    named = "/models/m" if framework == "verl" else "/models/of mine"
    words = run(folder, **PATHS, MODEL=named)[-1]
    if framework == "verl":
        taken = [word for word in words if word.endswith("model.path='/models/m'")]
        assert {word.split(".")[0] for word in taken} == {"actor_rollout_ref", "critic"}
        with pytest.raises(subprocess.CalledProcessError):
            run(folder, **PATHS, MODEL="/a b")
    else:
        option = "--model_name_or_path" if framework == "trl" else "--model"
        assert words[words.index(option) + 1] == named


def test_a_plan_that_names_the_folder_is_launched_from_it(tmp_path: Path) -> None:
    plan = planned("trl", model="/models/mine")
    folder = unpack(export(plan, "trl"), tmp_path)
    words = run(folder, **PATHS)[-1]
    assert words[words.index("--model_name_or_path") + 1] == "/models/mine"
    words = run(folder, **PATHS, MODEL="/elsewhere")[-1]
    assert words[words.index("--model_name_or_path") + 1] == "/elsewhere"


def test_an_engine_serves_the_same_folder(tmp_path: Path) -> None:
    engine = {"rollout": "vllm-separate", "rollout_gpus": 1, "rollout_tensor_parallel": 1}
    folder = unpack(export(planned("trl", **engine, gpus=2), "trl"), tmp_path)
    words = run(folder, "engine.sh", **PATHS, MODEL="/models/mine")[-1]
    assert words[:3] == ["vllm", "serve", "/models/mine"]


def test_the_preflight_stops_weights_of_another_model(tmp_path: Path) -> None:
    node = Node(unpack(export(planned("plain"), "plain"), tmp_path / "bundle"))
    model = tmp_path / "model"
    model.mkdir()
    (model / "config.json").write_text(json.dumps(config()))
    assert node.check(80, MODEL=str(model))[0] == 0
    (model / "config.json").write_text(json.dumps({**config(), "num_hidden_layers": 48}))
    status, said = node.check(80, MODEL=str(model))
    assert status == 1 and "MODEL: num_hidden_layers is 48 in" in said and "2 in the plan" in said


def test_a_reward_model_of_the_same_config_has_no_name() -> None:
    plan = Plan(
        framework="trl", config=catalog.encode_config(config()), reward="model", gpus=1
    )
    assert any(one.startswith("reward_model: ") for one in why_not(plan, "trl"))
