"""What is usual for a model: an attention that runs for it, and what LoRA adapts of it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from planner import catalog
from planner.catalog.architecture import Architecture
from planner.formulas.activations.coverage import refuses_sdpa
from planner.formulas.lora import usual_targets


def model_defaults(values: Mapping[str, Any], model: str) -> dict[str, Any]:
    """Fields that the model sets, unless a person has set them.

    Transformers itself loads a model with eager attention where it refuses torch's; rows are then
    not packed, which only kernels of flash-attn keep apart for those models. ``model`` is the one
    of a plan that names none. ``{}`` for a model that is not known, which the plan refuses itself,
    or not measured yet.
    """
    arch = _architecture(str(values.get("model", model)), str(values.get("config", "")))
    if arch is None:
        return {}
    usual: dict[str, Any] = {}
    if refuses_sdpa(arch):
        packed, flash = values.get("batch_shape") == "packed", not arch.measured
        usual["attention"] = "flash" if packed and flash else "eager"
        if not flash:
            usual["batch_shape"] = "padded"
    if values.get("finetuning", "full") != "full":
        modules = usual_targets(arch)
        usual |= {"lora_targets": ",".join(modules)} if modules else {}
    return usual


def _architecture(model: str, config: str) -> Architecture | None:
    try:
        return _known(model, config)
    except (ValueError, LookupError):
        return None


@lru_cache(maxsize=256)
def _known(model: str, config: str) -> Architecture:
    """Raises where there is none, which is not remembered: it may be measured any time."""
    found = catalog.parse_config(catalog.decode_config(config)) if config else catalog.model(model)
    if found.architecture is None:
        raise LookupError(found.id)
    return found.architecture
