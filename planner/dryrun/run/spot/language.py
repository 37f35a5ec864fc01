"""The causal language model of a config: its settings, the model without data, what they state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from planner.steps import models
from planner.steps.stage import Stage


def language_of(config: Mapping[str, Any]) -> tuple[Any, list[str]]:
    """The config object of the language model, and what is to be said of it."""
    import transformers

    known = transformers.CONFIG_MAPPING
    name = config["model_type"]
    if name not in known:
        raise ValueError(
            f"transformers {transformers.__version__} has no model type {name!r}; "
            "code of a repository's own is never run"
        )
    settings = models.settings_of(config, "eager")
    causal = transformers.MODEL_FOR_CAUSAL_LM_MAPPING
    if type(settings) not in causal:
        raise ValueError(
            f"transformers {transformers.__version__} has no causal language model of {name}: "
            "encoder-decoders and models without a decoder's head are not planned"
        )
    notes = []
    if settings.model_type != name:
        notes.append(
            f"{name} is multimodal, and only its language model ({settings.model_type}) is "
            "planned; weights and activations of its towers come on top."
        )
    return settings, notes


def built(settings: Any) -> nn.Module:
    """The model on the meta device.

    Raises:
        ValueError: with the reason, where transformers does not build it.
    """
    from transformers.initialization import no_init_weights

    try:
        with no_init_weights():
            return models.language_model(Stage("meta"), settings, torch.bfloat16)
    except MemoryError:
        raise
    except Exception as error:  # whatever a model's constructor raises is about this config
        raise ValueError(
            f"transformers cannot build {settings.model_type} from it: {sentence_of(error)}"
        ) from None


def sentence_of(error: BaseException) -> str:
    """The first sentence of an error, short enough for an answer."""
    first = " ".join(str(error).split()).partition(". ")[0].rstrip(".")
    return f"{type(error).__name__}: {first[:240]}"


def first(settings: Any, names: tuple[str, ...]) -> Any:
    """The first of a config's attributes that states a size; None where none does."""
    for name in names:
        value = stated(settings, name)
        if isinstance(value, int) and value > 0:
            return value
    return None


def stated(settings: Any, name: str) -> Any:
    """A config's attribute; None where it has none, or another one for each layer."""
    try:
        return getattr(settings, name, None)
    except (ValueError, RuntimeError, AttributeError):
        return None
