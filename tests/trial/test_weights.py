"""Weights of a local folder reach the model; anything but safetensors of that model is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from planner.dryrun.ask.request import configs_of
from planner.plan import Plan
from planner.steps import models
from planner.steps import run as runs
from planner.trial.ask.endings import CannotRun
from planner.trial.ask.request import request_of
from planner.trial.ask.variants import with_layers
from planner.trial.run.runner import run_trial
from planner.trial.run.trial_stage import TrialStage
from planner.trial.run.weights import check_folder
from trial.running import tiny

PLAN = tiny("grpo", "qwen2", reward="model", layers=3)


def saved(plan: Plan, folder: Path, *, parts: int = 1) -> Path:
    """A folder as ``save_pretrained`` leaves it."""
    torch.manual_seed(1)
    config = configs_of(plan)["policy"]
    settings = models.settings_of(config, "eager")
    model = models.language_model(TrialStage("cpu", lambda *_: None), settings, torch.float32)
    shard = "100KB" if parts > 1 else "5GB"
    model.save_pretrained(folder, max_shard_size=shard)  # type: ignore[operator]
    return folder


@pytest.mark.parametrize("parts", [1, 2])
def test_the_folders_weights_are_the_models(parts: int, tmp_path: Path) -> None:
    folder = saved(PLAN, tmp_path, parts=parts)
    assert (folder / "model.safetensors.index.json").exists() == (parts > 1)
    stored: dict[str, torch.Tensor] = {}
    for file in folder.glob("*.safetensors"):
        stored |= load_file(file)
    cut = with_layers(PLAN, 2)
    check_folder(folder, configs_of(cut)["policy"])
    stage = TrialStage("cpu", lambda *_: None, folder)
    run = runs.build(cut, stage, configs_of(cut))
    own = models.causal(run.policy).state_dict()
    for name in ("model.embed_tokens.weight", "model.layers.1.mlp.up_proj.weight"):
        assert torch.equal(own[name], stored[name])
    judge = models.causal(run.models["reward model"]).state_dict()
    name = "layers.1.mlp.up_proj.weight"
    assert torch.equal(judge[f"body.{name}"], stored[f"model.{name}"])


def test_a_trial_runs_with_them(tmp_path: Path) -> None:
    folder = saved(tiny("sft", "qwen2"), tmp_path)
    request = request_of(tiny("sft", "qwen2"), steps=1, model_folder=str(folder))
    result = run_trial(request, "local-weights", lambda name, more: None)
    assert result.status == "completed" and result.weights == "local"
    assert not any("random" in note for note in result.notes)


def _without(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")


def _elsewhere(folder: Path) -> None:
    index = {"weight_map": {"a": "../../secret.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index), "utf-8")


def _narrower(folder: Path) -> None:
    tensors = load_file(folder / "model.safetensors")
    tensors["model.layers.0.mlp.up_proj.weight"] = torch.zeros(2, 2)
    save_file(tensors, folder / "model.safetensors")


def _incomplete(folder: Path) -> None:
    tensors = load_file(folder / "model.safetensors")
    del tensors["model.norm.weight"]
    save_file(tensors, folder / "model.safetensors")


def _another(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text("utf-8"))
    (folder / "config.json").write_text(json.dumps({**config, "vocab_size": 7}), "utf-8")


def _no_config(folder: Path) -> None:
    (folder / "config.json").write_text("import os", "utf-8")


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        (_without, "only safetensors"),
        (_elsewhere, "names files elsewhere"),
        (_narrower, "has shape"),
        (_incomplete, "norm.weight"),
        (_another, "vocab_size is 7"),
        (_no_config, "cannot be read"),
    ],
)
def test_another_folder_is_refused(harm: Any, said: str, tmp_path: Path) -> None:
    plan = tiny("sft", "qwen2")
    folder = saved(plan, tmp_path)
    harm(folder)
    with pytest.raises(CannotRun, match="^model_folder: ") as error:
        check_folder(folder, configs_of(plan)["policy"])
        runs.build(plan, TrialStage("cpu", lambda *_: None, folder), configs_of(plan))
    assert said in str(error.value)


@pytest.mark.parametrize("tied", [False, True])
def test_a_reference_that_is_a_head_alone_has_the_folders_head(tied: bool, tmp_path: Path) -> None:
    family = "qwen2" if tied else "llama"
    plan = tiny("grpo", family, reference="cached-activations", logits="response")
    stored = load_file(saved(plan, tmp_path) / "model.safetensors")
    run = runs.build(plan, TrialStage("cpu", lambda *_: None, tmp_path), configs_of(plan))
    name = "model.embed_tokens.weight" if tied else "lm_head.weight"
    assert torch.equal(models.head(run.models["reference"]).weight, stored[name])
