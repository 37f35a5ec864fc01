"""A policy's loss on materialised logits, as the plain step has it.

Source: planner/steps/vocabulary/log_probs.py. The plain step frees each tensor as soon as it can:
it rebinds the logits when it upcasts or divides them, drops them before picking the taken tokens,
and computes the entropy last.
"""

from __future__ import annotations

from planner.formulas.logits import over_vocabulary as op
from planner.formulas.logits.recording import Run, Scored


def scores(run: Run) -> Scored:
    """Log-probabilities of the taken tokens and, if asked, entropies."""
    logits = op.divided(run)
    run.at("log-softmax")
    logs = op.log_softmax(run, op.upcast(run, logits, run.wide))
    del logits
    taken = op.gather(run, logs)
    return Scored(taken, op.entropy_of(run, logs) if run.head.entropy else None)
