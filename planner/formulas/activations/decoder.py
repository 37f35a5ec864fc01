"""One decoder layer of every family, from the parts, and its tape."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from planner.catalog.architecture import Architecture
from planner.formulas.activations import operations as op
from planner.formulas.activations.attention import attention, gpt2_attention
from planner.formulas.activations.experts import sparse_mlp
from planner.formulas.activations.kinds import Kind
from planner.formulas.activations.linears import (
    fused_gated_mlp,
    gated_mlp,
    plain_mlp,
)
from planner.formulas.activations.norms import norm
from planner.formulas.activations.setting import GLM, OLMO, Layer, Setting, own_tables, rotary_width
from planner.formulas.activations.tape import (
    Gradients,
    Label,
    Node,
    Storage,
    Tape,
    Tensor,
    counted,
    run_backward,
)

ROTARY = ("llama", "qwen2", "qwen3", "mistral", "phi3", "smollm3", "starcoder2")
SPARSE = ("qwen3_moe", "mixtral", "olmoe")
GEMMA = ("gemma2", "gemma3_text")
FAMILIES = (*ROTARY, *SPARSE, *GEMMA, *OLMO, *GLM, "gpt2", "gpt_neox")

Live = Counter[Label]

OWN_TABLES = ("rotary cos cast for the layer", "rotary sin cast for the layer")
"""What FSDP makes for a layer where the model's tables are wider than what it computes in."""


def decoder_layer(
    layer: Layer, hidden_states: Tensor, cos: Tensor, sin: Tensor, mask: Tensor | None
) -> Tensor:
    """The family's decoder layer: norms before attention and MLP, after them (OLMo), or both."""
    arch = layer.arch
    if arch.family == "gpt2":
        return _gpt2(layer, hidden_states, mask)
    if arch.family == "gpt_neox":
        return _gpt_neox(layer, hidden_states, cos, sin, mask)
    before, after = arch.family not in OLMO, arch.family in OLMO or arch.norms_per_layer == 4
    residual = hidden_states
    if before:
        hidden_states = norm(layer, hidden_states, "attention norm")
    # Eager attention returns its weights, and the layer's frame holds them to its end.
    hidden_states, _ = layer.wrap("attention", attention)(layer, hidden_states, cos, sin, mask)
    if after:
        hidden_states = norm(layer, hidden_states, "norm after attention")
    hidden_states = op.add(residual, hidden_states, "hidden states after attention")
    residual = hidden_states
    if before:
        hidden_states = norm(layer, hidden_states, "MLP norm")
    hidden_states = layer.wrap("mlp", _mlp(layer))(layer, hidden_states)
    if after:
        hidden_states = norm(layer, hidden_states, "norm after MLP")
    return op.add(residual, hidden_states, "layer output")


def _mlp(layer: Layer) -> Callable[[Layer, Tensor], Tensor]:
    if layer.setting.sparse:
        return sparse_mlp
    if not layer.arch.gated:
        return plain_mlp
    return fused_gated_mlp if layer.arch.fused_gate_up else gated_mlp


def _gpt2(layer: Layer, hidden_states: Tensor, mask: Tensor | None) -> Tensor:
    residual = hidden_states
    hidden_states = norm(layer, hidden_states, "attention norm")
    attn_output, _ = layer.wrap("attention", gpt2_attention)(layer, hidden_states, mask)
    hidden_states = op.add(attn_output, residual, "hidden states after attention")
    residual = hidden_states
    hidden_states = norm(layer, hidden_states, "MLP norm")
    feed_forward_hidden_states = layer.wrap("mlp", plain_mlp)(layer, hidden_states)
    return op.add(residual, feed_forward_hidden_states, "layer output")


def _gpt_neox(
    layer: Layer, hidden_states: Tensor, cos: Tensor, sin: Tensor, mask: Tensor | None
) -> Tensor:
    parallel = layer.arch.parallel_residual
    normed = norm(layer, hidden_states, "attention norm")
    attn_output, _ = layer.wrap("attention", attention)(layer, normed, cos, sin, mask)
    del normed
    if not parallel:
        attn_output = op.add(attn_output, hidden_states, "hidden states after attention")
    normed = norm(layer, hidden_states if parallel else attn_output, "MLP norm")
    mlp_output = layer.wrap("mlp", plain_mlp)(layer, normed)
    del normed
    if not parallel:
        return op.add(mlp_output, attn_output, "layer output")
    both = op.add(mlp_output, attn_output, "MLP and attention output")
    return op.add(both, hidden_states, "layer output")


