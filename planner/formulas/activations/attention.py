"""Attention: projections, rotary embedding, and the eager, SDPA and flash kernels."""

from __future__ import annotations

from planner.formulas.activations import operations as op
from planner.formulas.activations.linears import linear, residual_dropout
from planner.formulas.activations.norms import head_norm
from planner.formulas.activations.setting import Layer
from planner.formulas.activations.tape import Gradients, Tensor

Heads = tuple[Tensor, Tensor, Tensor]


def attention(
    layer: Layer, hidden_states: Tensor, cos: Tensor, sin: Tensor, mask: Tensor | None
) -> Tensor:
    """Self-attention of every family with rotary positions."""
    if layer.arch.fused_qkv:
        query_states, key_states, value_states = _fused_heads(layer, hidden_states)
    else:
        query_states, key_states, value_states = _separate_heads(layer, hidden_states)
    query_states, key_states = _rotated(layer, query_states, key_states, cos, sin)
    attn_output = _kernel(layer, query_states, key_states, value_states, mask)
    return linear(layer, attn_output, "hidden", "attention projection", "self_attn.o_proj")


def gpt2_attention(layer: Layer, hidden_states: Tensor, mask: Tensor | None) -> Tensor:
    """GPT-2: one projection split in three views, no rotation, dropout at the end."""
    fused = linear(
        layer, hidden_states, "fused query-key-value", "query, key and value", "attn.c_attn"
    )
    query_states, key_states, value_states = op.split(layer.tape, fused, ("query", "key", "key"))
    del fused
    if layer.setting.attention == "eager":
        query_states = op.view(layer.tape, query_states, "query", copied="query")
        value_states = op.view(layer.tape, value_states, "key", copied="key")
    attn_output = _kernel(layer, query_states, key_states, value_states, mask)
    attn_output = linear(layer, attn_output, "hidden", "attention projection", "attn.c_proj")
    return residual_dropout(layer, attn_output, "dropped attention output")


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


