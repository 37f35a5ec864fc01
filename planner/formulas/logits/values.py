"""A critic's loss: its head has one column instead of a vocabulary."""

from __future__ import annotations

from planner.formulas.logits import over_vocabulary as op
from planner.formulas.logits.pieces import PER_TOKEN, SCALAR
from planner.formulas.logits.recording import Run, Scored

VALUE_NUMBERS = 9
"""fp32 numbers of each token that the clipped squared error has at its widest."""


def loss(run: Run) -> Scored:
    """A clipped squared error."""
    values = op.product(run, "values", head="value head")
    run.at("value loss")
    widest = run.numbers(*["fp32"] * VALUE_NUMBERS)
    return Scored(loss=op.unary(run, values, SCALAR, PER_TOKEN, width="fp32"))
