"""The attention kernels: eager, ``scaled_dot_product_attention``, and flash-attn."""

from __future__ import annotations

from functools import partial

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
    run = _flash_attn if layer.setting.attention == "flash" else _sdpa
    return run(layer, query, key, value), None


def _repeated(layer: Layer, x: Tensor, name: str) -> Tensor:
    """``repeat_kv``: a copy at query-head size; backward sums it back to the key heads."""
    if layer.arch.heads == layer.arch.kv_heads:
        return x
    if layer.arch.kv_heads == 1:  # one head is repeated by a view
        return op.piece(x, "query")
    return _copied(x, name)


def _copied(x: Tensor, name: str) -> Tensor:
    return op.made(x, f"{name} repeated for every query head", shape="query")


def _eager(
    layer: Layer, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None
) -> Attended:
    setting, arch = layer.setting, layer.arch
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
        query if by_head else _batched(query, "queries"),
        key_states if grouped or same else _batched(key_states, "keys"),
        "score",
        "attention scores",
    )
    weights = op.unary(weights, "scaled attention scores")
    if arch.attention_softcap:
        weights = op.unary(weights, "scores over the soft cap")
        weights = op.unary(weights, "tanh of scores", saves="output")
        weights = op.unary(weights, "capped attention scores")
    if mask is not None:
        # Under autocast the mask has the residual stream's fp32, and so has the sum.
        masked = op.promoted(weights, mask)
        shifted = op.copy if masked == weights.width else partial(op.made, width=masked)
        weights = shifted(weights, "masked attention scores")
    if arch.family == "gpt2":  # casts in a statement of its own, when the scores are gone
        weights = _softmax(layer, weights)
        weights = op.cast(weights, value.width, "attention weights")
    else:
        weights = op.cast(_softmax(layer, weights), query.width, "attention weights")
    if arch.dropout:
        weights = op.dropout(weights, "dropped attention weights", kernels=setting.kernels)
    output = _product(
        layer,
        weights,
        value_states
        if grouped or viewed or (setting.cached and alike)
        else _batched(value_states, "values"),
        "query",
        "attention output by head",
    )
    output = op.view(output, "query", copied="query" if arch.heads > 1 else "")
    return op.copy(output, "attention output"), weights


def _batched(x: Tensor, name: str) -> Tensor:
    return op.copy(x, f"{name} laid out by head")


def _product(layer: Layer, first: Tensor, second: Tensor, shape: str, name: str) -> Tensor:
    """Batched matrix product: each operand is saved for the gradient of the other."""
    width = layer.setting.value
    first = op.cast(first, width, f"{first.name} in bf16")
    second = op.cast(second, width, f"{second.name} in bf16")
    output = layer.tape.new(shape, width, name)
    saved = op.operands_saved(first, second)
    return op.record(output, shape, width, [first, second], saved=saved, closed=True)


def _softmax(layer: Layer, weights: Tensor) -> Tensor:
    if layer.arch.family == "gpt2" and not layer.setting.in_autocast:
        return op.unary(weights, "attention weights", saves="output")
    weights = op.cast(weights, op.FP32, "attention scores in fp32")
    return op.unary(weights, "attention weights in fp32", saves="output")


