"""A projection whose frozen weight is in 4 bits (NF4), as bitsandbytes and peft run it.

Read in bitsandbytes 0.50.2 and peft 0.21.2:

* forward (``backends/cuda/ops.py``, ``_dequant_linear_fallback``): the scales of blocks in fp32,
  twice, then the whole weight in the input's format, then the product; all but that is gone after;
* backward (``autograd/_functions.py``, ``MatMul4Bit.backward``): scales and weight once more, for
  the gradient of the input; nothing of the activations is kept;
* with an adapter (peft ``tuners/lora/bnb.py``): the product is cloned, and the adapter's output is
  cast to its format before it is added.

Up to 1,536 rows a fused kernel may take a product without a weight in full (its choice differs by
card and shape); the weight is counted there too.
"""

from __future__ import annotations

from planner.catalog.architecture import Architecture
from planner.formulas.activations import operations as op
from planner.formulas.activations.setting import Layer
from planner.formulas.activations.tape import Gradients, Tensor

FAMILIES = ("llama", "qwen2", "qwen3", "mistral", "phi3", "smollm3", "gemma2", "gemma3_text")
"""Families whose projections are all plain linear layers, compared with dry runs."""


def refuse_other_weights(arch: Architecture) -> None:
    """Raise ``ValueError`` for a family whose 4-bit layers were not derived."""
    if arch.family not in FAMILIES:
        raise ValueError(
            f"finetuning: 4-bit weights of {arch.family} are not derived; set finetuning to lora, "
            f"or use a model of {', '.join(FAMILIES)}"
        )


def product(layer: Layer, x: Tensor, shape: str, name: str, weight: str) -> Tensor:
    """``Linear4bit``: ``weight`` is the shape of the matrix that is made in full."""
    tape = layer.tape
    scales = [tape.new(f"{weight} scales", op.FP32, "scales of 4-bit blocks") for _ in range(2)]
    whole = tape.new(weight, x.width, f"dequantised weight of {name}")
    output = tape.new(shape, x.width, name)
    del scales, whole
    wanted = op.signature(x)

    def backward(_: Gradients) -> Gradients:
        scale = tape.new(f"{weight} scales", op.FP32, "scales of 4-bit blocks")
        again = tape.new(weight, wanted[1], f"dequantised weight of {name}")
        del scale
        result = tape.new(*wanted)
        del again
        return [result]

    return op.record(output, shape, x.width, [x], backward, closed=True)
