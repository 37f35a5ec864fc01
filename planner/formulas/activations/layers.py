"""First version: Llama, Qwen2, Qwen3 and Mistral layers in bf16 with SDPA attention."""

from __future__ import annotations

from planner.catalog.architecture import Architecture
from planner.footprint import Term
from planner.formulas.activations.workload import Workload
from planner.formulas.formula import Formula
from planner.numeric import Num

SOURCE = "saved-tensor hooks on transformers 5.23.0, torch 2.13.0"


def _saved(name: str, expression: str, why: str) -> Formula:
    return Formula(name, expression, category="activations", source=SOURCE, why=why)


NORM_UPCAST = _saved(
    "norm inputs in fp32",
    "2 * sequences * tokens * hidden * 4 * layers",
    "RMSNorm computes in fp32 and its square keeps the upcast input.",
)
NORM_SCALE = _saved(
    "norm scales", "2 * sequences * tokens * 4 * layers", "1/rms, one fp32 a token."
)
NORM_NORMALISED = _saved(
    "normalised values",
    "2 * sequences * tokens * hidden * value_bytes * layers",
    "Kept for the gradient of the norm's weight.",
)
NORM_OUTPUT = _saved(
    "norm outputs",
    "2 * sequences * tokens * hidden * value_bytes * layers",
    "Inputs of the q/k/v and gate/up projections.",
)
HEAD_NORMS = _saved(
    "query and key norms",
    "sequences * tokens * (heads + kv_heads) * (head_dim * (4 + value_bytes) + 4) * layers",
    "fp32 upcast, 1/rms and normalised copy of every head's query and key.",
)
QUERIES = _saved(
    "queries", "sequences * tokens * heads * head_dim * value_bytes * layers", "SDPA input."
)
KEYS_VALUES = _saved(
    "keys and values",
    "2 * sequences * tokens * attended_heads * head_dim * value_bytes * layers",
    "SDPA inputs; with a mask they are repeated to the number of query heads.",
)
ATTENTION_OUTPUT = _saved(
    "attention output",
    "sequences * tokens * heads * head_dim * value_bytes * layers",
    "SDPA output and o_proj input, one storage.",
)
LOGSUMEXP = _saved(
    "attention log-sum-exp", "sequences * heads * tokens * 4 * layers", "fp32, for backward."
)
MASK_BIAS = _saved(
    "attention mask as a bias",
    "masked * sequences * tokens * round_up(tokens, 8) * value_bytes * layers",
    "SDPA turns the boolean mask into an additive one in every call.",
)
MLP = _saved(
    "MLP activations",
    "4 * sequences * tokens * intermediate * value_bytes * layers",
    "gate, silu(gate), up and their product.",
)
MLP_TRANSIENT = Formula(
    "MLP backward",
    "sequences * tokens * (2 * hidden + 2 * intermediate) * value_bytes",
    category="activations",
    source=SOURCE,
    why="Gradients of the product's factors while the layer's output gradient is alive.",
)
CHECKPOINT = _saved(
    "checkpointed layer inputs",
    "sequences * tokens * hidden * value_bytes * layers",
    "Non-reentrant checkpointing keeps each layer's input.",
)
ROTARY = _saved("rotary cos and sin", "2 * tokens * rotary_dim * value_bytes", "Shared by layers.")


def _inputs(arch: Architecture, workload: Workload) -> dict[str, Num]:
    if arch.family not in ("llama", "qwen2", "qwen3", "mistral"):
        raise ValueError(f"family is {arch.family!r}; no hand-derived activation sum for it yet")
    masked = int(workload.batch_shape == "padded")
    return {
        "sequences": workload.sequences,
        "tokens": workload.tokens,
        "hidden": arch.hidden,
        "intermediate": arch.intermediate,
        "heads": arch.heads,
        "kv_heads": arch.kv_heads,
        "attended_heads": arch.heads if masked else arch.kv_heads,
        "head_dim": arch.head_dim,
        "rotary_dim": arch.rotary_dim,
        "value_bytes": workload.value_bytes,
        "masked": masked,
    }


def _call(formula: Formula, role: str, values: dict[str, Num], tensors: Num = 1) -> Term:
    return formula(role, tensors=tensors, **{name: values[name] for name in formula.inputs})


def layer_saved(
    arch: Architecture, workload: Workload, *, role: str, layers: Num, sliding: bool = False
) -> tuple[Term, ...]:
    """What autograd keeps of ``layers`` decoder layers, in bytes."""
    values = _inputs(arch, workload) | {"layers": layers}
    full = workload.trains == "all"
    chosen: list[tuple[Formula, int]] = [(NORM_UPCAST, 2), (NORM_SCALE, 2)]
    if full:
        chosen.append((NORM_NORMALISED, 2))
    chosen += [(NORM_OUTPUT, 2), (QUERIES, 1), (KEYS_VALUES, 2), (ATTENTION_OUTPUT, 1)]
    chosen += [(LOGSUMEXP, 1), (MLP, 4)]
    if arch.qk_norm:
        chosen.append((HEAD_NORMS, 6))
    if workload.batch_shape == "padded":
        chosen.append((MASK_BIAS, 1))
    return tuple(_call(formula, role, values, count * layers) for formula, count in chosen)


def layer_backward_transient(
    arch: Architecture, workload: Workload, *, role: str
) -> tuple[Term, ...]:
    """What one layer's backward needs beyond what was saved at its start, in bytes."""
    return (_call(MLP_TRANSIENT, role, _inputs(arch, workload)),)


def layer_forward_transient(
    arch: Architecture, workload: Workload, *, role: str
) -> tuple[Term, ...]:
    """What one layer's forward needs beyond what it saves (or beyond its input), in bytes."""
    return (_call(MLP_TRANSIENT, role, _inputs(arch, workload)),)


def model_saved(arch: Architecture, workload: Workload, *, role: str) -> tuple[Term, ...]:
    """What all layers share: rotary tables and the final norm, in bytes."""
    values = _inputs(arch, workload)
    return (_call(ROTARY, role, values),)


def checkpointed_saved(
    arch: Architecture, workload: Workload, *, role: str, layers: Num
) -> tuple[Term, ...]:
    """What non-reentrant checkpointing keeps of ``layers`` decoder layers, in bytes."""
    return (_call(CHECKPOINT, role, _inputs(arch, workload) | {"layers": layers}, layers),)
