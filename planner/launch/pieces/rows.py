"""Rows of prompts and responses, as every program that scores responses has them."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True, slots=True)
class Rows:
    """Token ids [rows, tokens] of prompts and their responses.

    Prompts are padded on the left, responses on the right; ``learned`` [rows, longest response]
    is 1 at response tokens. Without a mask no row is padded.
    """

    ids: Tensor
    mask: Tensor | None
    learned: Tensor

    @property
    def targets(self) -> Tensor:
        """The response tokens [rows, longest response]."""
        return self.ids[:, -self.learned.shape[1] :]
