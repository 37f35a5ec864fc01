"""Modules for which only another branch than a GPU's can run here."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from planner.dryrun.run.branches.linear_attention import stands_in


@dataclass(frozen=True, slots=True, kw_only=True)
class Fallback:
    """One kind of module whose GPU kernels are absent."""

    suffix: str
    """End of the class's name."""
    what: str
    instead: str

    @property
    def sentence(self) -> str:
        """What the answer says."""
        return f"fallback branch: {self.what} {self.instead}, so its error is not known."


KINDS = (
    Fallback(
        suffix="GatedDeltaNet",
        what="linear attention runs transformers' loop over chunks in plain torch;",
        instead=(
            "with flash-linear-attention installed a GPU runs Triton kernels that keep other "
            "tensors"
        ),
    ),
    Fallback(
        suffix="Mamba2Mixer",
        what="the state-space layers run transformers' plain torch branch;",
        instead="with mamba-ssm installed a GPU runs kernels that keep other tensors",
    ),
)


def fallbacks(model: torch.nn.Module) -> list[str]:
    """A sentence for every kind of module in ``model`` that takes another branch than on a GPU.

    The error of such a plan is unknown: what the absent kernels keep has not been derived.
    """
    names = {type(module).__name__ for module in model.modules() if not stands_in(module)}
    return [kind.sentence for kind in KINDS if any(name.endswith(kind.suffix) for name in names)]
