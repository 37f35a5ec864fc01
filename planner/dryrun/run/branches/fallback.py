"""Modules for which only another branch than a GPU's can run here."""

from __future__ import annotations

import torch

from planner.dryrun.run.branches.linear_attention import stands_in

FALLBACKS = {
    "GatedDeltaNet": (
        "fallback branch: linear attention runs transformers' loop over chunks in plain torch; "
        "with flash-linear-attention installed a GPU runs Triton kernels that keep other "
        "tensors, so its error is not known."
    ),
    "Mamba2Mixer": (
        "fallback branch: the state-space layers run transformers' plain torch branch; with "
        "mamba-ssm installed a GPU runs kernels that keep other tensors, so its error is not known."
    ),
}
"""What the answer says, by the end of the class's name."""


def fallbacks(model: torch.nn.Module) -> list[str]:
    """A sentence for every kind of module in ``model`` that takes another branch than on a GPU.

    The error of such a plan is unknown: what the absent kernels keep has not been derived.
    """
    names = {type(module).__name__ for module in model.modules() if not stands_in(module)}
    return [
        sentence
        for suffix, sentence in FALLBACKS.items()
        if any(name.endswith(suffix) for name in names)
    ]
