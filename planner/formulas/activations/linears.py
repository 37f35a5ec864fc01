"""Projections: a plain linear layer, peft's LoRA around one, and the MLPs."""

from __future__ import annotations

from planner.formulas.activations import operations as op
from planner.formulas.activations.setting import Layer
from planner.formulas.activations.tape import Gradients, Tensor

OUTPUT_WEIGHTS = {
    "query": "query weight",
    "key": "key weight",
    "fused query-key-value": "fused query-key-value weight",
    "intermediate": "MLP weight",
    "fused gate-up": "fused gate-up weight",
}
"""Shape of a projection's output (or of its input, when it leads back) to its weight's."""


def linear(layer: Layer, x: Tensor, shape: str, name: str, path: str) -> Tensor:
    """The projection at ``path``, with its adapter when it has one."""
    result = _plain(layer, x, shape, name, layer.setting.all_weights)
    if path not in layer.setting.adapted:
        return result
    tape = layer.tape
    result_width = result.width
    # peft keeps adapters in fp32 (autocast_adapter_dtype) and casts their input to that.
    x = op.cast(tape, x, op.FP32, f"adapter input of {name}")
    low_rank = _plain(layer, x, "rank", f"low-rank output of {name}", True)
    update = _plain(layer, low_rank, shape, f"adapter output of {name}", True)
    del low_rank
    scaled = op.unary(tape, update, f"scaled adapter output of {name}")
    del update
    result = op.add(tape, result, scaled, f"{name} with its adapter")
    del scaled
    return op.cast(tape, result, result_width, name)


def _plain(layer: Layer, x: Tensor, shape: str, name: str, trained: bool) -> Tensor:
    tape, setting = layer.tape, layer.setting
    given = x.shape
    if setting.autocast:
        x = op.cast(tape, x, setting.value, f"{name} input")
    width = x.width
    output = tape.new(shape, width, name)
    weight = ""
    if setting.autocast and trained and "rank" not in (given, shape):
        weight = OUTPUT_WEIGHTS[given if shape == "hidden" else shape]
    if x.node is None and trained:
        x = Tensor(x.storage, x.shape, x.width, op.leaf(tape, x.storage, given, width).node)
        wanted = None
    else:
        wanted = op.signature(x)

    def backward(_: Gradients) -> Gradients:
        result = tape.new(*wanted) if wanted else None
        if weight:
            # Autocast makes the gradient of the bf16 copy first, then casts it to fp32.
            tape.new(weight, width, f"bf16 weight gradient of {name}")
        return [result]

    return op.record(tape, output, shape, width, [x], backward, (x.storage,) if trained else ())


def gated_mlp(layer: Layer, x: Tensor) -> Tensor:
    """``down(act(gate(x)) * up(x))``."""
    product = op.multiply(
        layer.tape,
        op.unary(
            layer.tape,
            linear(layer, x, "intermediate", "gate projection", "mlp.gate_proj"),
            "activated gate",
            saves="input",
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
        op.unary(tape, gate, "activated gate", saves="input"),
        "gated product",
    )
    return linear(layer, up_states, "hidden", "MLP output", "mlp.down_proj")


def gelu_new_mlp(layer: Layer, hidden_states: Tensor) -> Tensor:
    """GPT-2: up, the tanh GELU written out in eight operations, down, dropout."""
    tape = layer.tape
    hidden_states = linear(layer, hidden_states, "intermediate", "MLP input", "mlp.c_fc")
    hidden_states = _gelu_new(layer, hidden_states)
    hidden_states = linear(layer, hidden_states, "hidden", "MLP output", "mlp.c_proj")
    return residual_dropout(layer, hidden_states, "dropped MLP output")


def _gelu_new(layer: Layer, x: Tensor) -> Tensor:
    tape = layer.tape
    half = op.unary(tape, x, "half of MLP input")
    inner = op.unary(tape, x, "MLP input cubed", saves="input", scratch=2)
    inner = op.unary(tape, inner, "scaled cube")
    inner = op.add(tape, x, inner, "input plus cube")
    inner = op.unary(tape, inner, "tanh argument")
    inner = op.unary(tape, inner, "tanh", saves="output")
    inner = op.shift(tape, inner, "one plus tanh")
    return op.multiply(tape, half, inner, "GELU output")


def residual_dropout(layer: Layer, x: Tensor, name: str) -> Tensor:
    """Dropout before a residual sum; nothing happens at probability 0."""
    if not layer.arch.dropout:
        return x
    return op.dropout(layer.tape, x, name, kernels=layer.setting.kernels)
