"""Every weight of a model by its place, read off the modules that transformers builds."""

from __future__ import annotations

from torch import nn

from planner.dryrun.run.branches import fallbacks, supposed
from planner.steps import anatomy, models

WeightRow = tuple[str, str, int, int, int, str]
"""Name with ``{layer}``, kind, elements, input and output width, the layers as a pattern."""


def sentences_of(model: nn.Module) -> dict[str, list[str]]:
    """What of a model runs another branch than a GPU's, and what stand-ins suppose."""
    return {"fallback": fallbacks(model), "supposed": supposed(model)}


def rows_of(model: nn.Module) -> list[WeightRow]:
    """The weights of a model that is built.

    Weights that are alike in several layers are one row; its last entry has a 1 for each layer
    that has one and a 0 for each other, and is empty for weights outside the layers.
    """
    layers = models.layers(model)
    depth, prefix = len(layers), name_of(model, layers)
    table = anatomy.embedding_of(models.causal(model))
    owners: dict[int, nn.Module] = {} if table is None else {id(table.weight): table}
    for module in model.modules():
        for weight in module.parameters(False):
            owners.setdefault(id(weight), module)  # a tied head's is the embedding's
    found: dict[tuple[str, str, int, int, int], set[int]] = {}
    head = models.head(model)
    for name, weight in model.named_parameters():
        before, _, rest = name.partition(f"{prefix}.")
        number, _, tail = rest.partition(".")
        inside = not before and number.isdigit()
        plain = f"{prefix}.{{layer}}.{tail}" if inside else name
        owner = owners[id(weight)]
        kind = _kind(name, weight, owner, owner is head and weight.dim() > 1)
        out, ins = (weight.shape[0], weight.shape[1]) if kind in LINEAR else (0, 0)
        if type(owner).__name__ == CONV1D:
            out, ins = ins, out
        row = (plain, kind, weight.numel(), ins, out)
        found.setdefault(row, set()).update({int(number)} if inside else ())
    rows = [
        (*row, "".join(str(int(layer in layers)) for layer in range(depth)) if layers else "")
        for row, layers in found.items()
    ]
    return rows


def name_of(model: nn.Module, part: nn.Module) -> str:
    """The path of one of a model's modules."""
    return next(str(name) for name, module in model.named_modules() if module is part)


CONV1D = "Conv1D"
"""GPT-2's linear layer, which holds its matrix the other way round."""
LINEAR = ("linear", "router", "lm_head")


def _kind(name: str, weight: nn.Parameter, owner: nn.Module, is_head: bool) -> str:
    if is_head:
        return "lm_head"
    if isinstance(owner, nn.Embedding):
        return "embedding"
    together = weight.dim() == 3 and getattr(owner, "num_experts", 0) == weight.shape[0]
    if together or ".experts." in name:
        return "experts"
    if name.endswith("bias"):
        return "bias"
    if isinstance(owner, nn.Linear) or type(owner).__name__ == CONV1D:
        return "linear"
    # A router is a module of its own that holds a plain matrix.
    return "router" if weight.dim() == 2 else "norm"
