"""The frozen reference's logits for the next token, with or without a KV cache."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import torch
from torch import nn

from planner.steps import models
from planner.steps.generation import skipped


class Reference:
    """Next-token logits under the reference, without gradient; one object for each rollout.

    It is fed hard tokens, as the original is. Without a cache every call runs the whole row;
    with one, only what no earlier call has seen. ``adapter_disabled`` says that the model is
    the policy itself, whose adapters are switched off during each call.
    """

    def __init__(
        self, model: nn.Module, *, cached: bool = False, adapter_disabled: bool = False
    ) -> None:
        self._model: Any = model
        self._cached = cached
        self._adapter_disabled = adapter_disabled
        self._past: Any = None
        self._seen = 0

    def __call__(self, ids: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
        """Logits [rows, vocabulary] of the token after ``ids`` [rows, tokens]."""
        training = self._model.training
        # A layer that checkpoints refuses a cache, and only layers in training mode checkpoint.
        self._model.eval()
        try:
            base = models.without_adapters(self._model) if self._adapter_disabled else nullcontext()
            with torch.no_grad(), base:
                return self._last(ids, mask)
        finally:
            self._model.train(training)

    def skip(self, tokens: int) -> None:
        """Let the cache look as if ``tokens`` more had been read; they take no memory.

        For a dry run, which leaves tokens out; without a cache there is nothing to do.
        """
        if not self._cached:
            return
        self._seen += tokens
        for layer in self._past.layers:
            room = skipped(layer, tokens)
            layer.keys = _stretched(layer.keys, room)
            layer.values = _stretched(layer.values, room)

    def _last(self, ids: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
        found = self._model(
            input_ids=ids[:, self._seen :],
            attention_mask=mask,
            past_key_values=self._past,
            use_cache=self._cached,
            logits_to_keep=1,
        )
        if self._cached:
            self._past, self._seen = found.past_key_values, ids.shape[1]
        return found.logits[:, -1]  # type: ignore[no-any-return]


def _stretched(states: torch.Tensor, tokens: int) -> torch.Tensor:
    """States [rows, heads, length + tokens, size] in the memory of those that are given."""
    length = states.shape[-2] + tokens
    return states[..., :1, :].expand(*states.shape[:-2], length, states.shape[-1])
