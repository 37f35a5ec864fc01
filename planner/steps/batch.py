"""One micro-batch of rows at the plan's caps, in the shape the plan says."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from planner.plan import Plan
from planner.setup.quantities import Quantities
from planner.steps.stage import Stage


@dataclass(frozen=True, slots=True)
class Rows:
    """Token ids [rows, tokens] and what tells rows apart.

    ``mask`` [rows, tokens] stands for padded rows only, ``positions`` [1, tokens] for a packed
    row only; ``sequences`` is how many responses the rows hold.
    """

    ids: torch.Tensor
    mask: torch.Tensor | None
    positions: torch.Tensor | None
    sequences: int

    def inputs(self) -> dict[str, torch.Tensor]:
        """What the model's forward is given."""
        found = {"input_ids": self.ids}
        if self.mask is not None:
            found["attention_mask"] = self.mask
        if self.positions is not None:
            found["position_ids"] = self.positions
        return found


def training_rows(stage: Stage, plan: Plan, q: Quantities, vocab: int) -> Rows:
    """Rows of one training forward on one GPU."""
    shape = q.micro_rows, q.micro_row_tokens, q.micro_sequences
    return _rows(stage, plan, shape, vocab, alone=bool(q.micro_alone))


def scoring_rows(stage: Stage, plan: Plan, q: Quantities, vocab: int) -> Rows:
    """Rows of one forward without gradient on one GPU."""
    shape = q.logprob_rows, q.logprob_row_tokens, q.logprob_sequences
    return _rows(stage, plan, shape, vocab, alone=bool(q.logprob_alone))


def _rows(
    stage: Stage, plan: Plan, shape: tuple[object, object, object], vocab: int, *, alone: bool
) -> Rows:
    """A packed row of one capped sequence that is not ``alone`` ends in a short one.

    Padded rows that are not lack their first token.
    """
    rows, tokens, sequences = (int(size) for size in shape)  # type: ignore[call-overload]
    ids = torch.randint(vocab, (rows, tokens), device=stage.device)
    mask = positions = None
    if plan.batch_shape == "padded":
        mask = torch.ones_like(ids)
        if not alone:
            mask[:, 0] = 0
    if plan.batch_shape == "packed":
        longest = plan.prompt_tokens + plan.response_tokens
        positions = stage.numbered(tokens, longest if alone else min(longest, tokens - 1))
    return Rows(ids, mask, positions, sequences)
