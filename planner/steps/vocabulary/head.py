"""What a loss asks of the language-model head: its product, or its weight alone."""

from __future__ import annotations

import torch
from torch import nn

from planner.steps.stage import Stage


def capped_logits(
    stage: Stage, hidden: torch.Tensor, head: nn.Module, softcap: float = 0.0
) -> torch.Tensor:
    """The head's product over the vocabulary, squashed where the model does that.

    Args:
        stage: where the step runs.
        hidden: ``[rows, T, h]``.
        head: a linear module, wrapped or not.
        softcap: Gemma 2's ``final_logit_softcapping``; 0 for none.

    Returns:
        ``[rows, T, V]`` in the dtype of the product.
    """
    with stage.region(category="logits"):
        logits: torch.Tensor = head(hidden)
        if softcap and not torch.is_grad_enabled():
            logits.div_(softcap).tanh_().mul_(softcap)
        elif softcap:
            logits = logits / softcap
            logits = torch.tanh(logits)
            logits = logits * softcap
    return logits


def squash_(logits: torch.Tensor, softcap: float, temperature: float) -> torch.Tensor:
    """Logits capped and divided in place; a cap of 0 and a temperature of 1 change nothing."""
    if softcap:
        logits.div_(softcap).tanh_().mul_(softcap)
    if temperature != 1.0:
        logits.div_(temperature)
    return logits


def pieces(stage: Stage, length: int, size: int) -> list[slice]:
    """Slices of ``size``; the last may be shorter. Two show the peak of all."""
    return [slice(i * size, (i + 1) * size) for i in stage.rounds(-(-length // size), 2)]


def bare_weight(head: nn.Module) -> torch.Tensor:
    """The head's weight ``[V, h]``, for paths that multiply it piece by piece.

    Raises:
        ValueError: when the weight alone is not the whole head, or not here as a whole.
    """
    if hasattr(head, "base_layer"):
        raise ValueError(
            "lora_targets: a head with an adapter has no single weight to take pieces of; leave "
            "lm_head out of lora_targets, or set logits to full."
        )
    if getattr(head, "bias", None) is not None:
        raise ValueError("logits: this model's head has a bias; set logits to full.")
    weight = head.weight
    if not isinstance(weight, torch.Tensor) or hasattr(weight, "device_mesh"):
        raise ValueError(
            "sharding: the head's weight is not gathered; score inside the forward of the module "
            "that gathers it."
        )
    return weight


def in_compute_dtype(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor as autocast would hand it to a product; a Python function has to ask itself."""
    kind = tensor.device.type
    if kind == "meta" or not torch.is_autocast_enabled(kind):
        return tensor
    return tensor.to(torch.get_autocast_dtype(kind))
