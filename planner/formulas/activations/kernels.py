"""The attention kernels: eager, ``scaled_dot_product_attention``, and flash-attn."""

from __future__ import annotations

from planner.formulas.activations import operations as op
from planner.formulas.activations.setting import Layer
from planner.formulas.activations.tape import Backward, Gradients, Storage, Tensor

Heads = tuple[Tensor, Tensor, Tensor]
Attended = tuple[Tensor, Tensor | None]
"""Attention's output, and the weights that eager attention returns beside it."""


def kernel(
    layer: Layer, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None
) -> Attended:
    """The kernel that the setting's ``attention`` runs on one GPU."""
    if layer.setting.attention == "eager":
        return _eager(layer, query, key, value, mask)
    if layer.setting.attention == "flash":
        return _flash_attn(layer, query, key, value), None
    return _sdpa(layer, query, key, value), None


def _repeated(layer: Layer, x: Tensor, name: str) -> Tensor:
    """``repeat_kv``: a copy at query-head size; backward sums it back to the key heads."""
    if layer.arch.heads == layer.arch.kv_heads:
        return x
    if layer.arch.kv_heads == 1:  # one head is repeated by a view
        return _expanded(layer, x, x.storage)
    return _copied(layer, x, name)


def _copied(layer: Layer, x: Tensor, name: str) -> Tensor:
    storage = layer.tape.new("query", x.width, f"{name} repeated for every query head")
    return _expanded(layer, x, storage)


def _expanded(layer: Layer, x: Tensor, storage: Storage) -> Tensor:
    tape, wanted = layer.tape, op.signature(x)
    return op.record(tape, storage, "query", x.width, [x], lambda _: [tape.new(*wanted)])


def _eager(
    layer: Layer, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None
) -> Attended:
    tape, setting, arch = layer.tape, layer.setting, layer.arch
    # Repeated heads are laid out by head already; one shared head is a view until the product.
    grouped = arch.heads != arch.kv_heads and arch.kv_heads > 1
    by_head = layer.heads_joined  # joining the rotated part laid them out by head
    alike = arch.heads == arch.kv_heads
    same = (by_head or setting.cached) and alike
    # Of one row they are a view, which keeps the product of all three alive.
    viewed = setting.one_row and by_head and layer.heads_fused and alike
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
        # Under autocast the mask has the residual stream's fp32, and so has the sum.
        masked = op.promoted(weights, mask)
        if masked == weights.width:
            weights = op.shift(tape, weights, "masked attention scores")
        else:
            weights = op.cast(tape, weights, masked, "masked attention scores")
    weights = _softmax(layer, weights, value.width if arch.family == "gpt2" else query.width)
    if arch.dropout:
        weights = op.dropout(tape, weights, "dropped attention weights", kernels=setting.kernels)
    output = _product(
        layer,
        weights,
        value_states
        if grouped or viewed or (setting.cached and alike)
        else _batched(layer, value_states, "values"),
        "query",
        "attention output by head",
    )
    output = op.view(tape, output, "query", copied="query" if arch.heads > 1 else "")
    return op.copy(tape, output, "query", "attention output"), weights


def _batched(layer: Layer, x: Tensor, name: str) -> Tensor:
    return op.copy(layer.tape, x, x.shape, f"{name} laid out by head")


def _product(layer: Layer, first: Tensor, second: Tensor, shape: str, name: str) -> Tensor:
    """Batched matrix product: each operand is saved for the gradient of the other."""
    tape, width = layer.tape, layer.setting.value
    first = op.cast(tape, first, width, f"{first.name} in bf16")
    second = op.cast(tape, second, width, f"{second.name} in bf16")
    output = tape.new(shape, width, name)
    pairs = ((first, second), (second, first))
    saved = [operand.storage for operand, other in pairs if other.node is not None]
    wanted = [op.signature(item) if item.node is not None else None for item in (first, second)]

    def backward(_: Gradients) -> Gradients:
        return [tape.new(*item) if item else None for item in wanted]

    return op.record(tape, output, shape, width, [first, second], backward, saved)


def _softmax(layer: Layer, weights: Tensor, width: str) -> Tensor:
    tape = layer.tape
    if layer.arch.family == "gpt2" and not layer.setting.autocast:
        return op.unary(tape, weights, "attention weights", saves="output")
    weights = op.cast(tape, weights, op.FP32, "attention scores in fp32")
    weights = op.unary(tape, weights, "attention weights in fp32", saves="output")
    return op.cast(tape, weights, width, "attention weights")


