"""Bytes that a pass moves outside of its matrix products: norms, rotary, activations, adds, loss.

An eager kernel reads its operands from memory and writes its result there, and does next to
nothing between. The bytes of each part of a layer were counted over transformers' own layers, all
operands and results of every kernel that multiplies no matrices (``tests/timing/dispatched.py``
counts them again). Fused kernels read what goes in once and write what comes out once: Liger's are
of one operation, Inductor's of all between two products (``tests/timing/fused.py`` counts those).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Literal, NamedTuple

from planner.catalog.architecture import Architecture
from planner.formulas.duration import Rate
from planner.numeric import Num

COUNTED = (
    "operands and results of every kernel of transformers 5.23.0's layers, counted (torch 2.13.0)"
)

LAYER_BYTES = Rate(
    "bytes of one layer outside its products, a token",
    "normed * norm_bytes + heads_normed * head_norm_bytes + hidden * stream_bytes"
    " + intermediate * activation_bytes"
    " + query_width * query_bytes + key_width * key_bytes",
    unit="bytes",
    source=COUNTED,
    why="Norms, residual sums, the activation between projections, rotary embedding and the "
    "transposes of heads each read and write whole tensors.",
    ignores="what stays in the card's cache between two kernels; dropout; an eager gelu_new",
)
SCORE_BYTES = Rate(
    "bytes of eager attention's scores",
    "tokens * row_tokens * heads * score_bytes",
    unit="bytes",
    source=COUNTED,
    why="Eager attention writes the full matrix of scores, then scales, masks, casts and "
    "normalises it, each in a separate kernel.",
)
LOSS_BYTES = Rate(
    "bytes of the loss over the vocabulary",
    "tokens * vocab * value_bytes_moved",
    unit="bytes",
    source="planner/steps/vocabulary (read): each kernel over the logits reads and writes them",
    why="Softmax and loss read and write the logits several times and compute next to nothing.",
)
ROUTED_BYTES = Rate(
    "bytes of tokens on their way to experts and back",
    "tokens * experts_per_token * (hidden * hidden_bytes + intermediate * activation_bytes)",
    unit="bytes",
    source="transformers 5.23.0 integrations/moe.py, grouped_mm_experts_forward (read)",
    why="Each token's hidden state is copied once for every expert it is routed to; the copies are "
    "sorted, weighted and summed.",
)
MEMORY_SECONDS = Rate(
    "kernels limited by memory",
    "bytes_moved / (bandwidth_bytes_per_second * share)",
    unit="seconds",
    source="Williams et al. 2009 (roofline), with the share that a copy reaches",
    why="A memory-bound kernel takes as long as reading its operands and writing its results.",
    ignores="what stays in the card's cache between two kernels",
)

Mode = Literal["eager", "autocast", "liger", "compiled"]
"""Kernel by kernel; the same on fp32 weights under autocast; Liger's kernels; Inductor's."""
FUSED = ("liger", "compiled")
"""Modes with one kernel for a norm, a rotation or a gated product."""


class Moved(NamedTuple):
    """Bytes by value of each width, for one token of one layer."""

    norm: float
    stream: float
    """Residual sums, and backward the sums of what several projections send back."""
    activation: float
    query: float
    key: float
    head_norm: float


# Forward and backward. Of half-precision values; fp32 ones are twice as wide, but norms compute in
# fp32 either way.
EAGER = Moved(36, 12, 10, 24, 24, 36), Moved(92, 30, 18, 36, 40, 92)
EAGER_FP32 = Moved(28, 24, 20, 48, 48, 28), Moved(92, 60, 36, 72, 80, 92)
AUTOCAST = Moved(28, 50, 10, 48, 36, 48), Moved(92, 102, 18, 70, 62, 116)
# liger-kernel 0.8.5 (read: formulas/activations/liger.py): norms, rotation in place, gated product.
# Residual sums, the sums of what projections send back and heads' transposes stay torch's.
LIGER = Moved(4, 12, 6, 8, 8, 4), Moved(6, 30, 10, 8, 12, 6)
# torch 2.13.0's Inductor, buffers of every kernel that it schedules for a Llama layer, counted, a
# graph for each layer: the first sum is never written (the norm behind it and the last sum take it
# from its operands), rotation is one pass over heads, and a norm's backward is one with the sum of
# what projections send back. Norms of heads were not counted: as Liger's.
COMPILED = Moved(4, 10, 6, 4, 4, 4), Moved(6, 26, 10, 4, 4, 6)
LAYER_NORM = 4, 8
"""One kernel each way in every mode: read and write; read two, write one, and its sums."""
PLAIN_ACTIVATION = 4, 6
SCORES = 28, 28
"""Scaled, masked, cast to fp32, normalised, cast back; and all of it again on the way back."""
ROUTED = 10, 14
"""Gathered, weighted, put back in order and summed; backward each once more."""


@lru_cache(maxsize=512)
def layer_bytes(
    arch: Architecture, mode: Mode, value_bytes: int, backward: bool, sparse: bool = False
) -> float:
    """Bytes that one layer moves for one token outside of its products."""
    wide = value_bytes / 2
    if mode in FUSED:
        fused = LIGER if mode == "liger" else COMPILED
        per = Moved(*(each * wide for each in fused[backward]))
    elif mode == "autocast":
        per = AUTOCAST[backward]
    else:
        per = (EAGER if value_bytes == 2 else EAGER_FP32)[backward]
    norm = LAYER_NORM[backward] * wide if arch.norm == "layernorm" else per.norm
    query, key = arch.heads * arch.head_dim, arch.kv_heads * arch.head_dim
    activation = per.activation if arch.gated else PLAIN_ACTIVATION[backward] * wide
    found: float = LAYER_BYTES(
        normed=arch.norms_per_layer * arch.hidden,
        norm_bytes=norm,
        heads_normed=arch.qk_norm * (query + key),
        head_norm_bytes=per.head_norm,
        hidden=arch.hidden,
        stream_bytes=per.stream,
        intermediate=0 if sparse else arch.intermediate,
        activation_bytes=activation,
        query_width=query,
        query_bytes=per.query,
        key_width=key,
        key_bytes=per.key,
    )
    if sparse:
        found += ROUTED_BYTES(
            tokens=1,
            experts_per_token=arch.experts_per_token,
            hidden=arch.hidden,
            hidden_bytes=ROUTED[backward] * wide,
            intermediate=arch.expert_intermediate,
            activation_bytes=activation,
        )
    return found


def layers_bytes(arch: Architecture, mode: Mode, value_bytes: int, *, backward: bool) -> float:
    """The same of all layers of both kinds."""
    dense = arch.layers - arch.sparse_layers
    found = dense * layer_bytes(arch, mode, value_bytes, backward) if dense else 0.0
    if arch.sparse_layers:
        found += arch.sparse_layers * layer_bytes(arch, mode, value_bytes, backward, True)
    return found


def loss_bytes(
    *, tokens: Num, vocab: int, wide: int, scaled: bool, entropy: bool, fused: bool, backward: bool
) -> Num:
    """Bytes of everything over the vocabulary but the head's products.

    ``wide`` is the width of a logit in the softmax, ``scaled`` whether a temperature divides them,
    ``fused`` whether one kernel makes loss and gradient where the logits stand.
    """
    cast = 2 + wide if wide > 2 else 0
    if fused:
        moved = 0 if backward else 2 * wide + wide * entropy
    elif backward:
        # Read the gradient and the softmax, write theirs; an entropy's; the scale's; the cast's.
        moved = 3 * wide + 3 * wide * entropy + 2 * wide * scaled + cast
    else:
        moved = cast + 2 * wide * scaled + 2 * wide + 3 * wide * entropy
    return LOSS_BYTES(tokens=tokens, vocab=vocab, value_bytes_moved=moved)


ROUTER_KERNELS = 20
"""Scores, the best of them, a sort, copies and offsets, and the sum over a token's experts."""
USUAL_KERNELS = 40
"""Of a Llama layer's forward: seven projections, attention, two norms of eight, rotary embedding
of ten, two sums, the activation's two, and two copies."""


