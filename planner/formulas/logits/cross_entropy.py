"""Hugging Face's own loss of given tokens, on materialised logits.

Source: ``ForCausalLMLoss`` of transformers 5.23.0, ``loss/loss_utils.py``.
"""

from __future__ import annotations

from planner.formulas.logits import over_vocabulary as op
from planner.formulas.logits.pieces import LOSS_GRADIENT, PER_ROW, SCALAR
from planner.formulas.logits.recording import Run, Scored


def loss(run: Run) -> Scored:
    """Upcast, labels padded by one per row and shifted, cross entropy."""
    logits = op.upcast(run, op.capped(run), "fp32")
    padded = [*run.numbers("int64"), *run.numbers("int64", of=PER_ROW)]
    # Several rows make the shifted labels a copy; one row leaves them a view of the padded ones.
    labels = run.numbers("int64") if run.again else padded
    run.at("cross entropy")
    logs = op.log_softmax(run, logits)
    saved = [*labels, *run.numbers("fp32", of=SCALAR)]
    return Scored(loss=op.unary(run, logs, SCALAR, LOSS_GRADIENT, saved=saved))
