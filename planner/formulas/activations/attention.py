"""Attention of every family: projections and rotary embedding, around one kernel."""

from __future__ import annotations

from planner.formulas.activations import liger
from planner.formulas.activations import operations as op
from planner.formulas.activations.kernels import Attended, Heads, kernel
from planner.formulas.activations.linears import linear, residual_dropout
from planner.formulas.activations.norms import head_norm, rms_norm
from planner.formulas.activations.setting import GLM, OLMO, Layer
from planner.formulas.activations.tape import Storage, Tensor


def attention(
    layer: Layer, hidden_states: Tensor, cos: Tensor, sin: Tensor, mask: Tensor | None
) -> Attended:
    """Self-attention of every family with rotary positions."""
    named: list[Storage] = []
    """A fused product keeps its name until the attention returns."""
    if layer.arch.family == "gpt_neox":
        query_states, key_states, value_states = _interleaved_heads(layer, hidden_states)
        named.append(value_states.storage)
    elif layer.arch.fused_qkv:
        query_states, key_states, value_states = _fused_heads(layer, hidden_states)
        named.append(value_states.storage)
    else:
        query_states, key_states, value_states = _separate_heads(layer, hidden_states)
    query_states, key_states = _rotated(layer, query_states, key_states, cos, sin)
    if layer.setting.cached:
        key_states, value_states = _cached(layer, key_states, value_states)
    attn_output, attn_weights = kernel(layer, query_states, key_states, value_states, mask)
    path = "attention.dense" if layer.arch.family == "gpt_neox" else "self_attn.o_proj"
    attn_output = linear(layer, attn_output, "hidden", "attention projection", path)
    attn_output = residual_dropout(layer, attn_output, "dropped attention output")
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
    if layer.setting.cached:
        key_states, value_states = _cached(layer, key_states, value_states)
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
    if setting.liger:  # its rotation hands them back by token
        query_copy = key_copy = ""
    heads: list[Tensor] = []
    for shape, name, path, copied in (
        ("query", "queries", "q_proj", query_copy),
        ("key", "keys", "k_proj", key_copy),
        ("key", "values", "v_proj", value_copy),
    ):
        projected = linear(layer, hidden_states, shape, name, f"self_attn.{path}")
        if arch.qk_norm_whole and path != "v_proj":
            projected = rms_norm(layer, projected, "token", f"{name[:-1].replace('ie', 'y')} norm")
        elif arch.qk_norm and path != "v_proj" and arch.family != "gemma3_text":
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


def _interleaved_heads(layer: Layer, hidden_states: Tensor) -> Heads:
    """GPT-NeoX: query, key and value of a head lie side by side; three views of one product."""
    tape, shape = layer.tape, "fused query-key-value"
    qkv = linear(layer, hidden_states, shape, "query, key and value", "attention.query_key_value")
    qkv = op.view(tape, qkv, shape, copied=shape if layer.arch.heads > 1 else "")
    query, key, value = op.split(tape, qkv, ("query", "key", "key"))
    return query, key, value


def _cached(layer: Layer, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
    """``DynamicLayer.update``: both are concatenated, by head, in the keys' format, and stay."""
    tape = layer.tape
    cached = [tape.new("key", key.width, name) for name in ("cached keys", "cached values")]
    tape.kept.extend(cached)
    keys, values = (Tensor(storage, "key", key.width) for storage in cached)
    return keys, values


def _rotated(
    layer: Layer, query: Tensor, key: Tensor, cos: Tensor, sin: Tensor
) -> tuple[Tensor, Tensor]:
    if layer.setting.liger:
        return liger.rotated(layer, query, key, cos, sin)
    if layer.arch.family in OLMO:  # tables in fp32, and what they turned is cast back
        wide_query = _rotate(layer, query, cos, sin, "queries", "query")
        wide_key = _rotate(layer, key, cos, sin, "keys", "key")
        return (
            op.cast(layer.tape, wide_query, query.width, "rotated queries"),
            op.cast(layer.tape, wide_key, key.width, "rotated keys"),
        )
    if not layer.heads_joined:
        return (
            _rotate(layer, query, cos, sin, "queries", "query"),
            _rotate(layer, key, cos, sin, "keys", "key"),
        )
    # A part of each head is rotated and joined with the rest, even when that is empty.
    partial = layer.arch.rotary_dim < layer.arch.head_dim
    if layer.arch.family in GLM:  # pairs of channels share an angle: each layer spreads the tables
        cos = op.unary(layer.tape, cos, "rotary cos of pairs")
        sin = op.unary(layer.tape, sin, "rotary sin of pairs")
    of_query = _parts(layer, query, "query", partial)
    of_key = _parts(layer, key, "key", partial)
    if layer.arch.family == "phi3":  # joins the queries before it rotates the keys
        query = _joined(layer, _turned(layer, of_query, cos, sin), of_query)
        return query, _joined(layer, _turned(layer, of_key, cos, sin), of_key)
    turned_query = _turned(layer, of_query, cos, sin)
    turned_key = _turned(layer, of_key, cos, sin)
    query = _joined(layer, turned_query, of_query)
    del turned_query
    return query, _joined(layer, turned_key, of_key)


Parts = tuple[Tensor, Tensor]
"""The part of every head that is rotated, in its shape, and the rest in the whole's."""


def _parts(layer: Layer, states: Tensor, shape: str, partial: bool) -> Parts:
    turned = op.piece(layer.tape, states, f"rotated {shape}") if partial else states
    return turned, op.piece(layer.tape, states, shape)


def _turned(layer: Layer, parts: Parts, cos: Tensor, sin: Tensor) -> Tensor:
    name = "queries" if parts[1].shape == "query" else "keys"
    return _rotate(layer, parts[0], cos, sin, name, parts[0].shape)


def _joined(layer: Layer, turned: Tensor, parts: Parts) -> Tensor:
    shape = parts[1].shape
    name = "queries" if shape == "query" else "keys"
    return op.join(layer.tape, (turned, parts[1]), shape, f"rotated {name}")


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
