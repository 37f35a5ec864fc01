"""Attention of every family: projections and rotary embedding, around one kernel."""

from __future__ import annotations

from planner.formulas.activations import liger
from planner.formulas.activations import operations as op
from planner.formulas.activations.kernels import Attended, Heads, kernel
from planner.formulas.activations.linears import linear, residual_dropout
from planner.formulas.activations.norms import head_norm, whole_norm
from planner.formulas.activations.setting import GLM, OLMO, Layer
from planner.formulas.activations.tape import Storage, Tensor

FUSED = "fused query-key-value"


def attention(
    layer: Layer, hidden_states: Tensor, cos: Tensor, sin: Tensor, mask: Tensor | None
) -> Attended:
    """Self-attention of every family with rotary positions."""
    named: list[Storage] = []
    """A fused product keeps its name until the attention returns."""
    neox = layer.arch.family == "gpt_neox"
    if neox or layer.arch.fused_qkv:
        heads = _interleaved_heads if neox else _fused_heads
        query_states, key_states, value_states = heads(layer, hidden_states)
        named.append(value_states.storage)
    else:
        query_states, key_states, value_states = _separate_heads(layer, hidden_states)
    query_states, key_states = _rotated(layer, query_states, key_states, cos, sin)
    if layer.setting.cached:
        key_states, value_states = _cached(key_states, value_states)
    attn_output, attn_weights = kernel(layer, query_states, key_states, value_states, mask)
    path = "attention.dense" if neox else "self_attn.o_proj"
    attn_output = _output(layer, attn_output, path)
    return residual_dropout(layer, attn_output, "dropped attention output"), attn_weights


def gpt2_attention(layer: Layer, hidden_states: Tensor, mask: Tensor | None) -> Attended:
    """GPT-2: one projection split in three views, no rotation, dropout at the end."""
    fused = _fused(layer, hidden_states, "attn.c_attn")
    query_states, key_states, value_states = op.split(fused, ("query", "key", "key"))
    del fused
    if layer.setting.attention == "eager":
        query_states = op.view(query_states, "query", copied="query")
        value_states = op.view(value_states, "key", copied="key")
    if layer.setting.cached:
        key_states, value_states = _cached(key_states, value_states)
    attn_output, attn_weights = kernel(layer, query_states, key_states, value_states, mask)
    attn_output = _output(layer, attn_output, "attn.c_proj")
    return residual_dropout(layer, attn_output, "dropped attention output"), attn_weights


def _output(layer: Layer, x: Tensor, path: str) -> Tensor:
    return linear(layer, x, "hidden", "attention projection", path, bias=layer.arch.o_bias)


def _fused(layer: Layer, x: Tensor, path: str) -> Tensor:
    return linear(layer, x, FUSED, "query, key and value", path, bias=layer.arch.qkv_bias)


def _copies(layer: Layer) -> tuple[str, str, str]:
    """What gradients that come back head by head are copied to, token by token, if anything."""
    setting, arch = layer.setting, layer.arch
    key = "key" if arch.kv_heads > 1 else ""
    repeated = setting.masked and arch.heads != arch.kv_heads
    value = key if setting.attention == "eager" or repeated else ""
    return "query" if arch.heads > 1 else "", key, value


def _separate_heads(layer: Layer, hidden_states: Tensor) -> Heads:
    arch = layer.arch
    query_copy, key_copy, value_copy = _copies(layer)
    if layer.setting.liger:  # its rotation hands them back by token
        query_copy = key_copy = ""
    heads: list[Tensor] = []
    for shape, name, copied in (
        ("query", "query", query_copy),
        ("key", "key", key_copy),
        ("key", "value", value_copy),
    ):
        plural = "queries" if name == "query" else f"{name}s"
        path = f"self_attn.{name[0]}_"
        projected = linear(
            layer, hidden_states, shape, plural, f"{path}proj", bias=arch.qkv_bias
        )
        if arch.qk_norm_whole and name != "value":
            projected = whole_norm(layer, projected, f"{name} norm", f"{path}norm")
        elif arch.qk_norm and name != "value" and arch.family != "gemma3_text":
            projected = head_norm(layer, op.view(projected, shape), f"{name} norm", f"{path}norm")
        heads.append(op.view(projected, shape, copied=copied))
        del projected
    query, key, value = heads
    del heads
    if arch.qk_norm and arch.family == "gemma3_text":
        query = head_norm(layer, query, "query norm", "self_attn.q_norm")
        key = head_norm(layer, key, "key norm", "self_attn.k_norm")
    return query, key, value


