"""A log beside what the closed form counts of the same engine, part by part."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from accuracy.engines.rows import Row, rows
from accuracy.quantity import scene
from planner import catalog
from planner.phases import engine
from planner.plan import Plan
from planner.term import Term
from planner.units import GIB

GPU = "h100-80gb"
MAX_NUM_SEQS = 1024
"""vLLM 0.19's own default for a server on a card of 70 GiB and more; no log changes it."""
PARTS: Mapping[str, str] = {
    "weights_gib": "vLLM weights",
    "non_torch_gib": "vLLM libraries",
    "graphs_gib": "vLLM CUDA graphs",
    "kv_gib": "vLLM KV cache",
}
"""What a log says → the term that predicts it."""
EXPERTS = "vLLM expert workspace"


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """A log, and the closed form's GiB of what it says, with bounds where it has them."""

    row: Row
    predicted: Mapping[str, float]
    bounds: Mapping[str, tuple[float, float]]

    def error(self, part: str) -> float:
        """Signed relative error of a part."""
        return float(self.predicted[part] / getattr(self.row, part) - 1)

    @property
    def pool_beside_graphs(self) -> float:
        """Signed error of the cache where graphs are captured beside the share, not out of it."""
        size = self.predicted["kv_gib"] + self.predicted["graphs_gib"]
        return float(size / self.row.kv_gib - 1)

    def within(self, part: str) -> bool:
        """Whether the log lies inside the bounds, to the two digits it is printed with."""
        low, high = (round(bound, 2) for bound in self.bounds[part])
        return bool(low <= getattr(self.row, part) <= high)


def reason(row: Row) -> str:
    """Why a log has no plan, or nothing."""
    if row.id.endswith(".failed"):
        return "the engine failed to start"
    if row.pp > 1:
        return "a pipeline over several GPUs: not modelled"
    if "quant" in row.dtype:
        return "quantised weights"
    try:
        catalog.model(row.model)
    except ValueError:
        return "a model outside the catalog"
    return ""


def fields(row: Row) -> dict[str, Any]:
    """The plan: what trains beside an engine on GPUs of its own changes nothing of it."""
    return {
        "model": row.model,
        "method": "grpo",
        "gpu": GPU,
        "gpu_bytes": round(row.card_gib * GIB),
        "gpus": 8 + row.tp,
        "gpus_per_node": 8 + row.tp,
        "sharding": "fsdp2",
        "rollout": "vllm-separate",
        "rollout_gpus": row.tp,
        "rollout_tensor_parallel": row.tp,
        "gpu_memory_utilization": row.gpu_memory_utilization,
        "max_num_seqs": MAX_NUM_SEQS,
        "max_num_batched_tokens": row.max_num_batched_tokens,
        "kv_cache_dtype": "fp8" if "kv fp8" in row.dtype else "auto",
        "prompt_tokens": row.max_model_len // 2,
        "response_tokens": row.max_model_len // 2,
    }


@cache
def compared() -> tuple[Compared, ...]:
    """Every log that has a plan, compared."""
    return tuple(_compared(row) for row in rows() if not reason(row))


def _compared(row: Row) -> Compared:
    terms = {term.name: term for term in engine.awake(scene(Plan(**fields(row))))}
    predicted = {part: int(terms[name].bytes) / GIB for part, name in PARTS.items()}
    profiled = int(terms[PARTS["kv_gib"]].inputs["profiled_bytes"])
    experts = int(terms[EXPERTS].bytes) if EXPERTS in terms else 0
    return Compared(
        row=row,
        # vLLM's profile run makes the workspace of experts, and counts it with its peak.
        predicted=predicted | {"activation_peak_gib": (profiled + experts) / GIB},
        bounds={part: _bounds(terms[PARTS[part]]) for part in ("non_torch_gib", "graphs_gib")},
    )


def _bounds(term: Term) -> tuple[float, float]:
    assert term.low is not None and term.high is not None
    return int(term.low) / GIB, int(term.high) / GIB
