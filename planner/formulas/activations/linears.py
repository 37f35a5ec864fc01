"""Projections: a plain linear layer, peft's LoRA around one, and the MLPs."""

from __future__ import annotations

from planner.formulas.activations import four_bit, liger
from planner.formulas.activations import operations as op
from planner.formulas.activations.setting import Layer
from planner.formulas.activations.tape import Frozen, Gradients, Storage, Tensor


def linear(layer: Layer, x: Tensor, shape: str, name: str, path: str) -> Tensor:
    """The projection at ``path``, with its adapter when it has one."""
    found: Tensor = layer.wrap(path, _linear)(layer, x, shape, name, path)
    return found


def _linear(layer: Layer, x: Tensor, shape: str, name: str, path: str) -> Tensor:
    setting = layer.setting
    if setting.four_bit:
        # Linear4bit computes in half precision and answers in what it was given.
        lowered = op.cast(x, setting.value, f"{name} input")
        result = four_bit.product(layer, lowered, shape, name, weight_shape(x.shape, shape))
        del lowered
        result = op.cast(result, x.width, name)
    else:
        result = _plain(layer, x, shape, name, setting.all_weights)
    if path not in setting.adapted:
        return result
    if setting.four_bit:
        result = op.copy(result, name)
    result_width = result.width
    # peft keeps adapters in fp32 (autocast_adapter_dtype) and casts their input to that,
    # unless sharding hands them over in the compute dtype.
    casts = setting.in_autocast and setting.four_bit  # there autocast casts, and peft does not
    if setting.fp32_adapters and not casts:
        x = op.cast(x, op.FP32, f"adapter input of {name}")
    dropped = x
    if setting.drops_adapters:
        dropped = op.dropout(x, f"dropped input of {name}", kernels=setting.kernels)
    trains, cast = setting.trains == "lora", setting.autocasts_adapters
    low_rank = _plain(layer, dropped, "rank", f"low-rank output of {name}", trains, cast)
    del dropped
    update = _plain(layer, low_rank, shape, f"adapter output of {name}", trains, cast)
    del low_rank
    scaled = op.unary(update, f"scaled adapter output of {name}")
    del update
    if setting.four_bit:
        scaled = op.cast(scaled, result_width, f"adapter output of {name} in its format")
    result = op.add(result, scaled, f"{name} with its adapter")
    del scaled
    return op.cast(result, result_width, name)


def _plain(
    layer: Layer, x: Tensor, shape: str, name: str, trained: bool, autocast: bool = False
) -> Tensor:
    tape, setting = layer.tape, layer.setting
    autocast = autocast or setting.autocast
    shaped = weight_shape(x.shape, shape)
    operands: list[Tensor] = []
    saved: list[Storage | Frozen] = []
    if autocast and trained and not (setting.all_weights or setting.fp32_adapters):
        # Adapters in half precision need no copy.
        autocast, x = False, op.cast(x, setting.value, f"{name} input")
    if autocast:
        # Autocast multiplies by a bf16 copy of the fp32 weight; the product saves it for
        # the gradient of its input.
        copy = tape.new(shaped, setting.value, f"bf16 weight of {name}")
        if trained:
            operands.append(_copied(layer, copy, shaped))
        if x.node is not None:
            saved.append(copy)
    if setting.in_autocast:
        x = op.cast(x, setting.value, f"{name} input")
    width = x.width
    output = tape.new(shape, width, name)
    if x.node is not None:
        saved.append(Frozen())  # the weight, for the gradient of its input
    own = trained and not autocast
    if trained:
        saved.append(x.storage)
        if setting.sums_gradients and own:
            operands.append(_summed(shaped, width, output))
    if x.node is not None:
        operands.append(x)
    gradients = op.fresh_gradients(*operands) if operands else None
    if trained and not operands:  # the node exists for the weight's sake alone
        operands.append(op.leaf(output, shape, width))

    def backward(given: Gradients) -> Gradients:
        made: Gradients = gradients(given) if gradients else [None]
        if own:
            weight_gradient(layer, shaped, width)
        return made

    return op.record(output, shape, width, operands, backward, saved)


def weight_gradient(layer: Layer, shape: str, width: str) -> None:
    """The gradient of a weight, where the setting counts those."""
    mode = layer.setting.weight_gradients
    if not mode:
        return
    made = layer.tape.new(f"{shape} gradient", width, f"gradient of a layer's {shape}")
    if mode == "kept":
        layer.tape.kept.append(made)


