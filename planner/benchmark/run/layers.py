"""Whole decoder layers and heads, as a trainer runs them: transformers' own code, eager.

Norms, rotary embedding, residuals, activation functions and the loss's passes over the logits
are in the time, and only matrix products and attention in the FLOPs, as the estimate counts
them. Imports torch, and transformers when a layer is made.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any

import torch
from torch import nn

from planner import catalog
from planner.benchmark.run.case import Case, Run, Sizes
from planner.benchmark.run.products import architecture
from planner.catalog.architecture import Architecture
from planner.formulas.compute import backward_flops, forward_flops, head_flops
from planner.steps.models import settings_of

LAYERS = 2
"""So many of a model's layers stand after each other."""
NARROW_VOCABULARY = 128
"""Of the stack of layers, which begins at hidden states."""


def cases(sizes: Sizes, device: str) -> Iterator[Case]:
    """The first model at all sizes first, so that a short time still tells of it."""
    for model in sizes.models:
        arch = architecture(model)
        for tokens in sizes.tokens:
            yield from _stacks(model, arch, tokens, min(sizes.row_tokens, tokens), device)
        yield from _heads(model, arch, sizes.head_tokens, device)


def _stacks(
    model: str, arch: Architecture, tokens: int, row_tokens: int, device: str
) -> Iterator[Case]:
    few = replace(arch, layers=LAYERS, sliding_layers=0)
    forward = forward_flops(few, tokens=tokens, row_tokens=row_tokens, head=False)
    backward = backward_flops(
        few, tokens=tokens, row_tokens=row_tokens, recompute=False, weights_train=True, head=False
    )
    for name, flops in (("layers forward", forward), ("layers training", forward + backward)):
        yield Case(
            part="layers",
            name=name,
            model=model,
            sizes={"tokens": tokens, "row tokens": row_tokens, "layers": LAYERS},
            dtype="bf16",
            flops=float(flops),
            of="dense peak",
            make=partial(_stack, model, tokens, row_tokens, device, name != "layers forward"),
        )


@lru_cache(maxsize=1)
def _layers(model: str, device: str) -> Any:
    """A body of :data:`LAYERS` layers with random weights."""
    import transformers

    config = {
        **catalog.model(model).config,
        "num_hidden_layers": LAYERS,
        "vocab_size": NARROW_VOCABULARY,
        "bos_token_id": 0,
        "eos_token_id": 0,
    }
    config.pop("layer_types", None)
    settings = settings_of(config, "sdpa")
    with torch.device(device):
        return transformers.AutoModel.from_config(settings, dtype=torch.bfloat16)  # type: ignore[no-untyped-call]


def prepare(sizes: Sizes, device: str) -> None:
    """Load transformers and make the first model's layers, which takes longer than they run.

    Raises:
        ValueError: where transformers is not installed.
    """
    try:
        _layers(sizes.models[0], device)
    except ImportError as error:
        raise ValueError(
            f"transformers: layers are measured with it, and it cannot be imported: {error}. "
            "Install the requirements."
        ) from None


def forget() -> None:
    """Free the layers that were made last."""
    _layers.cache_clear()


def _stack(model: str, tokens: int, row_tokens: int, device: str, training: bool) -> Run:
    body = _layers(model, device)
    shape = (tokens // row_tokens, row_tokens, body.config.hidden_size)
    made = partial(torch.randn, shape, dtype=torch.bfloat16, device=device)
    hidden, gradient = made(requires_grad=training), made()
    trained = [weight for name, weight in body.named_parameters() if "embed_tokens" not in name]

    def run() -> object:
        with torch.set_grad_enabled(training):
            out = body(inputs_embeds=hidden, use_cache=False).last_hidden_state
        return torch.autograd.grad(out, [hidden, *trained], gradient) if training else out

    return run


def _heads(model: str, arch: Architecture, tokens: int, device: str) -> Iterator[Case]:
    forward = float(head_flops(arch, tokens=tokens))
    for name, flops in (("head forward", forward), ("head training", 3 * forward)):
        yield Case(
            part="layers",
            name=name,
            model=model,
            sizes={"tokens": tokens, "hidden": arch.hidden, "vocabulary": arch.vocab},
            dtype="bf16",
            flops=flops,
            of="dense peak",
            make=partial(_head, arch, tokens, device, name != "head forward"),
        )


def _head(arch: Architecture, tokens: int, device: str, training: bool) -> Run:
    """Logits in bf16, raised to fp32, the chosen tokens' log-probabilities, and their mean."""
    made = partial(torch.randn, dtype=torch.bfloat16, device=device, requires_grad=training)
    weight, hidden = made(arch.vocab, arch.hidden), made(tokens, arch.hidden)
    chosen = torch.randint(arch.vocab, (tokens,), device=device)

    def run() -> object:
        with torch.set_grad_enabled(training):
            logits = nn.functional.linear(hidden, weight).float()
            loss = nn.functional.cross_entropy(logits, chosen)
        return torch.autograd.grad(loss, [hidden, weight]) if training else loss

    return run
