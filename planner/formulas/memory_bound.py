"""Bytes that a pass moves outside of its matrix products: norms, rotary, activations, adds, loss.

An eager kernel reads its operands from memory and writes its result there, and does next to
nothing between. Which kernels a layer launches, and on what, stands on its tape
(:mod:`planner.formulas.activations.decoder`); here they are added up. The same kernels counted as
torch dispatches them in transformers' own layers are the check (``tests/timing/dispatched.py``).
Liger's are on the tape, too; Inductor's read what goes in once and write what comes out once, all
between two products (``tests/timing/fused.py`` counts those).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Literal, NamedTuple

from planner.catalog.architecture import Architecture
from planner.formulas.activations.decoder import layer_record
from planner.formulas.activations.kinds import KINDS, Form
from planner.formulas.activations.setting import PLAIN, Setting
from planner.formulas.activations.tape import Kernel
from planner.formulas.activations.terms import sizes_of_a_token
from planner.formulas.duration import Rate
from planner.numeric import Num
from planner.values.dtypes import BYTES

COUNTED = (
    "transformers 5.23.0's layers (read), kernel by kernel; operands and results counted as torch "
    "2.13.0 dispatches them"
)

LAYER_BYTES = Rate(
    "bytes of one layer outside its products, a token",
    "stream_bytes + head_bytes + mlp_bytes + routed_bytes",
    unit="bytes",
    source=COUNTED,
    why="Every kernel reads its operands and writes its result: norms and residual sums on vectors "
    "of the hidden size (stream), rotary embedding, norms and copies of queries, keys and values "
    "(heads), the activation between projections (mlp), and each token's copies for the experts "
    "that it is routed to, which are sorted, weighted and summed (routed).",
    ignores="what stays in the card's cache between two kernels; statistics and tables, one number "
    "for many; that without a mask no head is repeated. A measured model is taken for a Llama of "
    "its sizes",
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

PARTS = {
    "stream_bytes": ("hidden",),
    "head_bytes": (
        *("query", "query half", "rotated query", "unrotated query"),
        *("key", "key half", "rotated key", "unrotated key", "fused query-key-value"),
    ),
    "mlp_bytes": ("intermediate", "fused gate-up"),
    "routed_bytes": ("routed hidden", "routed intermediate", "routed gate-up"),
}
"""Shapes that count, by part of a layer: vectors of every token."""

# torch 2.13.0's Inductor, buffers of every kernel that it schedules for a Llama layer, counted, a
# graph for each layer: the first sum is never written (the norm behind it and the last sum take it
# from its operands), rotation is one pass over heads, and a norm's backward is one with the sum of
# what projections send back. Norms of heads were not counted: as Liger's.
COMPILED = (
    {"hidden": 9, "query": 2, "key": 2, "intermediate": 3},
    {"hidden": 19, "query": 2, "key": 2, "intermediate": 5},
)
"""Tensors read and written by shape, forward and backward."""
COMPILED_HEAD_NORM = 2, 3
"""The same of queries and of keys where they are normalised."""


def setting_of(
    mode: Mode, value_bytes: int, attention: str, sparse: bool, trained: bool = True
) -> Setting:
    """A layer that gradients go through, on a batch with a mask; ``trained`` are its weights."""
    precision = "bf16" if value_bytes == 2 else "fp32"
    return PLAIN._replace(
        attention="eager" if attention == "eager" else "sdpa",
        masked=True,
        precision="autocast-bf16" if mode == "autocast" else precision,
        trains="all" if trained else "inputs",
        liger=mode in FUSED,
        sparse=sparse,
    )


def kernels_of(
    arch: Architecture, setting: Setting, backward: bool = False
) -> tuple[Kernel, ...]:
    """What a layer launches; a measured one is taken for a Llama of its sizes."""
    family = "llama" if arch.measured else arch.family
    return layer_record(replace(arch, family=family), setting).kernels[backward]


def tape_bytes(
    arch: Architecture, setting: Setting, backward: bool, parts: Mapping[str, tuple[str, ...]]
) -> dict[str, float]:
    """Bytes that one layer's kernels move for one token, by part, of the shapes that it has."""
    ran = kernels_of(arch, setting, backward)
    moved = Counter(kind for one in ran for kind in (*one.read, *one.written))
    wide = setting.precision == "fp32"
    return _bytes(arch, moved, BYTES["fp32" if wide else "bf16"], parts)


def _bytes(
    arch: Architecture,
    moved: Mapping[Form, int],
    value_bytes: int,
    parts: Mapping[str, tuple[str, ...]],
) -> dict[str, float]:
    sizes = sizes_of_a_token(arch, value_bytes)
    return {
        part: sum(n * KINDS[kind].of(sizes) for kind, n in moved.items() if kind[0] in shapes)
        for part, shapes in parts.items()
    }


@lru_cache(maxsize=512)
def layer_bytes(
    arch: Architecture,
    mode: Mode,
    value_bytes: int,
    backward: bool,
    sparse: bool = False,
    attention: str = "sdpa",
    trained: bool = True,
) -> float:
    """Bytes that one layer moves for one token outside of its products and scores."""
    if mode == "compiled":
        normed = arch.qk_norm * COMPILED_HEAD_NORM[backward]
        moved = {
            (shape, "value"): count + normed * (shape in ("query", "key"))
            for shape, count in COMPILED[backward].items()
        }
        parts = _bytes(arch, moved, value_bytes, PARTS)
    else:
        setting = setting_of(mode, value_bytes, attention, sparse, trained)
        parts = tape_bytes(arch, setting, backward, PARTS)
    return float(LAYER_BYTES(**parts))


@lru_cache(maxsize=512)
def score_bytes(arch: Architecture, mode: Mode, value_bytes: int, backward: bool) -> float:
    """Bytes that eager attention moves for one score: scaled, masked, normalised, and back."""
    setting = setting_of(mode, value_bytes, "eager", arch.sparse_layers > 0)
    of_all = tape_bytes(arch, setting, backward, {"scores": ("score",)})["scores"]
    return of_all / max(arch.heads, 1)


def layers_bytes(
    arch: Architecture,
    mode: Mode,
    value_bytes: int,
    backward: bool,
    attention: str = "sdpa",
    trained: bool = True,
) -> float:
    """The same of all layers of both kinds."""
    dense, sparse = arch.layers - arch.sparse_layers, arch.sparse_layers
    return sum(
        count * layer_bytes(arch, mode, value_bytes, backward, routes, attention, trained)
        for count, routes in ((dense, False), (sparse, True))
        if count
    )


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


USUAL_KERNELS = 40
"""Of a Llama layer's forward: seven projections, attention, two norms of eight, rotary embedding
of ten, two sums, the activation's two, and two copies."""


@lru_cache(maxsize=512)
def layer_kernels(
    arch: Architecture, mode: Mode, attention: str, adapted: int, *, autocast: bool = False
) -> int:
    """Kernels that one layer's forward launches; ``adapted`` projections have adapters.

    ``autocast`` casts each projection's input and weight beside Liger's kernels, too; a compiler's
    have the casts in them, and turn queries and keys apart.
    """
    casts = mode == "autocast" or (autocast and mode != "compiled")
    setting = setting_of(mode, 2, attention, arch.sparse_layers > 0)
    if casts:
        setting = setting._replace(precision="autocast-bf16")
    return len(kernels_of(arch, setting)) + (mode == "compiled") + 6 * adapted


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
