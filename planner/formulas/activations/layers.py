"""Bytes of one or many decoder layers: what is saved, and the peaks of both passes."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import lru_cache

import numpy as np

from planner.catalog.architecture import Architecture
from planner.formulas.activations import measured, measured_lookup
from planner.formulas.activations.compiled import compiled_record
from planner.formulas.activations.decoder import OWN_TABLES, Live, Record, layer_record
from planner.formulas.activations.kinds import Kind
from planner.formulas.activations.setting import Setting
from planner.formulas.activations.tape import Label
from planner.formulas.activations.terms import (
    Moments,
    highest,
    moments_of,
    shared_by_roles,
    terms_of,
)
from planner.formulas.activations.workload import Workload
from planner.formulas.lora import lora_weights
from planner.numeric import Num, remembered, where
from planner.term import Term

LAYER_INPUT = "layer input"
GIVEN = (LAYER_INPUT, *OWN_TABLES)
"""What a checkpoint holds of a layer that it runs again."""


@shared_by_roles
def layer_saved(
    arch: Architecture,
    workload: Workload,
    *,
    role: str,
    layers: Num,
    sliding: bool = False,
    sparse: int | None = None,
    input_needs_gradient: bool = True,
    recomputed: bool = False,
) -> tuple[Term, ...]:
    """What autograd keeps of ``layers`` decoder layers, in bytes: one term per tensor kind.

    ``sliding`` layers get a mask as soon as a row is as long as the window. ``sparse``
    chooses between layers with experts and with one MLP where a model has both; without
    a word it is the kind that needs more, as in every function here.
    ``input_needs_gradient`` is false only for the first layer under LoRA without
    ``enable_input_require_grads``, which saves less. ``recomputed`` leaves out the
    layer's input, for a layer that a checkpoint runs again and whose input is counted as
    checkpointed. Empty when nothing trains.

    Raises:
        ValueError: naming the field for a family or combination that cannot run.
    """
    if workload.trains == "none":
        return ()
    if arch.measured:
        return measured.layer_saved(
            arch, workload, role=role, layers=layers, sparse=sparse, recomputed=recomputed
        )
    terms: list[Term] = []
    for setting, share in settings(arch, workload, sliding, input_needs_gradient, sparse):
        counts = {
            label: count * layers * share
            for label, count in record_of(arch, setting).saved.items()
            if not (recomputed and label[1] in GIVEN)
        }
        terms += terms_of(counts, arch, workload, role)
    return tuple(terms)


@shared_by_roles
def layer_backward_transient(
    arch: Architecture,
    workload: Workload,
    *,
    role: str,
    sliding: bool = False,
    sparse: int | None = None,
    recomputed: bool = False,
) -> tuple[Term, ...]:
    """What is alive at the peak of one layer's backward, less what the layer had saved.

    Gradients of activations, recomputed values and kernel scratch; gradients of projections'
    weights where the workload says what becomes of them (autocast's bf16 versions always,
    since they pass). What was saved but is released by that moment comes as terms with
    negative bytes. ``recomputed`` looks at the second forward of a checkpointed layer too.
    """
    if workload.trains == "none":
        return ()
    if arch.measured:
        return measured.layer_backward_transient(
            arch, workload, role=role, sparse=sparse, recomputed=recomputed
        )
    terms: list[Term] = []
    for setting, share in settings(arch, workload, sliding, sparse=sparse):
        for counted, part in _with_weight_gradients(setting, workload.accumulates):
            moments = [_backward_moments(arch, counted)]
            if recomputed:
                moments.append(_recomputed_moments(arch, setting))
            terms += highest(moments, share * part, arch, workload, role)
    return tuple(terms)


def _with_weight_gradients(
    setting: Setting, accumulates: Num | None
) -> Iterator[tuple[Setting, Num]]:
    """The setting with gradients kept or added to earlier ones, each with its share."""
    if accumulates is None or setting.compiled:
        yield setting, 1
        return
    for mode, share in (("kept", 1 - accumulates), ("added", accumulates)):
        if not _is_zero(share):
            yield setting._replace(weight_gradients=mode), share


@shared_by_roles
def layer_forward_transient(
    arch: Architecture,
    workload: Workload,
    *,
    role: str,
    sliding: bool = False,
    sparse: int | None = None,
) -> tuple[Term, ...]:
    """What is alive at the peak of one layer's forward, less what the layer saves.

    The layer's own input counts when gradients are on (it is the previous layer's
    output); without gradients it does not, so the result is what a log-probability or
    value pass needs beyond its hidden states.
    """
    if arch.measured:
        return measured.layer_forward_transient(arch, workload, role=role, sparse=sparse)
    terms: list[Term] = []
    both = sparse is None and workload.trains == "none" and arch.dense_layers
    for setting, share in settings(arch, workload, sliding, sparse=sparse):
        moments = [_forward_moments(arch, setting)]
        if both and arch.sparse_layers:  # nothing is saved, so the kinds can be compared
            moments.append(_forward_moments(arch, setting._replace(sparse=not setting.sparse)))
        terms += highest(moments, share, arch, workload, role)
    return tuple(terms)


@remembered
def settings(
    arch: Architecture,
    workload: Workload,
    sliding: bool,
    input_needs_gradient: bool = True,
    sparse: int | None = None,
) -> tuple[tuple[Setting, Num], ...]:
    """The settings a layer runs in, each with its share: 1, or 0/1 by length for a sweep."""
    refuse_what_cannot_run(arch, workload)
    if sparse is None:
        sparse = _larger_is_sparse(arch)
    sparse = bool(sparse)
    masked = workload.attention == "eager" or (
        workload.attention == "sdpa" and workload.batch_shape != "full"
    )
    if masked or not sliding or workload.attention == "flash":
        one = _setting(arch, workload, masked, input_needs_gradient, sparse)
        return _by_rows(arch, workload, one)
    long = where(workload.tokens >= arch.sliding_window, 1, 0)
    both = [
        (_setting(arch, workload, True, input_needs_gradient, sparse), long),
        (_setting(arch, workload, False, input_needs_gradient, sparse), 1 - long),
    ]
    return tuple((setting, share) for setting, share in both if not _is_zero(share))


def _by_rows(
    arch: Architecture, workload: Workload, setting: Setting
) -> tuple[tuple[Setting, Num], ...]:
    """The setting of one row and of several, where eager attention keeps something else of one."""
    if setting.attention != "eager" or not (arch.fused_qkv or arch.family == "gpt_neox"):
        return ((setting, 1),)
    single = where(workload.sequences == 1, 1, 0)
    both = [(setting._replace(one_row=True), single), (setting, 1 - single)]
    return tuple((one, share) for one, share in both if not _is_zero(share))


def record_of(arch: Architecture, setting: Setting) -> Record:
    """What one layer keeps and needs: from the tape, or as the compiler partitions it.

    A compiled forward without gradients is taken from the tape, which bounds it.
    """
    if setting.compiled and setting.trains != "none":
        return compiled_record(arch, setting)
    return layer_record(arch, setting)


def refuses_sdpa(arch: Architecture) -> bool:
    """Whether Transformers refuses torch's attention for a model, and loads it with eager."""
    if arch.measured:
        return measured_lookup.refuses_sdpa(arch)
    return arch.family == "gemma2"


