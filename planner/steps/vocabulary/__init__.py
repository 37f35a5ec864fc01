"""How the loss meets the vocabulary: log-probabilities, self-certainty, SFT's and DPO's losses.

What is alive while these run is what :mod:`planner.formulas.logits` adds up for framework
``plain``; tests hold the two together, to the byte.
"""

from planner.steps.vocabulary.certainty import self_certainty
from planner.steps.vocabulary.log_probs import LogProbs, token_log_probs
from planner.steps.vocabulary.preference import preference_loss, sequence_log_probs
from planner.steps.vocabulary.sft import sft_loss

__all__ = [
    "LogProbs",
    "preference_loss",
    "self_certainty",
    "sequence_log_probs",
    "sft_loss",
    "token_log_probs",
]
