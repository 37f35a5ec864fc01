"""What Liger's kernels keep and need, in place of a layer's norms, rotation and gated product.

Read in liger-kernel 0.8.5 (its Triton kernels, the default on NVIDIA cards), line by line:

* ``ops/rms_norm.py``, lines 449-523 and 526-626: keeps its input and 1/rms in fp32 of every row;
  backward writes over the gradient it is given, or (Gemma, ``in_place=False``) makes another,
  and takes fp32 partial sums of the weight's gradient, one row a multiprocessor.
* ``ops/rope.py``, lines 138-198 and 201-262: turns queries and keys in place, so it keeps the
  tables only; what does not lie by token is copied first.
* ``ops/swiglu.py``, lines 159-306, and ``ops/geglu.py``, lines 87-146: keep gate and up and write
  their gradients over them.

``transformers/monkey_patch.py`` says which modules get them.
"""

from __future__ import annotations

from planner.catalog.architecture import Architecture
from planner.formulas.activations import operations as op
from planner.formulas.activations.setting import Layer
from planner.formulas.activations.tape import Gradients, Node, Storage, Tensor

VERSION = "0.8.5"
DERIVED = ("llama", "qwen2", "qwen3", "mistral", "gemma2")
"""Families whose layers with Liger's kernels are derived here and executed by the dry run."""
PATCHED = (
    *DERIVED,
    *("smollm3", "phi3", "olmo2", "olmo3", "glm4", "gemma3_text"),
    *("mixtral", "qwen3_moe", "qwen3_next", "qwen3_5"),
)
"""Further families of the catalog in Liger's ``MODEL_TYPE_TO_APPLY_LIGER_FN``."""
IN_PLACE = ("llama", "qwen2", "qwen3", "mistral")
"""Families whose norms write their input's gradient over their output's."""


def refuse_without_kernels(arch: Architecture) -> None:
    """Raise ``ValueError`` for a family that Liger leaves alone, or that was not derived."""
    if arch.family in DERIVED:
        return
    reason = (
        f"what its kernels keep in {arch.family} layers is not derived"
        if arch.family in PATCHED
        else f"liger-kernel {VERSION} has no kernels for {arch.family}"
    )
    raise ValueError(f"liger: {reason}; set liger to false, or use a model of {', '.join(DERIVED)}")


def rms_norm(layer: Layer, x: Tensor, statistic: str, channel: str, name: str) -> Tensor:
    """``LigerRMSNormFunction``. Its output has its input's format, whatever the weight's."""
    tape, trained = layer.tape, layer.setting.all_weights
    in_place = layer.arch.family in IN_PLACE
    output = tape.new(x.shape, x.width, f"{name} output")
    wanted, kind = op.signature(x), x.kind

    def backward(gradients: Gradients) -> Gradients:
        tape.launch(kind, kind, writes=(kind,))  # in place or not
        partial = (
            tape.new(f"partial {channel}", op.FP32, "norm weight gradient by multiprocessor")
            if trained
            else None
        )
        result = gradients[0] if in_place else tape.new(*wanted)
        summed = tape.new(channel, op.FP32, "norm weight gradient") if trained else None
        del partial, summed
        return [result]

    saved = (x.storage, tape.new(statistic, op.FP32, f"{name} 1/rms"))
    return op.record(output, x.shape, x.width, [x], backward, saved)


def rotated(
    layer: Layer, query: Tensor, key: Tensor, cos: Tensor, sin: Tensor
) -> tuple[Tensor, Tensor]:
    """``LigerRopeFunction``: both turned where they lie; gradients by head are copied by token."""
    tape, both = layer.tape, (query.kind, key.kind)
    tape.launch(*both, writes=both)
    if query.node is None and key.node is None:
        return query, key
    copied = _by_head(layer)
    wanted = (op.signature(query), op.signature(key))

    def backward(gradients: Gradients) -> Gradients:
        for index, (item, copies) in enumerate(zip(wanted, copied, strict=True)):
            if copies:
                gradients[index] = tape.new(*item, both[index : index + 1])
        tape.launch(*both, writes=both)
        return list(gradients)

    node = Node(tape, [query, key], (cos.storage, sin.storage), backward, outputs=2)
    return (
        Tensor(query.storage, "query", query.width, node, 0),
        Tensor(key.storage, "key", key.width, node, 1),
    )


def _by_head(layer: Layer) -> tuple[bool, bool]:
    """Whether the gradients of queries and keys come from the kernel by head, not by token."""
    setting, arch = layer.setting, layer.arch
    grouped = arch.heads != arch.kv_heads
    eager = setting.attention == "eager"
    # Plain arithmetic in place of a kernel that takes grouped fp32 heads works by head.
    math = setting.attention == "sdpa" and setting.value == op.FP32 and grouped
    math = math and not setting.masked
    # A repeated head's gradients are summed into one that lies by head.
    repeated = setting.attention == "sdpa" and setting.masked and grouped
    by_head = eager or math
    return by_head and arch.heads > 1, (by_head or repeated) and arch.kv_heads > 1


def gated(layer: Layer, gate: Tensor, up: Tensor) -> Tensor:
    """Liger's SiLU and GELU products: the gradients lie where gate and up did."""
    both: tuple[Storage, ...] = (gate.storage, up.storage)
    tape, kind = layer.tape, gate.kind
    output = tape.new(gate.shape, gate.width, "gated product")

    def backward(_: Gradients) -> Gradients:
        tape.launch(kind, kind, kind, writes=(kind, kind))
        return list(both)

    return op.record(output, gate.shape, gate.width, [gate, up], backward, both)