def _copied(layer: Layer, copy: Storage, shape: str) -> Tensor:
    """Autocast's copy of a weight, whose gradient is cast to the weight's own format."""

    def backward(_: Gradients) -> Gradients:
        weight_gradient(layer, shape, op.FP32)
        if layer.setting.sums_gradients:
            both = [layer.tape.new(shape, op.FP32, "sum of a weight's gradients") for _ in "12"]
            del both
        return []

    return op.leaf(copy, shape, layer.setting.value, backward)


def _summed(shape: str, width: str, output: Storage) -> Tensor:
    """A weight whose gradient of this use is added, out of place, to that of a later one."""
    tape = output.tape

    def backward(_: Gradients) -> Gradients:
        tape.new(shape, width, "sum of a weight's gradients")
        return []

    return op.leaf(output, shape, width, backward)


def weight_shape(given: str, made: str) -> str:
    """Shape name of the weight between two activations' shapes."""
    if "rank" in (given, made):
        return f"rank by {made if given == 'rank' else given}"
    return f"{made if given == 'hidden' else given} weight"


def gated_mlp(layer: Layer, x: Tensor) -> Tensor:
    """``down(act(gate(x)) * up(x))``."""
    if layer.setting.liger:
        product = liger.gated(layer, _gate(layer, x), _up(layer, x))
    else:
        gate = activated(layer, _gate(layer, x), "activated gate")
        product = op.multiply(gate, _up(layer, x), "gated product")
        del gate  # a temporary of one expression in the modeling file
    return _down(layer, product)


def _gate(layer: Layer, x: Tensor) -> Tensor:
    return linear(layer, x, "intermediate", "gate projection", "mlp.gate_proj")


def _up(layer: Layer, x: Tensor) -> Tensor:
    return linear(layer, x, "intermediate", "up projection", "mlp.up_proj")


def _down(layer: Layer, product: Tensor) -> Tensor:
    return linear(layer, product, "hidden", "MLP output", "mlp.down_proj")


def fused_gated_mlp(layer: Layer, hidden_states: Tensor) -> Tensor:
    """Phi-3: one projection, cut in two views that share its storage."""
    up_states = linear(
        layer, hidden_states, "fused gate-up", "gate and up projection", "mlp.gate_up_proj"
    )
    gate, up_states = op.split(up_states, ("intermediate", "intermediate"))
    up_states = op.multiply(up_states, activated(layer, gate, "activated gate"), "gated product")
    return _down(layer, up_states)


def plain_mlp(layer: Layer, hidden_states: Tensor) -> Tensor:
    """GPT-2, StarCoder2 and GPT-NeoX: up, activation, down, dropout."""
    neox = layer.arch.family == "gpt_neox"
    up, down = ("dense_h_to_4h", "dense_4h_to_h") if neox else ("c_fc", "c_proj")
    hidden_states = linear(layer, hidden_states, "intermediate", "MLP input", f"mlp.{up}")
    hidden_states = activated(layer, hidden_states, "activated MLP input")
    hidden_states = linear(layer, hidden_states, "hidden", "MLP output", f"mlp.{down}")
    return residual_dropout(layer, hidden_states, "dropped MLP output")


def activated(layer: Layer, x: Tensor, name: str) -> Tensor:
    """The activation: one operation that keeps its input, or GELU written out in eight."""
    if layer.arch.activation != "gelu_new":
        return op.unary(x, name, saves="input")
    half = op.unary(x, f"half of {x.name}")
    # CUDA's autocast runs pow in fp32, and everything after it; the CPU's does not.
    wide = layer.setting.in_autocast and layer.setting.kernels == "cuda"
    inner = op.cast(x, op.FP32, f"{x.name} in fp32") if wide else x
    inner = op.unary(inner, f"{x.name} cubed", saves="input", scratch=2)
    inner = op.unary(inner, "scaled cube")
    inner = op.add(x, inner, "input plus cube")
    inner = op.unary(inner, "tanh argument")
    inner = op.unary(inner, "tanh", saves="output")
    inner = op.copy(inner, "one plus tanh")
    return op.multiply(half, inner, name)


def residual_dropout(layer: Layer, x: Tensor, name: str) -> Tensor:
    """Dropout before a residual sum; nothing happens at probability 0."""
    return op.dropout(x, name, kernels=layer.setting.kernels) if layer.arch.dropout else x
