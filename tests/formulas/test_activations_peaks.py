"""Peaks of one layer's forward and backward, against the live bytes of real runs.

A dispatch mode sees every storage, so equality is to the byte; but under a mode autograd
stops adding gradients in place. The profiler sees a run as it is, and settles that no
peak depends on it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, replace

import pytest

from evidence import Evidence
from planner.formulas.activations import (
    checkpointed_saved,
    layer_backward_transient,
    layer_forward_transient,
    layer_saved,
)
from planner.formulas.activations.decoder import Live, Record, layer_record
from planner.formulas.activations.kinds import Kind
from planner.term import Term
from real_layers import FAMILIES, LATER, Case, Heights, heights, profiled_backward_height

TWINS = ("glm", "olmo3")
"""Their layers run as those of GLM-4-0414 and OLMo 2, less two norms and with a window."""
EVERY = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")


def cases(precision: str, *intermediates: int, gradients: bool = True) -> list[Case]:
    """Families and kernels; the peak is in an MLP of 200, and elsewhere with one of 24."""
    found = []
    for family in (*FAMILIES, *(each for each in LATER if each not in TWINS)):
        for attention in ("sdpa", "eager"):
            if (family, attention) == ("gemma2", "sdpa"):
                continue
            key = "n_inner" if family == "gpt2" else "intermediate_size"
            for intermediate in intermediates:
                large = intermediate == 200
                found.append(
                    Case(
                        family=family,
                        attention=attention,
                        precision=precision,
                        padded=not large,
                        gradients=gradients,
                        changes=((key, intermediate),),
                        rows=2 if large else 3,
                        tokens=24 if large else 56,
                    )
                )
    return found


def without_dropout(case: Case) -> Case:
    """Evaluation mode, in the words of a configuration."""
    if case.family != "gpt2":
        return case
    rates = tuple((f"{name}_pdrop", 0.0) for name in ("attn", "embd", "resid"))
    return replace(case, changes=case.changes + rates)


def recorded(case: Case) -> Record:
    return layer_record(case.architecture, case.setting)


def size(case: Case, live: Live) -> int:
    return sum(case.bytes_of(label, count) for label, count in live.items())


def stream(case: Case) -> int:
    """Bytes of one hidden state of the residual stream."""
    return case.bytes_of((Kind("hidden", case.setting.weight), ""))


TRAINED = [*cases("bf16", 200, 24), *cases("fp32", 24)]
AUTOCAST = cases("autocast-bf16", 24)
UNTRAINED = [without_dropout(case) for case in cases("bf16", 24, gradients=False)]
ADAPTED = [
    Case(family=family, targets=EVERY)
    for family in ("llama", "qwen3", "gemma3_text", "phi3", "gpt2", *LATER)
]


def named(case: Case) -> str:
    return str(case) if case.gradients else f"{case}-without-gradients"


EVIDENCE = Evidence(
    "layer-peaks",
    of=("real_layers",),
    kinds={named(case): case.precision for case in (*TRAINED, *AUTOCAST, *UNTRAINED, *ADAPTED)},
    within=5e-4,
)


def real_heights(case: Case) -> Heights:
    """Of a real run, or of the one that is committed."""
    return Heights(**EVIDENCE.figures(named(case), asdict(case), lambda: asdict(heights(case))))


@pytest.mark.parametrize("case", TRAINED, ids=str)
def test_training_peaks_equal_a_real_layer(case: Case) -> None:
    record = recorded(case)
    real = real_heights(case)
    # The input is alive before the forward begins; the output's gradient before the backward.
    assert max(size(case, live) for live in record.forward) - stream(case) == real.forward
    begin = size(case, record.saved) + stream(case)
    assert max(size(case, live) for live in record.backward) - begin == real.backward


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_an_unrotated_layer_needs_no_more_than_a_rotated_one(attention: str) -> None:
    changes = (("no_rope_layers", [1, 0, 1]), ("intermediate_size", 24))
    case = Case(family="smollm3", attention=attention, changes=changes)
    record = recorded(case)
    real = heights(case)
    forward = max(size(case, live) for live in record.forward) - stream(case)
    begin = size(case, record.saved) + stream(case)
    backward = max(size(case, live) for live in record.backward) - begin
    assert 0 <= forward - real.forward <= 0.1 * forward
    assert 0 <= backward - real.backward <= 0.1 * forward


@pytest.mark.parametrize("case", AUTOCAST, ids=str)
def test_autocast_peaks(case: Case) -> None:
    record = recorded(case)
    real = real_heights(case)
    begin = size(case, record.saved) + stream(case)
    # Left out: bf16 copies of biases, some hundreds of bytes at this width.
    biased = case.family in ("qwen2", "gpt2", "gpt_neox", "starcoder2", "glm", "glm4")
    forward = max(size(case, live) for live in record.forward) - stream(case)
    assert 0 <= real.forward - forward <= (1_600 if biased else 0)
    backward = max(size(case, live) for live in record.backward) - begin
    assert 0 <= real.backward - backward <= (160 if biased else 0)


@pytest.mark.parametrize("case", UNTRAINED, ids=str)
def test_peak_without_gradients(case: Case) -> None:
    highest = max(size(case, live) for live in recorded(case).forward)
    assert highest - stream(case) == real_heights(case).forward


@pytest.mark.parametrize("case", ADAPTED, ids=lambda case: case.family)
def test_adapters_peaks(case: Case) -> None:
    record = recorded(case)
    real = real_heights(case)
    assert max(size(case, live) for live in record.forward) - stream(case) == real.forward
    begin = size(case, record.saved) + stream(case)
    assert max(size(case, live) for live in record.backward) - begin == real.backward


@pytest.mark.parametrize(
    "case",
    [
        Case(family=family, attention=attention, tokens=64, changes=(("intermediate_size", 40),))
        for family, attention in (
            ("llama", "sdpa"),
            ("qwen3", "eager"),
            ("gemma3_text", "sdpa"),
            ("gpt_neox", "eager"),
        )
    ],
    ids=str,
)
def test_the_profiler_sees_the_same_peak_without_a_dispatch_mode(case: Case) -> None:
    record = layer_record(case.architecture, case.setting)
    begin = size(case, record.saved) + stream(case)
    assert max(size(case, live) for live in record.backward) - begin == profiled_backward_height(
        case
    )


@pytest.mark.parametrize(
    "case",
    [
        Case(family="llama", tokens=64),
        Case(family="llama", precision="fp32", tokens=64),
        Case(family="qwen3", attention="eager", padded=True, tokens=64),
        Case(family="qwen3", precision="autocast-bf16", tokens=64),
        Case(family="gemma3_text", attention="eager"),
        Case(family="phi3"),
        Case(family="gpt2", attention="eager", changes=(("n_inner", 200),)),
        Case(family="gpt_neox"),
        Case(family="olmo2"),
        Case(family="gpt_neox", changes=(("use_parallel_residual", False),)),
    ],
    ids=str,
)
def test_checkpointing_needs_one_layer_beside_the_inputs(case: Case) -> None:
    """A checkpointed layer's backward: its saved set, remade, and its transient.

    Exact but for the layer's own input: a layer that saves its input finds it among the
    checkpoints, and ``recomputed`` leaves it out.
    """
    record = recorded(case)
    held = stream(case) * any(name == "layer input" for _, name in record.saved)
    highest = max(size(case, live) for live in record.backward)
    # Alive when that backward begins: the checkpointed inputs and the output's gradient.
    assert highest - held - stream(case) == heights(case, checkpointed=True).backward


@pytest.mark.parametrize(
    "case", [Case(family="llama", attention="eager"), Case(family="gpt2", attention="eager")]
)
def test_public_terms_add_up_to_the_tape(case: Case) -> None:
    """Saved plus transient is the tape's peak, in training forward and backward."""
    arch, workload = case.architecture, case.workload
    record = layer_record(arch, case.setting._replace(kernels="cuda"))
    saved = total(layer_saved(arch, workload, role="policy", layers=1))
    backward = total(layer_backward_transient(arch, workload, role="policy"))
    forward = total(layer_forward_transient(arch, workload, role="policy"))
    assert saved == size(case, record.saved)
    assert saved + backward == max(size(case, live) for live in record.backward)
    assert saved + forward == max(size(case, live) for live in record.forward)
    again = total(layer_saved(arch, workload, role="policy", layers=1, recomputed=True))
    assert saved - again == (stream(case) if case.family == "gpt2" else 0)
    kept = checkpointed_saved(arch, workload, role="policy", layers=7)
    assert kept[0].bytes == 7 * stream(case)


def total(terms: Iterable[Term]) -> int:
    return sum(term.bytes for term in terms)