def _fused_heads(layer: Layer, hidden_states: Tensor) -> Heads:
    fused = _fused(layer, hidden_states, "self_attn.qkv_proj")
    query, key, value = (op.piece(fused, shape) for shape in ("query", "key", "key"))
    query_copy, key_copy, value_copy = _copies(layer)
    query = op.view(query, "query", copied=query_copy)
    key = op.view(key, "key", copied=key_copy)
    value = op.view(value, "key", copied=value_copy)
    return query, key, value


def _interleaved_heads(layer: Layer, hidden_states: Tensor) -> Heads:
    """GPT-NeoX: query, key and value of a head lie side by side; three views of one product."""
    qkv = _fused(layer, hidden_states, "attention.query_key_value")
    qkv = op.view(qkv, FUSED, copied=FUSED if layer.arch.heads > 1 else "")
    query, key, value = op.split(qkv, ("query", "key", "key"))
    return query, key, value


def _cached(key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
    """``DynamicLayer.update``: both are concatenated, by head, in the keys' format, and stay."""
    tape = key.tape
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
        wide_query = _rotate(query, cos, sin, "query")
        wide_key = _rotate(key, cos, sin, "key")
        return (
            op.cast(wide_query, query.width, "rotated queries"),
            op.cast(wide_key, key.width, "rotated keys"),
        )
    if not layer.heads_joined:
        return _rotate(query, cos, sin, "query"), _rotate(key, cos, sin, "key")
    # A part of each head is rotated and joined with the rest, even when that is empty.
    partial = layer.arch.rotary_dim < layer.arch.head_dim
    if layer.arch.family in GLM:  # pairs of channels share an angle: each layer spreads the tables
        cos = op.unary(cos, "rotary cos of pairs")
        sin = op.unary(sin, "rotary sin of pairs")
    of_query = _parts(query, "query", partial)
    of_key = _parts(key, "key", partial)
    if layer.arch.family == "phi3":  # joins the queries before it rotates the keys
        query = _joined(_turned(of_query, cos, sin), of_query)
        return query, _joined(_turned(of_key, cos, sin), of_key)
    turned_query = _turned(of_query, cos, sin)
    turned_key = _turned(of_key, cos, sin)
    query = _joined(turned_query, of_query)
    del turned_query
    return query, _joined(turned_key, of_key)


Parts = tuple[Tensor, Tensor]
"""The part of every head that is rotated, and the rest."""


def _parts(states: Tensor, shape: str, partial: bool) -> Parts:
    turned = op.piece(states, f"rotated {shape}") if partial else states
    return turned, op.piece(states, f"unrotated {shape}")


def _turned(parts: Parts, cos: Tensor, sin: Tensor) -> Tensor:
    return _rotate(parts[0], cos, sin, parts[0].shape)


def _joined(turned: Tensor, parts: Parts) -> Tensor:
    shape = parts[1].shape.removeprefix("unrotated ")
    return op.join((turned, parts[1]), shape, f"rotated {PLURAL[shape]}")


PLURAL = {"query": "queries", "key": "keys"}


def _rotate(x: Tensor, cos: Tensor, sin: Tensor, shape: str) -> Tensor:
    name = PLURAL[shape.removeprefix("rotated ")]
    upright = op.multiply(x, cos, f"{name} times cos")
    turned = op.multiply(_half_turn(x, shape), sin, f"turned {name} times sin")
    return op.add(upright, turned, f"rotated {name}")


def _half_turn(x: Tensor, shape: str) -> Tensor:
    half = f"{shape.removeprefix('rotated ')} half"
    first = op.piece(x, half)
    second = op.piece(x, half)
    return op.join((op.unary(second, "negated half"), first), shape, "turned half")
