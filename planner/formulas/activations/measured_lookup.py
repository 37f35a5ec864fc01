"""Which measured setting a workload has, at the rank of its adapters; or why there is none.

What is looked up here, :mod:`planner.formulas.activations.measured` makes terms of.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from planner.catalog import measured
from planner.catalog.architecture import Architecture
from planner.catalog.measured_setting import Adapters, MeasuredSetting
from planner.formulas import polynomial
from planner.formulas.activations.workload import ATTENTIONS, Workload
from planner.formulas.length_law import FURTHER, LAW, PROOF, WITHIN, Proof
from planner.formulas.lora import adapted_names, lora_weights
from planner.numeric import Num

COVERS = "a dry run of its layers measures neither that nor what it keeps"


def asked(arch: Architecture, workload: Workload) -> MeasuredSetting:
    """What has to be measured for a workload.

    Raises:
        ValueError: naming the field, for what no dry run of layers measures.
    """
    _refuse(arch, workload)
    adapters = None
    if workload.lora_targets:
        modules, tensors = adapted_names(lora_weights(arch, workload.lora_targets))
        if tensors:
            raise ValueError(
                f"lora_targets: adapters of whole tensors of experts are not measured for "
                f"{arch.family}, which has no derived sum; name modules of its attention"
            )
        adapters = Adapters(
            modules=modules,
            fp32=workload.fp32_adapters,
            drops=workload.drops_adapters,
            autocast=workload.autocasts_adapters,
        )
    return MeasuredSetting(
        attention=workload.attention,
        batch_shape=workload.batch_shape,
        precision="bf16" if workload.precision == "fp16" else workload.precision,
        adapters=adapters,
    )


def setting_of(arch: Architecture, workload: Workload) -> Mapping[str, Any]:
    """The measured setting of a workload.

    Raises:
        ValueError: naming the field, where none was measured.
    """
    way = asked(arch, workload)
    passes = "none" if workload.trains == "none" else "all"
    found, refused = measured.setting_of(arch.measured, way.text, passes)
    if found is not None:
        return found if way.adapters is None else _of_rank(found, workload.lora_rank)
    if refused:
        others = (replace(way, attention=each) for each in ATTENTIONS if each != way.attention)
        runs = [each.attention for each in others if measured.runs(arch.measured, each.text)]
        without = replace(way, adapters=None).text
        if way.adapters and not runs and not measured.refused(arch.measured, without):
            raise ValueError(
                f"lora_targets: {arch.family} does not run with these adapters ({refused}); "
                "name other modules"
            )
        fix = f"set attention to {runs[0]!r}" if runs else "choose another attention or other rows"
        raise ValueError(
            f"attention is {workload.attention!r} with {way.words}, which transformers does not "
            f"run for {arch.family} ({refused}); {fix}"
        )
    if way.precision == "autocast-bf16" and arch.experts:
        raise without_autocast(arch)
    fix = ", or compute in half precision" if way.precision == "fp32" else ""
    raise ValueError(
        f"attention is {workload.attention!r} with {way.words}, {measured.NOBODY} "
        f"{arch.family} yet; have its layers measured on this machine{fix}"
    )


def beyond(arch: Architecture, workload: Workload) -> Num:
    """Where rows are longer than the law of a model's measured layers is believed."""
    proof = setting_of(arch, workload).get(PROOF) if arch.measured else None
    return False if proof is None else workload.tokens > Proof(*proof).longest


def refuse_beyond(arch: Architecture, workload: Workload) -> None:
    """Raise ``ValueError`` for rows that are too long, whatever their length in a sweep."""
    if not np.all(beyond(arch, workload)):
        return
    proof = Proof(*setting_of(arch, workload)[PROOF])
    why = f"up to {proof.held:,}, and a law of their bytes is believed to {FURTHER} times that"
    if proof.failed:
        why = f"at {proof.failed:,}, which no law of their bytes met within {WITHIN:.0%}"
    fix = f"keep rows to {proof.longest:,}"
    if not proof.longest:
        fix = "choose another attention or dtype"
    raise ValueError(
        f"prompt_tokens: a row has {np.min(workload.tokens):,} tokens, and the layers of "
        f"{arch.family} were measured {why}; {fix}"
    )


def refuses_sdpa(arch: Architecture) -> bool:
    """Whether somebody who measured it has seen transformers refuse torch's attention."""
    found = measured.entry(arch.measured)
    return any(name.startswith("sdpa/") for name in found["refused"]) and not any(
        name.startswith("sdpa/") for name in found["settings"]
    )


PLAIN = ("input_kept", "held", LAW, PROOF)
"""What of a setting is no polynomial."""


def _of_rank(found: Any, rank: Num, name: str = "") -> Any:
    """A setting at a rank of its adapters: of polynomials that hold what each rank adds."""
    if isinstance(found, Mapping):
        return {key: _of_rank(value, rank, key) for key, value in found.items()}
    if name in PLAIN:
        return found
    if found and isinstance(found[0], (Mapping, list, tuple)):
        return [_of_rank(each, rank) for each in found]
    return polynomial.of_rank(found, rank)


def without_autocast(arch: Architecture) -> ValueError:
    """Autocast does not know the product of experts, so no mixture was measured under it."""
    return ValueError(
        f"master_dtype is 'fp32' without sharding but autocast of {arch.family} has no dry-run "
        "coefficients; set master_dtype to none, or shard with FSDP"
    )


def _refuse(arch: Architecture, workload: Workload) -> None:
    found = ""
    if workload.trains == "inputs" or workload.sums_gradients:
        found = "method is 'grade'"
    elif workload.compiled:
        found = "compile is set"
    elif workload.precision == "autocast-bf16" and workload.lora_targets and arch.experts:
        raise without_autocast(arch)
    if found:
        raise ValueError(f"{found} but {arch.family} has no derived sum; {COVERS}")
