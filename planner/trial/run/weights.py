"""Weights from a local model folder: safetensors only, and no code that comes with it.

Imports torch.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from torch import nn

from planner.catalog.safe_json import read_object
from planner.steps import models
from planner.trial.ask.endings import CannotRun

INDEX = "model.safetensors.index.json"
SINGLE = "model.safetensors"
INDEX_BYTES = 64 * 2**20
EMBEDDINGS = "embed_tokens.weight"
"""What a model with tied weights stores in its head's place."""
SAME = ("model_type", "hidden_size", "vocab_size", "num_attention_heads")
"""Fields of config.json in which the folder and the plan have to agree."""


def check_folder(folder: Path, config: dict[str, Any]) -> None:
    """Refuse a folder whose model is not the plan's.

    Raises:
        CannotRun: naming what differs, or what is missing.
    """
    try:
        own = read_object((folder / "config.json").read_bytes())
    except (OSError, ValueError) as error:
        raise CannotRun(f"model_folder: its config.json cannot be read: {error}.") from None
    for field in SAME:
        if field in own and field in config and own[field] != config[field]:
            raise CannotRun(
                f"model_folder: its {field} is {str(own[field])[:60]}, the plan's model has "
                f"{str(config[field])[:60]}; give the folder of the plan's model."
            )
    _files(folder)


def load_weights(model: nn.Module, folder: Path, role: str) -> None:
    """Copy the folder's tensors into a model that has just been built.

    Adapters and the heads of critics and reward models have no weights there and keep theirs;
    layers that a shallower model lacks are left out.

    Raises:
        CannotRun: when a weight of the body is missing or has another shape.
    """
    from safetensors import safe_open

    inner = models.causal(model)
    alone = isinstance(inner, models.HeadModel)
    prefix = "body." if isinstance(inner, models.ScoreModel) else ""
    wanted: dict[str, torch.Tensor] = {
        name.replace(".base_layer", "").removeprefix(prefix): weight
        for name, weight in inner.state_dict(keep_vars=True).items()
        if "lora_" not in name
    }
    found: set[str] = set()
    for file in _files(folder):
        with safe_open(file, framework="pt") as tensors:
            for stored in tensors.keys():  # noqa: SIM118  # the handle is no mapping
                name = _own_name(stored, wanted)
                if name is None and alone and stored.endswith(EMBEDDINGS) and not found:
                    name = "lm_head.weight"  # unless a head of its own comes later
                if name is None:
                    continue
                value = tensors.get_tensor(stored)
                weight = wanted[name]
                if value.shape != weight.shape:
                    raise CannotRun(
                        f"model_folder: {stored} has shape {tuple(value.shape)}, the {role}'s "
                        f"is {tuple(weight.shape)}; give the folder of the plan's model."
                    )
                with torch.no_grad():
                    weight.copy_(value)
                found.add(name)
    tied = {id(wanted[name]) for name in found}
    missing = [
        name
        for name, weight in wanted.items()
        if name not in found and id(weight) not in tied and not name.startswith("score.")
    ]
    if missing:
        raise CannotRun(
            f"model_folder: {missing[0]} of the {role} is not among its tensors "
            f"({len(missing)} are missing); run the trial with random weights."
        )


def _own_name(stored: str, wanted: dict[str, torch.Tensor]) -> str | None:
    """What the model calls a stored tensor: a body without its head leaves the prefix out."""
    names = (stored, stored.removeprefix("model."), stored.removeprefix("transformer."))
    return next((name for name in names if name in wanted), None)


def _files(folder: Path) -> list[Path]:
    """The safetensors files of a folder; names in the index must not lead out of it."""
    index = folder / INDEX
    if not index.is_file():
        if not (folder / SINGLE).is_file():
            raise CannotRun(
                f"model_folder: it has neither {SINGLE} nor {INDEX}; only safetensors are read."
            )
        return [folder / SINGLE]
    try:
        if index.stat().st_size > INDEX_BYTES:
            raise ValueError("it is too large")
        names = sorted(set(json.loads(index.read_text("utf-8"))["weight_map"].values()))
        if not all(isinstance(name, str) and name == Path(name).name for name in names):
            raise ValueError("it names files elsewhere")
    except (OSError, ValueError, KeyError, AttributeError, TypeError, RecursionError) as error:
        raise CannotRun(f"model_folder: {INDEX} cannot be read: {error}.") from None
    return [folder / name for name in names]
