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


def hidden_states(plan: Mapping[str, Any], policy: Any, rows: Rows) -> Tensor:
    """Last hidden states [rows, tokens, hidden], from the last prompt token or of all positions."""
    given = {"input_ids": rows.ids}
    if rows.mask is not None:
        given["attention_mask"] = rows.mask
    hidden = inner(policy).base_model(use_cache=False, **given).last_hidden_state
    return hidden if plan["logits"] == "full" else hidden[:, -rows.learned.shape[1] - 1 :]


def all_logits(plan: Mapping[str, Any], policy: Any, head: Any, hidden: Tensor) -> Tensor:
    """Logits [rows, tokens, vocabulary] of ``head``, in ``logits_dtype`` or wider.

    Where responses are sampled, the plan has the temperature.
    """
    logits = head(hidden)
    cap = getattr(inner(policy).config, "final_logit_softcapping", None)
    if cap:
        logits = torch.tanh(logits / cap) * cap
    wide = DTYPES[plan["logits_dtype"]]
    if wide.itemsize > logits.dtype.itemsize:
        logits = logits.to(wide)
    if plan.get("temperature", 1.0) != 1.0:
        logits = logits / plan["temperature"]
    return logits


def log_probs(
    plan: Mapping[str, Any], policy: Any, head: Any, hidden: Tensor, ids: Tensor,
    entropy: bool = False,
) -> tuple[Tensor, Tensor | None]:  # fmt: skip
    """Log-probability [rows, tokens] that ``head`` gives ``ids``, and if asked the entropy."""
    logs = F.log_softmax(all_logits(plan, policy, head, hidden), -1)
    found = logs.gather(-1, ids.unsqueeze(-1)).squeeze(-1)
    return found, -(logs.exp() * logs).sum(-1) if entropy else None


def token_log_probs(
    plan: Mapping[str, Any], policy: Any, rows: Rows, hidden: Tensor, entropy: bool = False
) -> tuple[Tensor, Tensor | None]:
    """The same of each response token [rows, response tokens], of all hidden states."""
    head, length = inner(policy).get_output_embeddings(), rows.learned.shape[1]
    # The last position predicts nothing; its target is any token, and its column is left out.
    targets = rows.ids.roll(-1, dims=1)[:, -hidden.shape[1] :]
    found, spread = log_probs(plan, policy, head, hidden, targets, entropy)
    return found[:, -length - 1 : -1], None if spread is None else spread[:, -length - 1 : -1]


def response_log_probs(
    plan: Mapping[str, Any], policy: Any, rows: Rows, hidden: Tensor
) -> Tensor:
    """Log-probability [rows] of each response."""
    return (token_log_probs(plan, policy, rows, hidden)[0] * rows.learned).sum(-1)
