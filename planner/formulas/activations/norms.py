"""The three normalisations, line by line as transformers 5.23.0 runs them.

Local variables follow the modeling files on purpose: how long Python holds a tensor
decides what is alive without gradients.
"""

from __future__ import annotations

from planner.formulas.activations import liger
from planner.formulas.activations import operations as op
from planner.formulas.activations.setting import OLMO, Layer
from planner.formulas.activations.tape import Frozen, Gradients, Scale, Tensor


def norm(layer: Layer, x: Tensor, name: str, path: str) -> Tensor:
    """The family's normalisation of hidden states, by the module at ``path``."""
    layer.tape.modules.append(Scale(path, "channel"))
    if layer.arch.norm == "layernorm":
        return layer_norm(layer, x, name)
    if layer.setting.liger:
        return liger.rms_norm(layer, x, "token", "channel", name)
    if layer.arch.family in ("gemma2", "gemma3_text"):
        return gemma_norm(layer, x, "token", "channel", name)
    return rms_norm(layer, x, "token", name)


def whole_norm(layer: Layer, x: Tensor, name: str, path: str) -> Tensor:
    """OLMo's normalisation of all query or key heads as one vector."""
    layer.tape.modules.append(Scale(path, x.shape))
    return rms_norm(layer, x, "token", name)


def head_norm(layer: Layer, x: Tensor, name: str, path: str) -> Tensor:
    """The family's normalisation of every query or key head."""
    layer.tape.modules.append(Scale(path, "head channel"))
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
    input_width = hidden_states.width
    hidden_states = op.cast(hidden_states, op.FP32, f"{name} input in fp32")
    variance = op.mean(op.square(hidden_states), statistic, "mean square")
    hidden_states = op.multiply(
        hidden_states, _inverse_root(variance, name), f"{name} scaled in fp32"
    )
    if layer.arch.family in OLMO:  # the weight is multiplied in fp32 as well
        output = _weighted(layer, hidden_states, name)
        return op.cast(output, input_width, f"{name} output")
    return _weighted(layer, op.cast(hidden_states, input_width, f"{name} normalised"), name)


def gemma_norm(layer: Layer, x: Tensor, statistic: str, channel: str, name: str) -> Tensor:
    """Gemma's RMSNorm: all of it in fp32, scaled by one plus the weight."""
    output = _normalised(op.cast(x, op.FP32, f"{name} input in fp32"), statistic, name)
    output = op.multiply(output, _one_plus_weight(layer, channel, name), f"{name} in fp32")
    return op.cast(output, x.width, f"{name} output")


def layer_norm(layer: Layer, x: Tensor, name: str) -> Tensor:
    """``nn.LayerNorm``, one fused operation that keeps its input, means and 1/deviations."""
    # CUDA's autocast runs it in fp32; the CPU's does not.
    cuda = layer.setting.kernels == "cuda"
    wide = cuda and layer.setting.in_autocast
    x = op.cast(x, op.FP32 if wide else layer.setting.weight, f"{name} input")
    # CUDA keeps the statistics in fp32; the CPU kernel keeps them in the input's format.
    statistic = op.FP32 if cuda else x.width
    output = layer.tape.new(x.shape, x.width, f"{name} output")
    kept = [layer.tape.new("token", statistic, f"{name} {of}") for of in ("mean", "1/deviation")]
    # layer_norm_kernel.cu: the weight's and the bias's gradients read both once more.
    times = 2 if cuda and layer.setting.all_weights else 1
    backward = op.fresh_gradients(x, read=(x.kind, x.kind) * times)
    return op.record(output, x.shape, x.width, [x], backward, (x.storage, *kept))


def _inverse_root(variance: Tensor, name: str) -> Tensor:
    shifted = op.copy(variance, "mean square plus epsilon")
    return op.unary(shifted, f"{name} 1/rms", saves="output", scratch=2)


def _normalised(x: Tensor, statistic: str, name: str) -> Tensor:
    variance = op.mean(op.square(x), statistic, "mean square")
    scale = _inverse_root(variance, name)
    del variance  # a temporary of one expression in the modeling file
    return op.multiply(x, scale, f"{name} normalised in fp32")


def _one_plus_weight(layer: Layer, channel: str, name: str) -> Tensor:
    narrow = layer.setting.weight != op.FP32
    weight = layer.tape.new(channel, op.FP32, "weight in fp32", ()) if narrow else None
    output = layer.tape.new(channel, op.FP32, f"{name} one plus weight", ())
    del weight
    if layer.setting.all_weights:
        return op.leaf(output, channel, op.FP32)
    return Tensor(output, channel, op.FP32)


def _weighted(layer: Layer, x: Tensor, name: str) -> Tensor:
    tape, trained = layer.tape, layer.setting.all_weights
    width = op.FP32 if op.FP32 in (layer.setting.weight, x.width) else x.width
    wanted, kind = op.signature(x), x.kind
    product = (wanted[0], width)

    def backward(_: Gradients) -> Gradients:
        name, read = "norm weight gradient before its sum", (product, kind, product)
        unreduced = tape.new(*product, name, read) if trained else None
        result = tape.new(*product, wanted[2], (product,))
        del unreduced
        return [op.fitted(result, wanted)]

    saved = (x.storage if trained else Frozen(),)
    return op.made(x, f"{name} output", width=width, backward=backward, saved=saved)