def layer_kernels(
    arch: Architecture, mode: Mode, attention: str, adapted: int, *, autocast: bool = False
) -> int:
    """Kernels that one layer's forward launches; ``adapted`` projections have adapters.

    ``autocast`` casts each projection's input and weight beside Liger's kernels, too; a compiler's
    have the casts in them.
    """
    one = mode in FUSED or arch.norm == "layernorm"
    norms = (arch.norms_per_layer + 2 * arch.qk_norm) * (1 if one else 8)
    rotary = (2 if mode in FUSED else 10) * arch.rotary
    projections = (1 if arch.fused_qkv else 3) + 1 + (2 if arch.fused_gate_up else 2 + arch.gated)
    activation = 1 if mode in FUSED or not arch.gated else 2
    scores = 6 if attention == "eager" else 0
    cast = mode == "autocast" or (autocast and mode != "compiled")
    casts = 2 * projections if cast else 0
    router = ROUTER_KERNELS if arch.experts else 0
    kernels = norms + rotary + projections + activation + scores + casts + router
    return kernels + 5 + 6 * adapted


class Adapted(NamedTuple):
    """Bytes by value of an adapted projection's input and output, for one token."""

    inputs: float
    outputs: float


# peft 0.21.2 lora/layer.py (read): the input cast to fp32, the result scaled, added to the
# projection's and cast back; in half precision scaled and added.
ADAPTER_FP32 = Adapted(6, 24), Adapted(12, 14)
ADAPTER_HALF = Adapted(0, 10), Adapted(6, 4)
DROPPED = 9
"""fp32 read and written, and the mask."""


def adapter_bytes(
    ins: float, outs: float, *, wide: bool, drops: bool, backward: bool
) -> float:
    """Bytes that adapters move for one token beside their products; widths of all together."""
    per = (ADAPTER_FP32 if wide else ADAPTER_HALF)[backward]
    return ins * (per.inputs + DROPPED * drops / (1 if wide else 2)) + outs * per.outputs