def _kernel(layer: Layer, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
    if layer.setting.attention == "eager":
        return _eager(layer, query, key, value, mask)
    if layer.setting.attention == "flash":
        return _flash_attn(layer, query, key, value)
    return _sdpa(layer, query, key, value)


def _repeated(layer: Layer, x: Tensor, name: str) -> Tensor:
    """``repeat_kv``: a copy at query-head size; backward sums it back to the key heads."""
    if layer.arch.heads == layer.arch.kv_heads:
        return x
    tape = layer.tape
    wanted = op.signature(x)
    copied = layer.arch.kv_heads > 1
    storage = (
        tape.new("query", x.width, f"{name} repeated for every query head") if copied else x.storage
    )
    return op.record(tape, storage, "query", x.width, [x], lambda _: [tape.new(*wanted)])


def _eager(layer: Layer, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
    tape, setting, arch = layer.tape, layer.setting, layer.arch
    # Repeated heads are laid out by head already; one shared head is a view until the product.
    grouped = arch.heads != arch.kv_heads and arch.kv_heads > 1
    by_head = arch.family == "phi3"  # joining the rotated part laid them out by head
    same = by_head and arch.heads == arch.kv_heads
    key_states = _repeated(layer, key, "keys")
    value_states = _repeated(layer, value, "values")
    weights = _product(
        layer,
        query if by_head else _batched(layer, query, "queries"),
        key_states if grouped or same else _batched(layer, key_states, "keys"),
        "score",
        "attention scores",
    )
    weights = op.unary(tape, weights, "scaled attention scores")
    if arch.attention_softcap:
        weights = op.unary(tape, weights, "scores over the soft cap")
        weights = op.unary(tape, weights, "tanh of scores", saves="output")
        weights = op.unary(tape, weights, "capped attention scores")
    if mask is not None:
        weights = op.shift(tape, weights, "masked attention scores")
    weights = _softmax(layer, weights)
    if arch.dropout:
        weights = op.dropout(tape, weights, "dropped attention weights", kernels=setting.kernels)
    output = _product(
        layer,
        weights,
        value_states if grouped else _batched(layer, value_states, "values"),
        "query",
        "attention output by head",
    )
    output = op.view(tape, output, "query", copied="query" if arch.heads > 1 else "")
    return op.copy(tape, output, "query", "attention output")


def _batched(layer: Layer, x: Tensor, name: str) -> Tensor:
    return op.copy(layer.tape, x, x.shape, f"{name} laid out by head")


def _product(layer: Layer, first: Tensor, second: Tensor, shape: str, name: str) -> Tensor:
    """Batched matrix product: saves both operands, backward makes both gradients."""
    tape, width = layer.tape, layer.setting.value
    first = op.cast(tape, first, width, f"{first.name} in bf16")
    second = op.cast(tape, second, width, f"{second.name} in bf16")
    output = tape.new(shape, width, name)
    wanted = (op.signature(first), op.signature(second))
    saved = (first.storage, second.storage)
    return op.record(
        tape,
        output,
        shape,
        width,
        [first, second],
        lambda _: [tape.new(*item) for item in wanted],
        saved,
    )


def _softmax(layer: Layer, weights: Tensor) -> Tensor:
    tape = layer.tape
    width = weights.width
    if layer.arch.family == "gpt2" and not layer.setting.autocast:
        return op.unary(tape, weights, "attention weights", saves="output")
    weights = op.cast(tape, weights, op.FP32, "attention scores in fp32")
    weights = op.unary(tape, weights, "attention weights in fp32", saves="output")
    return op.cast(tape, weights, width, "attention weights")


def _sdpa(layer: Layer, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    setting, tape = layer.setting, layer.tape
    if setting.masked:
        key = _repeated(layer, key, "keys")
        value = _repeated(layer, value, "values")
    query, key, value = _lowered(layer, query, key, value)
    saved = [query.storage, key.storage, value.storage]
    scratch: list[tuple[str, str, str]] = []
    cuda = setting.kernels == "cuda"
    if setting.masked:
        shape = "padded pair" if cuda else "pair"
        saved.append(tape.new(shape, query.width, "attention mask as a bias"))
        statistic = "padded query head" if cuda else "query head"
        scratch = [("query head", op.FP32, "attention backward statistic")] if cuda else []
    else:
        statistic = "query head"
        scratch = _flash_scratch(layer, query.width) if cuda else []
    output = tape.new("query", query.width, "attention output")
    saved += [output, tape.new(statistic, op.FP32, "attention log-sum-exp")]
    wanted = [op.signature(item) for item in (query, key, value)]

    def backward(_: Gradients) -> Gradients:
        gradients: Gradients = [tape.new(*item) for item in wanted]
        temporary = [tape.new(*item) for item in scratch]
        del temporary
        return gradients

    result = op.record(tape, output, "query", query.width, [query, key, value], backward, saved)
    # Phi-3 joins its heads by head, and flash lays its output out as its query came.
    by_head = layer.arch.family == "phi3" and not (setting.masked and cuda)
    return op.copy(tape, result, "query", "attention output by token") if by_head else result


def _lowered(layer: Layer, *tensors: Tensor) -> Heads:
    """Autocast brings fp32 queries and keys (rotated by fp32 tables) back to bf16."""
    query, key, value = tensors
    width = layer.setting.value
    names = ("queries", "keys", "values")
    query, key, value = (
        op.cast(layer.tape, item, width, f"{name} in bf16")
        for item, name in zip((query, key, value), names, strict=True)
    )
    return query, key, value


def _flash_scratch(layer: Layer, width: str) -> list[tuple[str, str, str]]:
    """What flash_api.cpp allocates for one backward call, beside the gradients."""
    scratch = [
        ("flash statistic", op.FP32, "flash backward row sums"),
        ("flash accumulator", op.FP32, "flash backward query gradient in fp32"),
    ]
    if layer.arch.heads != layer.arch.kv_heads:
        scratch += [
            ("query", width, f"flash backward {name} gradient before its sum over query heads")
            for name in ("key", "value")
        ]
    return scratch


def _flash_attn(layer: Layer, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """The flash-attn package: no mask ever; padded batches go in as copies without padding."""
    tape = layer.tape
    query, key, value = _lowered(layer, query, key, value)
    if layer.setting.unpadded:
        query, key, value = (
            op.unary(tape, item, f"{name} without padding")
            for item, name in ((query, "queries"), (key, "keys"), (value, "values"))
        )
    output = tape.new("query", query.width, "attention output")
    statistic = tape.new("query head", op.FP32, "attention log-sum-exp")
    saved = [query.storage, key.storage, value.storage, output, statistic]
    del statistic
    wanted = [op.signature(item) for item in (query, key, value)]
    scratch = _flash_scratch(layer, query.width)

    def backward(_: Gradients) -> Gradients:
        gradients: Gradients = [tape.new(*item) for item in wanted]
        temporary = [tape.new(*item) for item in scratch]
        del temporary
        return gradients

    result = op.record(tape, output, "query", query.width, [query, key, value], backward, saved)
    if layer.setting.unpadded:
        result = op.unary(tape, result, "attention output with padding")
    return result
