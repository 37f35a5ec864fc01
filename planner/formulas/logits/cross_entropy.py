"""Hugging Face's own loss of given tokens, on materialised logits.

Source: ``ForCausalLMLoss`` of transformers 5.23.0, ``loss/loss_utils.py``; of what the model then
returns accelerate 1.15.0, ``convert_outputs_to_fp32``, and torch 2.13, ``_DDPSink``.
"""

from __future__ import annotations

from planner.formulas.logits import over_vocabulary as op
from planner.formulas.logits.head import RETURNED
from planner.formulas.logits.pieces import (
    LOGITS_GRADIENT,
    LOSS_GRADIENT,
    PER_ROW,
    SCALAR,
    WIDE_LOGITS,
)
from planner.formulas.logits.recording import Run, Scored


def loss(run: Run) -> Scored:
    """Upcast, labels padded by one per row and shifted, cross entropy."""
    made = op.capped(run)
    logits = op.upcast(run, made, "fp32")
    returned = [made] * bool(run.head.copied_output)
    del made
    padded = [*run.numbers("int64"), *run.numbers("int64", of=PER_ROW)]
    # Several rows make the shifted labels a copy; one row leaves them a view of the padded ones.
    labels = run.numbers("int64") if run.again else padded
    run.at("cross entropy")
    logs = op.log_softmax(run, logits)
    saved = [*labels, *run.numbers("fp32", of=SCALAR)]
    found = op.unary(run, logs, SCALAR, LOSS_GRADIENT, saved=saved)
    del logits, logs
    if returned:
        # Autocast's wrapper widens the logits; DDP that looks for unused weights copies them.
        run.at(RETURNED)
        output = op.upcast(run, returned.pop(), run.head.copied_output)
        run.named.clear()
        op.unary(run, output, WIDE_LOGITS, LOGITS_GRADIENT, label=RETURNED)
    return Scored(loss=found)
