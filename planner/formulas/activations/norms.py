"""The three normalisations, line by line as transformers 5.23.0 runs them.

Local variables follow the modeling files on purpose: how long Python holds a tensor
decides what is alive without gradients.
"""

from __future__ import annotations

from planner.formulas.activations import liger
from planner.formulas.activations import operations as op
from planner.formulas.activations.setting import OLMO, Layer
from planner.formulas.activations.tape import Frozen, Gradients, Tensor


def norm(layer: Layer, x: Tensor, name: str) -> Tensor:
    """The family's normalisation of hidden states."""
    if layer.arch.norm == "layernorm":
        return layer_norm(layer, x, name)
    if layer.setting.liger:
        return liger.rms_norm(layer, x, "token", "channel", name)
    if layer.arch.family in ("gemma2", "gemma3_text"):
        return gemma_norm(layer, x, "token", "channel", name)
    return rms_norm(layer, x, "token", name)


def head_norm(layer: Layer, x: Tensor, name: str) -> Tensor:
    """The family's normalisation of every query or key head."""
    statistic = f"{x.shape} head"
    if layer.setting.liger:
        return liger.rms_norm(layer, x, statistic, "head channel", name)
    if layer.arch.family == "gemma3_text":
        return gemma_norm(layer, x, statistic, "head channel", name)
    return rms_norm(layer, x, statistic, name)


def rms_norm(layer: Layer, hidden_states: Tensor, statistic: str, name: str) -> Tensor:
    """Llama's RMSNorm: square, mean and scale in fp32, then the weight in the input's format.

    OLMo multiplies by the weight before it goes back to that format.
    """
    tape = layer.tape
    input_width = hidden_states.width
    hidden_states = op.cast(tape, hidden_states, op.FP32, f"{name} input in fp32")
    variance = op.mean(tape, op.square(tape, hidden_states), statistic, "mean square")
    hidden_states = op.multiply(
        tape, hidden_states, _inverse_root(layer, variance, name), f"{name} scaled in fp32"
    )
    if layer.arch.family in OLMO:  # the weight is multiplied in fp32 as well
        output = _weighted(layer, hidden_states, name)
        return op.cast(tape, output, input_width, f"{name} output")
    return _weighted(layer, op.cast(tape, hidden_states, input_width, f"{name} normalised"), name)


def gemma_norm(layer: Layer, x: Tensor, statistic: str, channel: str, name: str) -> Tensor:
    """Gemma's RMSNorm: all of it in fp32, scaled by one plus the weight."""
    tape = layer.tape
    output = _normalised(layer, op.cast(tape, x, op.FP32, f"{name} input in fp32"), statistic, name)
    output = op.multiply(tape, output, _one_plus_weight(layer, channel, name), f"{name} in fp32")
    return op.cast(tape, output, x.width, f"{name} output")


def layer_norm(layer: Layer, x: Tensor, name: str) -> Tensor:
    """``nn.LayerNorm``, one fused operation that keeps its input, means and 1/deviations."""
    tape, setting = layer.tape, layer.setting
    x = op.cast(tape, x, setting.weight, f"{name} input")
    # CUDA keeps the statistics in fp32; the CPU kernel keeps them in the input's format.
    statistic = op.FP32 if setting.kernels == "cuda" else x.width
    output = tape.new(x.shape, x.width, f"{name} output")
    saved = [x.storage]
    saved += [tape.new("token", statistic, f"{name} {which}") for which in ("mean", "1/deviation")]
    wanted = op.signature(x)
    return op.record(tape, output, x.shape, x.width, [x], lambda _: [tape.new(*wanted)], saved)


def _inverse_root(layer: Layer, variance: Tensor, name: str) -> Tensor:
    shifted = op.shift(layer.tape, variance, "mean square plus epsilon")
    return op.unary(layer.tape, shifted, f"{name} 1/rms", saves="output", scratch=2)


def _normalised(layer: Layer, x: Tensor, statistic: str, name: str) -> Tensor:
    tape = layer.tape
    variance = op.mean(tape, op.square(tape, x), statistic, "mean square")
    scale = _inverse_root(layer, variance, name)
    del variance  # a temporary of one expression in the modeling file
    return op.multiply(tape, x, scale, f"{name} normalised in fp32")


def _one_plus_weight(layer: Layer, channel: str, name: str) -> Tensor:
    tape = layer.tape
    weight = (
        tape.new(channel, op.FP32, "weight in fp32") if layer.setting.weight != op.FP32 else None
    )
    output = tape.new(channel, op.FP32, f"{name} one plus weight")
    del weight
    if layer.setting.all_weights:
        return op.leaf(tape, output, channel, op.FP32)
    return Tensor(output, channel, op.FP32)


def _weighted(layer: Layer, x: Tensor, name: str) -> Tensor:
    tape, weight = layer.tape, layer.setting.weight
    width = op.FP32 if op.FP32 in (weight, x.width) else x.width
    output = tape.new(x.shape, width, f"{name} output")
    trained = layer.setting.all_weights
    shape, wanted = x.shape, op.signature(x)

    def backward(_: Gradients) -> Gradients:
        unreduced = (
            tape.new(shape, width, "norm weight gradient before its sum") if trained else None
        )
        result = tape.new(shape, width, wanted[2])
        del unreduced
        return [op.fitted(tape, result, wanted)]

    return op.record(
        tape, output, shape, width, [x], backward, (x.storage if trained else Frozen(),)
    )
