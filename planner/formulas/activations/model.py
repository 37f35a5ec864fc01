"""What all layers share: rotary tables, masks, the final norm, checkpoints, autocast copies."""

from __future__ import annotations

from functools import lru_cache

from planner.catalog.architecture import Architecture
from planner.formulas.activations import measured
from planner.formulas.activations import operations as op
from planner.formulas.activations.decoder import FAMILIES, OWN_TABLES, Live
from planner.formulas.activations.kinds import Kind
from planner.formulas.activations.layers import settings
from planner.formulas.activations.norms import norm
from planner.formulas.activations.setting import Layer, Setting, own_tables, table_width
from planner.formulas.activations.tape import Gradients, Label, Tape, Tensor, run_backward
from planner.formulas.activations.terms import (
    Moments,
    highest,
    moments_of,
    shared_by_roles,
    terms_of,
)
from planner.formulas.activations.workload import Workload
from planner.formulas.formula import Formula
from planner.formulas.parameters import weights
from planner.numeric import Num
from planner.term import Term

AUTOCAST_COPIES = Formula(
    "autocast weight copies",
    "linear_parameters * 2",
    category="parameters",
    source="ATen/autocast_mode.cpp at torch 2.13.0 (read); saved-tensor hooks",
    why="Autocast caches a bf16 copy of every trainable fp32 weight until its context ends.",
    ignores="copies of biases; experts have none, since autocast does not know grouped_mm",
)


EMBEDDING_DROPOUT = "dropout mask of embeddings"


@shared_by_roles
def model_saved(arch: Architecture, workload: Workload, *, role: str) -> tuple[Term, ...]:
    """What the model keeps outside its layers, in bytes.

    In training: token ids, rotary tables, the final norm, the input of the language-model
    head, GPT-2's embedding dropout. Without gradients (``trains`` is ``none``): what
    stands while a layer runs, which is its input, the mask and the rotary tables.

    Raises:
        ValueError: naming the field for a family or combination that cannot run.
    """
    if arch.measured:
        return measured.model_saved(arch, workload, role=role)
    setting, _ = settings(arch, workload, False)[0]
    found = _rotary(arch, setting)
    if workload.trains == "none":
        found += [(Kind("hidden", setting.weight), "hidden states"), *_masks(arch, setting)]
    else:
        found += list(_outside_layers(arch, setting).elements())
    return tuple(terms_of(Live(found), arch, workload, role))


@shared_by_roles
def final_norm_backward(arch: Architecture, workload: Workload, *, role: str) -> tuple[Term, ...]:
    """All that the final norm has saved or needs at the peak of its backward, in bytes."""
    if workload.trains == "none":
        return ()
    if arch.measured:
        return measured.final_norm_backward(arch, workload, role=role)
    setting, _ = settings(arch, workload, False)[0]
    return tuple(highest([_norm_moments(arch, setting)], 1, arch, workload, role))


@shared_by_roles
def checkpointed_saved(
    arch: Architecture, workload: Workload, *, role: str, layers: Num
) -> tuple[Term, ...]:
    """What checkpointing (non-reentrant, whole layers) keeps of ``layers`` layers, in bytes.

    The input of each layer, and once each mask, which every checkpoint refers to. Rotary
    tables are in :func:`model_saved`.
    """
    if arch.measured:
        return measured.checkpointed_saved(arch, workload, role=role, layers=layers)
    setting, _ = settings(arch, workload, False)[0]
    label: Label = (Kind("hidden", setting.weight), "checkpointed layer inputs")
    counts: dict[Label, Num] = {label: layers}
    if own_tables(arch, setting):
        counts |= _given_tables(setting, layers)
    counts |= dict.fromkeys(_masks(arch, setting), 1)
    if workload.lora_targets and arch.dropout and arch.learned_positions:
        counts[_embedding_dropout(setting)] = 1
    return tuple(terms_of(counts, arch, workload, role))


LEAF = "embeddings that gradients reach"
"""Where adapters' gradients end."""


def embeddings_leaf(
    arch: Architecture, workload: Workload, *, role: str, kept: bool = True
) -> tuple[Term, ...]:
    """The token embeddings that adapters' gradients end at, where no layer keeps them, in bytes.

    Checkpoints of frozen layers need an input with a gradient, so the embeddings are made a leaf
    (``enable_input_require_grads``). The first layer has ``kept`` them as its input, unless GPT-2
    adds positions to them before it.
    """
    if not workload.lora_targets or (kept and not arch.learned_positions):
        return ()
    if arch.measured:
        return (measured.embeddings_leaf(arch, workload, role=role, name=LEAF),)
    setting, _ = settings(arch, workload, False)[0]
    label: Label = (Kind("hidden", setting.weight), LEAF)
    return tuple(terms_of({label: 1}, arch, workload, role))


def _embedding_dropout(setting: Setting) -> Label:
    form = "bool" if setting.kernels == "cuda" else setting.weight
    return Kind("hidden", form), EMBEDDING_DROPOUT


