"""The closed form beside recorded figures of real steps on fake tensors (docs/memory-notes.md)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from accuracy.quantity import named, peak
from planner.catalog import model
from planner.formulas.activations.layers import layer_saved
from planner.formulas.activations.workload import Workload
from planner.plan import Plan
from planner.units import GIB, MIB

CUBLAS_BYTES = 64 * MIB
"""Two workspaces of an H100, which a run on a CPU cannot have."""


LLAMA_MASK = 8_192
"""Bytes per token of mask and repeated heads that the fake Llama run had and the plan has not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One recorded number and the formulas' number for the same thing."""

    what: str
    unit: str
    recorded: float
    predicted: float

    @property
    def signed_error(self) -> float:
        """Relative difference of the formulas from the record."""
        return self.predicted / self.recorded - 1


def figures() -> tuple[Figure, ...]:
    """Every recorded figure, in the order of docs/memory-notes.md."""
    return (*_steps(), *_layers(), *_shards())


def _step(name: str, **changes: Any) -> Plan:
    """A bf16 full fine-tuning step without masters on one card."""
    values: dict[str, Any] = {
        "model": name,
        "method": "sft",
        "gpu": "h100-80gb",
        "gpus": 1,
        "sharding": "none",
        "master_dtype": "none",
        "prompts_per_step": 4,
        "micro_batch_size": 4,
        "prompt_tokens": 512,
        "response_tokens": 512,
        "batch_shape": "full",
        "optimizer": "adamw-foreach",
        "gradient_checkpointing": "none",
    }
    return Plan(**{**values, **changes})


def _own(plan: Plan, phase: str) -> int:
    return peak(plan, "requested", (phase,)).bytes - CUBLAS_BYTES


def _steps() -> list[Figure]:
    small = "Qwen/Qwen3-0.6B"
    plain, checkpointed = _step(small), _step(small, gradient_checkpointing="full")
    long = _step(
        "Qwen/Qwen2.5-7B",
        gradient_checkpointing="full",
        prompts_per_step=1,
        micro_batch_size=1,
        prompt_tokens=2048,
        response_tokens=2048,
    )
    back = "policy backward"
    return [
        Figure(
            what="Qwen3-0.6B, 4 × 1024: backward",
            unit="MiB",
            recorded=18_424,
            predicted=_own(plain, back) / MIB,
        ),
        Figure(
            what="the same, optimizer step (foreach)",
            unit="MiB",
            recorded=5_685,
            predicted=_own(plain, "optimizer step") / MIB,
        ),
        Figure(
            what="the same, checkpointed: backward",
            unit="MiB",
            recorded=10_789,
            predicted=_own(checkpointed, back) / MIB,
        ),
        Figure(
            what="Qwen2.5-7B, 1 × 4096, checkpointed: backward",
            unit="GiB",
            recorded=56.77,
            predicted=_own(long, back) / GIB,
        ),
    ]


def _layers() -> list[Figure]:
    recorded = (
        ("Qwen/Qwen3-0.6B", "sdpa", 71_848),
        ("Qwen/Qwen2.5-1.5B", "sdpa", 103_480),
        ("meta-llama/Llama-3.2-1B", "sdpa", 116_872 - LLAMA_MASK),
        ("Qwen/Qwen3-8B", "sdpa", 215_336),
        ("Qwen/Qwen3-0.6B", "eager", 174_184),
    )
    return [
        Figure(
            what=f"{name.split('/')[1]}, {kernel}, rows of 1024: saved per token and layer",
            unit="B",
            recorded=size,
            predicted=_saved_per_token(name, kernel),
        )
        for name, kernel, size in recorded
    ]


def _saved_per_token(name: str, kernel: str) -> float:
    rows, tokens = 4, 1024
    arch = model(name).architecture
    if arch is None:
        raise ValueError(f"model: {name} has no derived sum.")
    workload = Workload(
        sequences=rows,
        tokens=tokens,
        batch_shape="full",
        attention=kernel,
        precision="bf16",
        trains="all",
    )
    terms = layer_saved(arch, workload, role="policy", layers=1)
    return sum(int(term.bytes) for term in terms) / (rows * tokens)


def _shards() -> list[Figure]:
    plan = Plan(model="Qwen/Qwen2.5-1.5B", gpus=8, sharding="fsdp2", kl="none")
    weights = named(plan, "weight sync", "weights", "policy")
    moments = named(plan, "weight sync", "Adam moments", "policy")
    return [
        Figure(
            what="Qwen2.5-1.5B, FSDP2 over 8: fp32 weights of a rank",
            unit="GiB",
            recorded=0.719,
            predicted=weights / GIB,
        ),
        Figure(
            what="the same with AdamW's moments",
            unit="GiB",
            recorded=2.157,
            predicted=(weights + moments) / GIB,
        ),
    ]