def _sdpa(layer: Layer, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    if _falls_to_math(layer):
        return _math(layer, query, key, value)
    setting, tape = layer.setting, layer.tape
    if setting.masked:
        key = _repeated(layer, key, "keys")
        value = _repeated(layer, value, "values")
    # The caller's fp32 tensors stay alive beside what autocast casts for the kernel.
    operands = _lowered(layer, query, key, value)
    width, cuda = setting.value, setting.kernels == "cuda"
    saved = [item.storage for item in operands]
    if setting.masked:
        shape = "padded pair" if cuda else "pair"
        saved.append(tape.new(shape, width, "attention mask as a bias"))
    # Flash is for half precision without a mask; the efficient kernel runs in its place.
    efficient = cuda and (setting.masked or width == op.FP32)
    scratch: Scratch = []
    if cuda:
        scratch = EFFICIENT_SCRATCH if efficient else _flash_scratch(layer, width)
    statistic = "padded query head" if efficient else "query head"
    result = _attended(layer, operands, saved, statistic, scratch)
    del operands, saved
    # Joined heads lie by head, and flash and cuDNN lay their output out as the query came; the
    # efficient kernel always does so by token. It takes masks, and what is in fp32.
    by_token = efficient and not (width != op.FP32 and setting.cudnn)
    by_head = layer.heads_joined and not by_token
    return op.copy(result, "attention output by token") if by_head else result


def _attended(
    layer: Layer, operands: Heads, saved: list[Storage], statistic: str, scratch: Scratch
) -> Tensor:
    """The output of one call of a kernel, which keeps it beside ``saved`` and the statistic."""
    tape, width = layer.tape, layer.setting.value
    output = tape.new("query", width, "attention output")
    saved += [output, tape.new(statistic, op.FP32, "attention log-sum-exp")]
    backward = _kernel_backward(operands, scratch)
    return op.record(output, "query", width, operands, backward, saved, closed=True)


Scratch = list[tuple[str, str, str]]
"""Shape, number format and name of what a kernel allocates for one call, beside gradients."""

EFFICIENT_SCRATCH: Scratch = [
    ("query head", op.FP32, "attention backward statistic"),
    ("efficient accumulator", op.FP32, "efficient backward query gradient in fp32"),
]
"""That of attention_backward.cu, the efficient kernel."""


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
    scaled = op.unary(query, "scaled queries")
    key = _copied(key, "keys")
    value = _copied(value, "values")
    bias = tape.new("token pair", op.FP32, "causal mask as a bias")
    turned = op.unary(key, "scaled keys")
    # The bias is added to the scores in place.
    scores = _product(layer, _batched(scaled, "queries"), turned, "score", "attention scores")
    del turned
    weights = op.unary(scores, "attention weights", saves="output")
    # _safe_softmax looks for rows that see nothing, while the scores are still there.
    beside = [tape.new(shape, "bool", "rows without a score") for shape in ("score", "query head")]
    del beside, scores
    if layer.arch.dropout:
        weights = op.dropout(weights, "dropped attention weights", kernels=layer.setting.kernels)
    output = _product(layer, weights, value, "query", "attention output by head")
    del weights, scaled, bias
    output = op.view(output, "query", copied="query")
    return op.copy(output, "attention output")


def _kernel_backward(operands: Heads, scratch: Scratch) -> Backward:
    tape = operands[0].tape
    wanted = [op.signature(item) for item in operands]

    def backward(_: Gradients) -> Gradients:
        gradients: Gradients = [tape.new(*item) for item in wanted]
        temporary = [tape.new(*item) for item in scratch]
        del temporary
        return gradients

    return backward


def _lowered(layer: Layer, query: Tensor, key: Tensor, value: Tensor) -> Heads:
    """Autocast brings fp32 queries and keys (rotated by fp32 tables) back to bf16."""
    width = layer.setting.value
    return (
        op.cast(query, width, "queries in bf16"),
        op.cast(key, width, "keys in bf16"),
        op.cast(value, width, "values in bf16"),
    )


def _flash_scratch(layer: Layer, width: str) -> Scratch:
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


def _side_by_side(layer: Layer, query: Tensor, key: Tensor, value: Tensor) -> Heads:
    """``contiguous()`` of slices and of joined heads; the others lie token by token already.

    transformers 5.23.0 modeling_flash_attention_utils.py ``_prepare_from_posids``.
    """
    if layer.heads_joined or layer.arch.family == "gpt2":
        query = op.copy(query, "queries side by side")
        key = op.copy(key, "keys side by side")
    if layer.heads_fused:
        value = op.copy(value, "values side by side")
    return query, key, value


def _flash_attn(layer: Layer, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """The flash-attn package: no mask ever; padded batches go in as copies without padding."""
    setting = layer.setting
    operands = _lowered(layer, query, key, value)
    if setting.unpadded:
        query, key, value = operands
        if setting.cached:  # lie by head; indexing wants them token by token
            key = op.copy(key, "keys laid out by token")
            value = op.copy(value, "values laid out by token")
        operands = (
            op.made(query, "queries without padding"),
            op.made(key, "keys without padding"),
            op.made(value, "values without padding"),
        )
        del query, key, value
    if setting.packed:
        operands = _side_by_side(layer, *operands)
    saved = [item.storage for item in operands]
    scratch = _flash_scratch(layer, setting.value)
    result = _attended(layer, operands, saved, "query head", scratch)
    del saved
    if setting.unpadded:
        # What went into the kernel is still named.
        result = op.made(result, "attention output with padding")
    del operands
    if layer.heads_joined and not (setting.packed or setting.unpadded):
        # The kernel lays its output out as its query came, which is by head.
        result = op.copy(result, "attention output by token")
    return result