@shared_by_roles
def given_tables(
    arch: Architecture, workload: Workload, *, role: str, layers: Num
) -> tuple[Term, ...]:
    """Rotary tables that FSDP cast for ``layers`` layers and their checkpoints hold, in bytes."""
    if arch.measured:
        return ()
    setting, _ = settings(arch, workload, False)[0]
    if not own_tables(arch, setting):
        return ()
    return tuple(terms_of(_given_tables(setting, layers), arch, workload, role))


def _given_tables(setting: Setting, layers: Num) -> dict[Label, Num]:
    return {(Kind("rotary table", setting.weight), name): layers for name in OWN_TABLES}


def autocast_weight_copies(
    arch: Architecture, *, role: str, layers: bool = False, head: bool = True
) -> tuple[Term, ...]:
    """The bf16 copies of fp32 weights that no layer's saved tensors hold, in bytes.

    ``head`` counts the language-model head's, ``layers`` those of all layers while a forward
    runs whose layers save nothing of their own: with checkpointing, or without gradients over
    trainable weights (autocast does not cache a frozen weight). In every other case a
    layer's copies are among its :func:`layer_saved`.
    """
    counted = ("linear", "router") * layers + ("lm_head",) * head
    found = [weight for weight in weights(arch) if weight.kind in counted]
    count = sum(weight.total_elements for weight in found)
    tensors = sum(weight.count for weight in found)
    if arch.measured and layers:
        of_layers = measured.autocast_copies_elements(arch)
        count = of_layers + sum(w.total_elements for w in found if w.kind == "lm_head")
    if head and arch.tied:  # the head multiplies by the embedding, so that is copied instead
        count, tensors = count + arch.vocab * arch.hidden, tensors + 1
    return (AUTOCAST_COPIES(role, tensors=tensors, linear_parameters=count),) if tensors else ()


def adapter_copies(elements: int, *, role: str) -> tuple[Term, ...]:
    """The same of fp32 adapters' ``elements``, where layers save nothing of their own."""
    return (AUTOCAST_COPIES(role, linear_parameters=elements),) if elements else ()


def _rotary(arch: Architecture, setting: Setting) -> list[Label]:
    if not arch.rotary:
        return []
    labels: list[Label] = []
    both = arch.family in ("gemma3_text", "olmo3") and 0 < arch.sliding_layers < arch.layers
    for layer_kind in ("", " of sliding layers") if both else ("",):
        for name in ("rotary cos", "rotary sin"):
            kind = Kind("rotary table", table_width(arch, setting))
            labels.append((kind, name + layer_kind))
    return labels


def _masks(arch: Architecture, setting: Setting) -> list[Label]:
    """The mask of global layers, and that of sliding ones where a model has both."""
    if not setting.masked:
        return []
    width = setting.weight if setting.attention == "eager" else "bool"
    both = 0 < arch.sliding_layers < arch.layers
    names = ("attention mask", "attention mask of sliding layers")
    return [(Kind("pair", width), name) for name in names[: 1 + both]]


@lru_cache(maxsize=256)
def _norm_moments(arch: Architecture, setting: Setting) -> Moments:
    """Run the final norm on a tape, forward and backward: what is alive at each peak."""
    tape = Tape()
    output = _normed(tape, arch, setting, "hidden states")
    root, width = output.node, output.width
    assert root is not None
    del output
    gradient: Gradients = [tape.new("hidden", width, "gradient of the final norm's output")]
    start = len(tape.events)
    run_backward(tape, root, gradient)
    return moments_of(tape.live_at_peaks(start, len(tape.events)))


def _normed(tape: Tape, arch: Architecture, setting: Setting, given: str) -> Tensor:
    hidden = op.leaf(tape.new("hidden", setting.weight, given), "hidden", setting.weight)
    return norm(Layer(tape, arch, setting), hidden, "final norm")


@lru_cache(maxsize=256)
def _outside_layers(arch: Architecture, setting: Setting) -> Live:
    """Run the embedding and the final norm on a tape; what they leave behind."""
    if arch.family not in FAMILIES:
        raise ValueError(
            f"family is {arch.family!r}: not derived by hand; choose one of {', '.join(FAMILIES)}"
        )
    tape = Tape()
    kept = []
    if setting.all_weights:
        kept.append(tape.new("token", "int64", "token ids"))
        if arch.learned_positions:
            kept.append(tape.new("position", "int64", "position ids"))
        if arch.dropout and setting.input_needs_gradient:
            kind, name = _embedding_dropout(setting)
            kept.append(tape.new(kind.shape, kind.width, name))
    # Liger's norm keeps its input as it is, from here to the backward of the norm.
    given = "final norm input" if setting.liger else "hidden states"
    output = _normed(tape, arch, setting, given)
    if setting.all_weights:
        head_input = "input of the language-model head"
        cast = setting.autocast
        kept.append(tape.new("hidden", setting.value, head_input) if cast else output.storage)
    graph = output.node
    del output
    live = tape.live(len(tape.events))
    del graph, kept
    return live
