"""Projections: a plain linear layer, peft's LoRA around one, and the MLPs."""

from __future__ import annotations

from planner.formulas.activations import four_bit, liger
from planner.formulas.activations import operations as op
from planner.formulas.activations.setting import Layer
from planner.formulas.activations.tape import Frozen, Gradients, Node, Storage, Tape, Tensor


def linear(layer: Layer, x: Tensor, shape: str, name: str, path: str) -> Tensor:
    """The projection at ``path``, with its adapter when it has one."""
    tape = layer.tape
    if layer.setting.four_bit:
        result = four_bit.product(layer, x, shape, name, weight_shape(x.shape, shape))
    else:
        result = _plain(layer, x, shape, name, layer.setting.all_weights)
    if path not in layer.setting.adapted:
        return result
    if layer.setting.four_bit:
        result = op.copy(tape, result, shape, name)
    result_width = result.width
    # peft keeps adapters in fp32 (autocast_adapter_dtype) and casts their input to that,
    # unless sharding hands them over in the compute dtype.
    if layer.setting.fp32_adapters:
        x = op.cast(tape, x, op.FP32, f"adapter input of {name}")
    trains = layer.setting.trains == "lora"
    low_rank = _plain(layer, x, "rank", f"low-rank output of {name}", trains)
    update = _plain(layer, low_rank, shape, f"adapter output of {name}", trains)
    del low_rank
    scaled = op.unary(tape, update, f"scaled adapter output of {name}")
    del update
    if layer.setting.four_bit:
        scaled = op.cast(tape, scaled, result_width, f"adapter output of {name} in its format")
    result = op.add(tape, result, scaled, f"{name} with its adapter")
    del scaled
    return op.cast(tape, result, result_width, name)


def _plain(layer: Layer, x: Tensor, shape: str, name: str, trained: bool) -> Tensor:
    tape, setting = layer.tape, layer.setting
    given = x.shape
    operands: list[Tensor] = []
    saved: list[Storage | Frozen] = []
    if setting.autocast:
        # Autocast multiplies by a bf16 copy of the fp32 weight; the product saves it for
        # the gradient of its input.
        shaped = weight_shape(given, shape)
        copy = tape.new(shaped, setting.value, f"bf16 weight of {name}")
        if trained:
            operands.append(_copied(layer, copy, shaped))
        if x.node is not None:
            saved.append(copy)
        x = op.cast(tape, x, setting.value, f"{name} input")
    width = x.width
    output = tape.new(shape, width, name)
    if x.node is not None:
        saved.append(Frozen())  # the weight, for the gradient of its input
    if trained:
        saved.append(x.storage)
        if setting.sums_gradients and not setting.autocast:
            operands.append(_summed(tape, weight_shape(given, shape), width, output))
    wanted: list[tuple[str, str, str] | None] = [op.signature(operand) for operand in operands]
    if x.node is not None:
        operands.append(x)
        wanted.append(op.signature(x))
    elif trained and not operands:  # the node exists for the weight's sake alone
        operands.append(op.leaf(tape, output, shape, width))
        wanted.append(None)

    own = trained and not setting.autocast

    def backward(_: Gradients) -> Gradients:
        made = [tape.new(*item) if item else None for item in wanted]
        if own:
            weight_gradient(layer, weight_shape(given, shape), width)
        return made

    return op.record(tape, output, shape, width, operands, backward, saved)


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
        return []

    return Tensor(copy, shape, layer.setting.value, Node(layer.tape, (), (), backward))


def _summed(tape: Tape, shape: str, width: str, output: Storage) -> Tensor:
    """A weight whose gradient of this use is added, out of place, to that of a later one."""

    def backward(_: Gradients) -> Gradients:
        tape.new(shape, width, "sum of a weight's gradients")
        return []

    return Tensor(output, shape, width, Node(tape, (), (), backward))


def weight_shape(given: str, made: str) -> str:
    """Shape name of the weight between two activations' shapes."""
    if "rank" in (given, made):
        return f"rank by {made if given == 'rank' else given}"
    return f"{made if given == 'hidden' else given} weight"


def gated_mlp(layer: Layer, x: Tensor) -> Tensor:
    """``down(act(gate(x)) * up(x))``."""
    if layer.setting.liger:
        product = liger.gated(
            layer,
            linear(layer, x, "intermediate", "gate projection", "mlp.gate_proj"),
            linear(layer, x, "intermediate", "up projection", "mlp.up_proj"),
        )
        return linear(layer, product, "hidden", "MLP output", "mlp.down_proj")
    product = op.multiply(
        layer.tape,
        activated(
            layer,
            linear(layer, x, "intermediate", "gate projection", "mlp.gate_proj"),
            "activated gate",
        ),
        linear(layer, x, "intermediate", "up projection", "mlp.up_proj"),
        "gated product",
    )
    return linear(layer, product, "hidden", "MLP output", "mlp.down_proj")


def fused_gated_mlp(layer: Layer, hidden_states: Tensor) -> Tensor:
    """Phi-3: one projection, cut in two views that share its storage."""
    tape = layer.tape
    up_states = linear(
        layer, hidden_states, "fused gate-up", "gate and up projection", "mlp.gate_up_proj"
    )
    gate, up_states = op.split(tape, up_states, ("intermediate", "intermediate"))
    up_states = op.multiply(
        tape,
        up_states,
        activated(layer, gate, "activated gate"),
        "gated product",
    )
    return linear(layer, up_states, "hidden", "MLP output", "mlp.down_proj")


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
        return op.unary(layer.tape, x, name, saves="input")
    tape, setting = layer.tape, layer.setting
    half = op.unary(tape, x, f"half of {x.name}")
    # CUDA's autocast runs pow in fp32, and everything after it; the CPU's does not.
    wide = setting.autocast and setting.kernels == "cuda"
    inner = op.cast(tape, x, op.FP32, f"{x.name} in fp32") if wide else x
    inner = op.unary(tape, inner, f"{x.name} cubed", saves="input", scratch=2)
    inner = op.unary(tape, inner, "scaled cube")
    inner = op.add(tape, x, inner, "input plus cube")
    inner = op.unary(tape, inner, "tanh argument")
    inner = op.unary(tape, inner, "tanh", saves="output")
    inner = op.shift(tape, inner, "one plus tanh")
    return op.multiply(tape, half, inner, name)


def residual_dropout(layer: Layer, x: Tensor, name: str) -> Tensor:
    """Dropout before a residual sum; nothing happens at probability 0."""
    if not layer.arch.dropout:
        return x
    return op.dropout(layer.tape, x, name, kernels=layer.setting.kernels)
