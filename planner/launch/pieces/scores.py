"""Log-probabilities of given responses, with all logits of the scored positions at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from planner.launch.pieces.policy import DTYPES
from planner.launch.pieces.rows import Rows


def inner(policy: Any) -> Any:
    """The language model inside its adapters."""
    return policy.get_base_model() if hasattr(policy, "get_base_model") else policy


def hidden_states(policy: Any, rows: Rows, everywhere: bool) -> Tensor:
    """Last hidden states [rows, tokens, hidden], of all positions or from the last prompt token."""
    given = {"input_ids": rows.ids}
    if rows.mask is not None:
        given["attention_mask"] = rows.mask
    hidden = inner(policy).base_model(use_cache=False, **given).last_hidden_state
    return hidden if everywhere else hidden[:, -rows.learned.shape[1] - 1 :]


def all_logits(
    plan: Mapping[str, Any], policy: Any, head: Any, hidden: Tensor, temperature: float = 1.0
) -> Tensor:
    """Logits [rows, tokens, vocabulary] of ``head``, in ``logits_dtype`` or wider."""
    logits = head(hidden)
    cap = getattr(inner(policy).config, "final_logit_softcapping", None)
    if cap:
        logits = torch.tanh(logits / cap) * cap
    wide = DTYPES[plan["logits_dtype"]]
    if wide.itemsize > logits.dtype.itemsize:
        logits = logits.to(wide)
    if temperature != 1.0:
        logits = logits / temperature
    return logits


def log_probs(
    plan: Mapping[str, Any], policy: Any, head: Any, hidden: Tensor, ids: Tensor
) -> Tensor:
    """Log-probability [rows, tokens] that ``head`` gives ``ids``."""
    logs = F.log_softmax(all_logits(plan, policy, head, hidden), -1)
    return logs.gather(-1, ids.unsqueeze(-1)).squeeze(-1)


def response_log_probs(
    plan: Mapping[str, Any], policy: Any, rows: Rows, hidden: Tensor
) -> Tensor:
    """Log-probability [rows] of each response, of the hidden states that predict it."""
    count, head = rows.learned.shape[1], inner(policy).get_output_embeddings()
    # The last position predicts nothing; its target is any token, and its column is left out.
    targets = rows.ids.roll(-1, dims=1)[:, -hidden.shape[1] :]
    taken = log_probs(plan, policy, head, hidden, targets)
    return (taken[:, -count - 1 : -1] * rows.learned).sum(-1)
