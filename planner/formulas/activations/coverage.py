"""Whether the formulas of this folder cover a model that runs in a way, asked without a sum."""

from __future__ import annotations

from planner.catalog.architecture import Architecture
from planner.formulas.activations.compiled import refuse_compiled
from planner.formulas.activations.decoder import FAMILIES
from planner.formulas.activations.four_bit import refuse_other_weights
from planner.formulas.activations.layers import refuse_what_cannot_run, refuses_sdpa, settings
from planner.formulas.activations.liger import refuse_without_kernels
from planner.formulas.activations.measured_lookup import beyond, refuse_beyond
from planner.formulas.activations.workload import Workload
from planner.formulas.lora import lora_weights

__all__ = ["beyond", "refuse_uncovered", "refuses_sdpa"]


def refuse_uncovered(arch: Architecture, workload: Workload) -> None:
    """Raise ``ValueError`` for what nobody derived or measured, or a library refuses itself."""
    if workload.lora_targets:
        lora_weights(arch, workload.lora_targets)
    if workload.four_bit:
        refuse_other_weights(arch)
    if workload.multiprocessors:
        refuse_without_kernels(arch)
    if arch.measured:
        refuse_beyond(arch, workload)
        return
    refuse_what_cannot_run(arch, workload)
    if arch.family not in FAMILIES:
        raise ValueError(
            f"model: layers of {arch.family} are not derived by hand; choose a model of one of "
            f"{', '.join(FAMILIES)}"
        )
    if workload.compiled and workload.trains != "none":
        refuse_compiled(arch, settings(arch, workload, sliding=False)[0][0])
