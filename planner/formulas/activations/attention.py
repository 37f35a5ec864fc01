"""Attention of every family: projections and rotary embedding, around one kernel."""

from __future__ import annotations

from planner.formulas.activations import operations as op
from planner.formulas.activations.kernels import Attended, Heads, kernel
from planner.formulas.activations.linears import linear, residual_dropout
from planner.formulas.activations.norms import head_norm
from planner.formulas.activations.setting import Layer
from planner.formulas.activations.tape import Tensor


def attention(
    layer: Layer, hidden_states: Tensor, cos: Tensor, sin: Tensor, mask: Tensor | None
) -> Attended:
    """Self-attention of every family with rotary positions."""
    if layer.arch.fused_qkv:
        query_states, key_states, value_states = _fused_heads(layer, hidden_states)
    else:
        query_states, key_states, value_states = _separate_heads(layer, hidden_states)
    query_states, key_states = _rotated(layer, query_states, key_states, cos, sin)
    attn_output, attn_weights = kernel(layer, query_states, key_states, value_states, mask)
    attn_output = linear(layer, attn_output, "hidden", "attention projection", "self_attn.o_proj")
    return attn_output, attn_weights


def gpt2_attention(layer: Layer, hidden_states: Tensor, mask: Tensor | None) -> Attended:
    """GPT-2: one projection split in three views, no rotation, dropout at the end."""
    fused = linear(
        layer, hidden_states, "fused query-key-value", "query, key and value", "attn.c_attn"
    )
    query_states, key_states, value_states = op.split(layer.tape, fused, ("query", "key", "key"))
    del fused
    if layer.setting.attention == "eager":
        query_states = op.view(layer.tape, query_states, "query", copied="query")
        value_states = op.view(layer.tape, value_states, "key", copied="key")
    attn_output, attn_weights = kernel(layer, query_states, key_states, value_states, mask)
    attn_output = linear(layer, attn_output, "hidden", "attention projection", "attn.c_proj")
    attn_output = residual_dropout(layer, attn_output, "dropped attention output")
    return attn_output, attn_weights


def _separate_heads(layer: Layer, hidden_states: Tensor) -> Heads:
    setting, arch = layer.setting, layer.arch
    # Gradients come back head by head; the projection wants them token by token.
    query_copy = "query" if arch.heads > 1 else ""
    key_copy = "key" if arch.kv_heads > 1 else ""
    repeated = setting.masked and arch.heads != arch.kv_heads
    value_copy = key_copy if setting.attention == "eager" or repeated else ""
    heads: list[Tensor] = []
    for shape, name, path, copied in (
        ("query", "queries", "q_proj", query_copy),
        ("key", "keys", "k_proj", key_copy),
        ("key", "values", "v_proj", value_copy),
    ):
        projected = linear(layer, hidden_states, shape, name, f"self_attn.{path}")
        if arch.qk_norm and path != "v_proj" and arch.family != "gemma3_text":
            projected = op.view(layer.tape, projected, shape)
            projected = head_norm(layer, projected, f"{name[:-1].replace('ie', 'y')} norm")
        heads.append(op.view(layer.tape, projected, shape, copied=copied))
        del projected
    query, key, value = heads
    del heads
    if arch.qk_norm and arch.family == "gemma3_text":
        query = head_norm(layer, query, "query norm")
        key = head_norm(layer, key, "key norm")
    return query, key, value


def _fused_heads(layer: Layer, hidden_states: Tensor) -> Heads:
    tape, setting, arch = layer.tape, layer.setting, layer.arch
    fused = linear(
        layer,
        hidden_states,
        "fused query-key-value",
        "query, key and value",
        "self_attn.qkv_proj",
    )
    query, key, value = (op.piece(tape, fused, shape) for shape in ("query", "key", "key"))
    key_copy = "key" if arch.kv_heads > 1 else ""
    repeated = setting.masked and arch.heads != arch.kv_heads
    value_copy = key_copy if setting.attention == "eager" or repeated else ""
    query = op.view(tape, query, "query", copied="query" if arch.heads > 1 else "")
    key = op.view(tape, key, "key", copied=key_copy)
    value = op.view(tape, value, "key", copied=value_copy)
    return query, key, value


def _rotated(
    layer: Layer, query: Tensor, key: Tensor, cos: Tensor, sin: Tensor
) -> tuple[Tensor, Tensor]:
    if layer.arch.family != "phi3":
        return (
            _rotate(layer, query, cos, sin, "queries", "query"),
            _rotate(layer, key, cos, sin, "keys", "key"),
        )
    # Phi-3 rotates a part of each head and joins it with the rest, even when that is empty.
    tape = layer.tape
    partial = layer.arch.rotary_dim < layer.arch.head_dim
    parts = []
    for states, shape in ((query, "query"), (key, "key")):
        turned = op.piece(tape, states, f"rotated {shape}") if partial else states
        parts.append((turned, op.piece(tape, states, shape), shape))
        del turned
    joined = []
    for turned, rest, shape in parts:
        name = "queries" if shape == "query" else "keys"
        rotated = _rotate(layer, turned, cos, sin, name, f"rotated {shape}" if partial else shape)
        joined.append(op.join(tape, (rotated, rest), shape, f"rotated {name}"))
        del rotated
    return joined[0], joined[1]


def _rotate(layer: Layer, x: Tensor, cos: Tensor, sin: Tensor, name: str, shape: str) -> Tensor:
    tape = layer.tape
    upright = op.multiply(tape, x, cos, f"{name} times cos")
    turned = op.multiply(tape, _half_turn(layer, x, shape), sin, f"turned {name} times sin")
    return op.add(tape, upright, turned, f"rotated {name}")


def _half_turn(layer: Layer, x: Tensor, shape: str) -> Tensor:
    tape = layer.tape
    half = f"{shape.removeprefix('rotated ')} half"
    first = op.piece(tape, x, half)
    second = op.piece(tape, x, half)
    return op.join(tape, (op.unary(tape, second, "negated half"), first), shape, "turned half")