def _sdpa(layer: Layer, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    if _falls_to_math(layer):
        return _math(layer, query, key, value)
    setting, tape = layer.setting, layer.tape
    if setting.masked:
        key = _repeated(layer, key, "keys")
        value = _repeated(layer, value, "values")
    # The caller's fp32 tensors stay alive beside what autocast casts for the kernel.
    operands = _lowered(layer, query, key, value)
    width = layer.setting.value
    saved = [item.storage for item in operands]
    scratch: list[tuple[str, str, str]] = []
    cuda = setting.kernels == "cuda"
    if setting.masked:
        shape = "padded pair" if cuda else "pair"
        saved.append(tape.new(shape, width, "attention mask as a bias"))
        statistic = "padded query head" if cuda else "query head"
        scratch = EFFICIENT_SCRATCH if cuda else []
    elif cuda and width == op.FP32:  # flash is for half precision, so the efficient kernel runs
        statistic = "padded query head"
        scratch = EFFICIENT_SCRATCH
    else:
        statistic = "query head"
        scratch = _flash_scratch(layer, width) if cuda else []
    output = tape.new("query", width, "attention output")
    saved += [output, tape.new(statistic, op.FP32, "attention log-sum-exp")]
    backward = _kernel_backward(layer, operands, scratch)
    result = op.record(tape, output, "query", width, operands, backward, saved)
    del operands, saved
    # Joined heads lie by head, and flash and cuDNN lay their output out as the query came; the
    # efficient kernel always does so by token. It takes masks, and what is in fp32.
    half = width != op.FP32
    efficient = cuda and not (half and (setting.cudnn or not setting.masked))
    by_head = layer.heads_joined and not efficient
    return op.copy(tape, result, "query", "attention output by token") if by_head else result


EFFICIENT_SCRATCH = [
    ("query head", op.FP32, "attention backward statistic"),
    ("efficient accumulator", op.FP32, "efficient backward query gradient in fp32"),
]
"""What attention_backward.cu allocates for one call of the efficient kernel, beside gradients."""


def _falls_to_math(layer: Layer) -> bool:
    """Whether no CUDA kernel takes the call: fp32 rules out flash, grouped heads the rest.

    sdp_utils.cpp at torch 2.13.0: flash wants half precision; the efficient kernel has
    ``supports_grouped_query_attention=false``, and Transformers groups when unmasked.
    """
    setting, arch = layer.setting, layer.arch
    grouped = arch.heads != arch.kv_heads and not setting.masked
    return setting.kernels == "cuda" and setting.value == op.FP32 and grouped


def _math(layer: Layer, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """``_scaled_dot_product_attention_math``: scores are made and kept in full."""
    tape = layer.tape
    scaled = op.unary(tape, query, "scaled queries")
    key = _copied(layer, key, "keys")
    value = _copied(layer, value, "values")
    bias = tape.new("token pair", op.FP32, "causal mask as a bias")
    turned = op.unary(tape, key, "scaled keys")
    # The bias is added to the scores in place.
    scores = _product(
        layer, _batched(layer, scaled, "queries"), turned, "score", "attention scores"
    )
    del turned
    weights = op.unary(tape, scores, "attention weights", saves="output")
    # _safe_softmax looks for rows that see nothing, while the scores are still there.
    beside = [tape.new(shape, "bool", "rows without a score") for shape in ("score", "query head")]
    del beside, scores
    if layer.arch.dropout:
        weights = op.dropout(
            tape, weights, "dropped attention weights", kernels=layer.setting.kernels
        )
    output = _product(layer, weights, value, "query", "attention output by head")
    del weights, scaled, bias
    output = op.view(tape, output, "query", copied="query")
    return op.copy(tape, output, "query", "attention output")


def _kernel_backward(
    layer: Layer, operands: Heads, scratch: list[tuple[str, str, str]]
) -> Backward:
    tape = layer.tape
    wanted = [op.signature(item) for item in operands]

    def backward(_: Gradients) -> Gradients:
        gradients: Gradients = [tape.new(*item) for item in wanted]
        temporary = [tape.new(*item) for item in scratch]
        del temporary
        return gradients

    return backward


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


def _side_by_side(layer: Layer, *tensors: Tensor) -> Heads:
    """``contiguous()`` of slices and of joined heads; the others lie token by token already.

    transformers 5.23.0 modeling_flash_attention_utils.py ``_prepare_from_posids``.
    """
    query, key, value = tensors
    tape = layer.tape
    if layer.heads_joined or layer.arch.family == "gpt2":
        query = op.copy(tape, query, "query", "queries side by side")
        key = op.copy(tape, key, "key", "keys side by side")
    if layer.heads_fused:
        value = op.copy(tape, value, "key", "values side by side")
    return query, key, value


def _flash_attn(layer: Layer, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """The flash-attn package: no mask ever; padded batches go in as copies without padding."""
    tape = layer.tape
    operands = _lowered(layer, query, key, value)
    width = layer.setting.value
    if layer.setting.unpadded:
        query, key, value = operands
        if layer.setting.cached:  # lie by head; indexing wants them token by token
            key = op.copy(tape, key, "key", "keys laid out by token")
            value = op.copy(tape, value, "key", "values laid out by token")
        operands = (
            op.unary(tape, query, "queries without padding"),
            op.unary(tape, key, "keys without padding"),
            op.unary(tape, value, "values without padding"),
        )
        del query, key, value
    if layer.setting.packed:
        operands = _side_by_side(layer, *operands)
    output = tape.new("query", width, "attention output")
    saved = [item.storage for item in operands]
    saved += [output, tape.new("query head", op.FP32, "attention log-sum-exp")]
    backward = _kernel_backward(layer, operands, _flash_scratch(layer, width))
    result = op.record(tape, output, "query", width, operands, backward, saved)
    del saved
    if layer.setting.unpadded:
        # What went into the kernel is still named.
        result = op.unary(tape, result, "attention output with padding")
    del operands
    if layer.heads_joined and not (layer.setting.packed or layer.setting.unpadded):
        # The kernel lays its output out as its query came, which is by head.
        result = op.copy(tape, result, "query", "attention output by token")
    return result