def refuse_what_cannot_run(arch: Architecture, workload: Workload) -> None:
    """Raise ``ValueError`` for a combination that Transformers itself refuses."""
    if refuses_sdpa(arch) and workload.attention == "sdpa":
        raise ValueError(
            "attention is 'sdpa' but Transformers refuses it for Gemma 2 (scores are soft-capped); "
            "set attention to 'eager' or 'flash'"
        )


def _setting(
    arch: Architecture, workload: Workload, masked: bool, input_needs_gradient: bool, sparse: bool
) -> Setting:
    adapted: frozenset[str] = frozenset()
    if workload.lora_targets:
        weights = lora_weights(arch, workload.lora_targets)
        adapted = frozenset(
            weight.name.split("{layer}.")[-1].removesuffix(".weight") for weight in weights
        )
    return Setting(
        attention=workload.attention,
        masked=masked,
        packed=workload.attention == "flash" and workload.batch_shape == "packed",
        unpadded=workload.attention == "flash" and workload.batch_shape == "padded",
        precision="bf16" if workload.precision == "fp16" else workload.precision,
        trains=workload.trains,
        adapted=adapted,
        fp32_adapters=workload.fp32_adapters,
        drops_adapters=workload.drops_adapters,
        autocasts_adapters=workload.autocasts_adapters,
        input_needs_gradient=input_needs_gradient,
        casts_inputs=workload.casts_inputs,
        cached=workload.fills_cache,
        sums_gradients=workload.sums_gradients,
        compiled=workload.compiled,
        sparse=sparse,
        four_bit=workload.four_bit,
        cudnn=workload.cudnn,
        liger=workload.multiprocessors > 0,
    )


def _larger_is_sparse(arch: Architecture) -> bool:
    """Whether a sparse layer keeps more of a token than one with an MLP.

    For callers that look at one layer where the two kinds stand mixed.
    """
    if not arch.sparse_layers or not arch.dense_layers:
        return arch.sparse_layers > 0
    each = 2 * arch.hidden + 4 * arch.expert_intermediate
    return arch.experts_per_token * each >= 4 * arch.intermediate


@lru_cache(maxsize=512)
def _backward_moments(arch: Architecture, setting: Setting) -> Moments:
    record = record_of(arch, setting)
    return moments_of(_less(peak, record.saved) for peak in record.backward)


@lru_cache(maxsize=512)
def _forward_moments(arch: Architecture, setting: Setting) -> Moments:
    record = record_of(arch, setting)
    outside = record.saved
    if setting.trains == "none":
        outside = Counter({(Kind("hidden", setting.weight), LAYER_INPUT): 1})
    return moments_of(_less(peak, outside) for peak in record.forward)


@lru_cache(maxsize=512)
def _recomputed_moments(arch: Architecture, setting: Setting) -> Moments:
    """The peaks of a checkpointed layer's second forward, beside the gradients that wait."""
    record = record_of(arch, setting)
    moments = []
    for peak in record.recomputed:
        inside, saved = (
            Counter({label: count for label, count in live.items() if label[1] not in GIVEN})
            for live in (peak, record.saved)
        )
        moments.append(_less(inside, saved))
    return moments_of(moments)


def _less(peak: Live, saved: Live) -> dict[Label, int]:
    """Peak minus saved; what a new tensor of the same kind replaces is not listed twice."""
    change = {label: peak[label] - saved[label] for label in {**peak, **saved}}
    released: dict[Kind, int] = defaultdict(int)
    for (kind, _), count in change.items():
        released[kind] -= min(count, 0)
    result: dict[Label, int] = {}
    for label, count in change.items():
        if count > 0:
            replaced = min(count, released[label[0]])
            released[label[0]] -= replaced
            if count > replaced:
                result[label] = count - replaced
    for label, count in change.items():
        remaining = min(-count, released[label[0]])
        if count < 0 and remaining:
            released[label[0]] -= remaining
            result[(label[0], f"released by then: {label[1]}")] = -remaining
    return result


def _is_zero(share: Num) -> bool:
    return isinstance(share, (int, np.integer)) and share == 0
