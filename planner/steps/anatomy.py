"""Where a decoder of transformers keeps its parts, whatever its classes call them. Imports torch.

Names come first, since they are what most decoders use; where they say nothing, the structure
does: the body is the causal model's largest child, its layers are the longest chain of modules.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import nn

TOWER = re.compile(r"vision|image|audio|visual")
"""Names of what a multimodal model reads with."""


class Reached(Exception):  # noqa: N818  (nothing is wrong: the head has its input)
    """Ends a forward at the head; holds what the head was given."""

    def __init__(self, hidden: torch.Tensor) -> None:
        super().__init__()
        self.hidden = hidden


def body_of(causal: Any) -> nn.Module:
    """The decoder of a causal language model, without its head.

    Raises:
        ValueError: for a model without one.
    """
    found = getattr(causal, causal.base_model_prefix or "model", None)
    if isinstance(found, nn.Module) and found is not causal:
        return found
    children = [each for each in causal.children() if each is not causal.get_output_embeddings()]
    if not children:
        raise ValueError(f"model: {type(causal).__name__} keeps its decoder under no known name.")
    largest: nn.Module = max(children, key=elements)
    return largest


def layers_of(body: nn.Module) -> nn.ModuleList:
    """The list of decoder layers: the one with most parameters that is inside no other list.

    Raises:
        ValueError: for a body without such a list.
    """
    lists = [each for each in _outer_lists(body) if len(each)]
    if not lists:
        raise ValueError(f"model: {type(body).__name__} has no list of layers.")
    return max(lists, key=elements)


def _outer_lists(module: nn.Module) -> Iterator[nn.ModuleList]:
    for name, child in module.named_children():
        if isinstance(child, nn.ModuleList):
            yield child
        elif not TOWER.search(name):
            yield from _outer_lists(child)


def elements(module: nn.Module) -> int:
    """Elements of all its parameters, shared ones once."""
    return sum(weight.numel() for weight in module.parameters())


def embedding_of(causal: Any) -> nn.Embedding | None:
    """The table of tokens; None where a model has none of torch's."""
    try:
        found = causal.get_input_embeddings()
    except NotImplementedError:  # a wrapper around the decoder
        tables = [each for each in causal.modules() if isinstance(each, nn.Embedding)]
        found = max(tables, key=elements, default=None)
    return found if isinstance(found, nn.Embedding) else None


def hidden_states(causal: Any, body: nn.Module, inputs: Mapping[str, Any]) -> torch.Tensor:
    """What the head is given: the body's output or, where more stands between, that one's."""
    if _between(causal, body):
        return _at_the_head(causal, inputs)
    output = body(**taken(body, {"use_cache": False, **inputs}))
    hidden = getattr(output, "last_hidden_state", None)
    return hidden if hidden is not None else output[0]  # type: ignore[no-any-return]


def _between(causal: Any, body: nn.Module) -> bool:
    """Whether weights stand beside the body and the head (BERT transforms what the head reads)."""
    head = causal.get_output_embeddings()
    known = {id(weight) for part in (body, head) if part for weight in part.parameters()}
    return any(weight.dim() > 1 and id(weight) not in known for weight in causal.parameters())


def _at_the_head(causal: Any, inputs: Mapping[str, Any]) -> torch.Tensor:
    def reached(_: nn.Module, given: tuple[torch.Tensor, ...]) -> None:
        raise Reached(given[0])

    hook = causal.get_output_embeddings().register_forward_pre_hook(reached)
    try:
        causal(**taken(causal, {"use_cache": False, **inputs}))
    except Reached as found:
        found.__traceback__ = None  # its frames hold tensors
        return found.hidden
    finally:
        hook.remove()
    raise ValueError(f"model: the forward of {type(causal).__name__} does not use its head.")


def taken(module: nn.Module, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The inputs that a module's forward has a name for."""
    names = inspect.signature(module.forward).parameters
    if any(each.kind is inspect.Parameter.VAR_KEYWORD for each in names.values()):
        return dict(inputs)
    return {name: value for name, value in inputs.items() if name in names}
