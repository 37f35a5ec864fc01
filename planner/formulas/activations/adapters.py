"""Adapters of whole tensors of experts: peft's ``ParamWrapper`` around a layer's experts.

peft 0.21.2, ``tuners/lora/layer.py``: each wrapper lays a parametrization over one tensor while the
experts run. The first read makes the changed weights, base plus the product of the adapters
(``baddbmm``), as large as all of the layer's experts; the product keeps them for the gradient of
its input, and its backward makes a gradient as large, of which the adapters' own are made. When
it is laid, torch makes the changed weights once more, to compare shapes and formats.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from planner.formulas.activations import operations as op
from planner.formulas.activations.linears import weight_gradient
from planner.formulas.activations.setting import Layer
from planner.formulas.activations.tape import Frozen, Gradients, Tensor

OUTER_FIRST = ("down_proj", "gate_up_proj")
"""peft wraps by the order of parameters, so the last one's wrapper runs first."""

SHAPES = {
    "gate_up_proj": ("experts' gate-up weight", ("experts' hidden", "experts' gate-up")),
    "down_proj": ("experts' down weight", ("experts' intermediate", "experts' hidden")),
}
"""The tensor's shape, and those of its adapters' matrices."""


@dataclass(slots=True)
class Changed:
    """The weights that adapters change while a layer's experts run."""

    layer: Layer
    factors: dict[str, list[Tensor | None]] = field(default_factory=dict)
    """Of each adapted tensor the adapters' matrices, where they are cast; None where not."""
    made: list[Tensor] = field(default_factory=list)
    """What is cached until the experts have run."""

    def of(self, name: str) -> Tensor | None:
        """The tensor as it is changed; None where no adapter is."""
        if name not in self.factors:
            return None
        changed = _folded(self.layer, name, self.factors[name])
        self.made.append(changed)
        return changed


def activated(layer: Layer) -> Changed:
    """Lay the parametrizations: the matrices in the weights' format, and torch's own comparison."""
    found = Changed(layer)
    for name in OUTER_FIRST:
        if f"mlp.experts.{name}" in layer.setting.adapted:
            found.factors[name] = [_cast(layer, side) for side in SHAPES[name][1]]
            _folded(layer, name, found.factors[name])
    return found


def _cast(layer: Layer, side: str) -> Tensor | None:
    """A matrix of all experts in the base's format; none of its own where it has that already."""
    setting, shape = layer.setting, f"rank by {side}"
    width = op.FP32 if setting.fp32_adapters else setting.value
    if width == setting.weight:
        return None
    copy = layer.tape.new(shape, setting.weight, f"adapter {shape} in the weights' format")
    if setting.trains != "lora":
        return Tensor(copy, shape, setting.weight)

    def backward(_: Gradients) -> Gradients:
        weight_gradient(layer, shape, width)
        return []

    return op.leaf(copy, shape, setting.weight, backward)


def _folded(layer: Layer, name: str, factors: list[Tensor | None]) -> Tensor:
    """``baddbmm(W, lhs, rhs)``: a tensor of all experts."""
    tape, width = layer.tape, layer.setting.weight
    shape, sides = SHAPES[name]
    output = tape.new(shape, width, f"{shape} with its adapter")
    if layer.setting.trains != "lora":
        return Tensor(output, shape, width)
    saved = [Frozen() if one is None else one.storage for one in factors]
    operands = [one for one in factors if one is not None]
    shapes = [f"rank by {side}" for side in sides]
    if not operands:
        operands.append(op.leaf(output, shape, width))
    cast = None not in factors

    def backward(_: Gradients) -> Gradients:
        # Each product, then the same scaled: alpha over rank is one half, not one.
        made: Gradients = []
        for one in shapes:
            product = tape.new(one, width, "gradient of an adapter, not scaled")
            made.append(tape.new(one, width, "gradient of an adapter"))
            del product
        if cast:
            return made
        for one in shapes:
            weight_gradient(layer, one, width)
        return [None]

    return op.record(output, shape, width, operands, backward, saved, closed=True)