@dataclass(frozen=True, slots=True)
class Record:
    """What one layer keeps, and what is alive at every local peak of its two passes.

    Counts of storages by kind and name. ``saved`` leaves out the mask and the rotary
    tables, which all layers share; ``forward`` and ``backward`` hold everything alive.
    """

    saved: Live
    forward: tuple[Live, ...]
    backward: tuple[Live, ...]
    recomputed: tuple[Live, ...] = ()
    """Peaks of a forward that a checkpoint runs again, as far as it runs, beside the gradients
    that are there when it begins."""


@lru_cache(maxsize=512)
def layer_record(arch: Architecture, setting: Setting) -> Record:
    """Run the layer on a tape, forward and (unless nothing trains) backward.

    Raises:
        ValueError: when the family has no layer here.
    """
    if arch.family not in FAMILIES:
        raise ValueError(
            f"family is {arch.family!r}: its layers are not derived by hand; choose one of "
            f"{', '.join(FAMILIES)}, or let a dry run find the coefficients"
        )
    tape = Tape()
    width = setting.weight
    own = own_tables(arch, setting)
    if not own:
        cos, sin = _tables(tape, rotary_width(arch, setting), ("rotary cos", "rotary sin"))
    masking = width if setting.attention == "eager" else "bool"
    mask = Tensor(tape.new("pair", masking, "mask"), "pair", masking) if setting.masked else None
    outside = tape.live(len(tape.events))
    if own:
        cos, sin = _tables(tape, rotary_width(arch, setting), OWN_TABLES)
    storage = tape.new("hidden", width, "layer input")
    caught: list[Storage | None] = []
    leaf = None
    if setting.trains != "none" and setting.input_needs_gradient:

        def catch(gradients: Gradients) -> Gradients:
            caught.extend(gradients)
            return []

        leaf = Node(tape, (), (), catch)
    hidden_states = Tensor(storage, "hidden", width, leaf)
    del storage
    start = len(tape.events)
    output = decoder_layer(Layer(tape, arch, setting), hidden_states, cos, sin, mask)
    middle = len(tape.events)
    forward = _peaks(tape, start, middle, outside)
    if output.node is None:
        tape.kept.clear()
        return Record(Counter(), forward, ())
    root, width = output.node, output.width
    del hidden_states, output  # the output itself belongs to the next layer
    if own:
        del cos, sin
    saved = tape.live(len(tape.events)) - outside
    again = _peaks(tape, start, tape.last_save, outside)
    gradient: Gradients = [tape.new("hidden", width, "gradient of layer output")]
    begin = len(tape.events)
    run_backward(tape, root, gradient)
    backward = _peaks(tape, begin, len(tape.events), outside)
    tape.kept.clear()  # each refers to the tape
    arrived = tape.live(tape.first_use) - outside - saved
    return Record(saved, forward, backward, tuple(peak + arrived for peak in again))


def _tables(tape: Tape, width: str, names: tuple[str, str]) -> list[Tensor]:
    return [Tensor(tape.new("rotary table", width, name), "rotary table", width) for name in names]


def _peaks(tape: Tape, start: int, end: int, outside: Live) -> tuple[Live, ...]:
    """Local peaks less what is shared, without those that another one exceeds everywhere."""
    labels, counts = tape.counts_at_peaks(start, end)
    alive = np.maximum(counts - [outside[label] for label in labels], 0)
    kinds: dict[Kind, int] = {}
    of = [kinds.setdefault(kind, len(kinds)) for kind, _ in labels]
    sizes = alive @ np.eye(len(kinds), dtype=np.int64)[of]
    within = (sizes[:, None] <= sizes).all(axis=2)
    # Of those that are alike the first stays.
    first = np.tri(len(sizes), k=-1, dtype=bool) | ~within.T
    return tuple(counted(labels, alive[~(within & first).any(axis=1)]))
