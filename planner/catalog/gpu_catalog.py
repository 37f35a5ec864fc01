"""A card a plan can name: what torch can use of it, how fast it is, what it costs.

Reads ``gpus.json`` once, on first use, and the committed benchmarks of its cards beside it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from planner.catalog.card_benchmark import Constants, committed, speeds_of
from planner.catalog.closest import unknown
from planner.catalog.schema import CatalogError, GpuFile, GpuRow, Price, by_key, read_rows
from planner.speeds import Speeds

GB = 10**9
TERA = 10**12
CUSTOM = "custom"
DTYPES = ("bf16", "fp16", "fp32", "fp8")
TYPED_IN = ("typed in by the user",)
COPIED = (
    *("key", "name", "vendor", "architecture", "compute_capability", "pcie"),
    *("price", "sources", "confidence", "note", "date"),
)
"""What a card takes from its row as it stands there."""
NOBODY = "unsupported: nobody has reported its usable bytes"


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """One device as software sees it. Rates that nobody has published are None."""

    key: str
    name: str
    budget_bytes: int | None
    """Smallest total that torch was seen to report on Linux, never the sticker's GB."""
    vendor: str = ""
    architecture: str = ""
    compute_capability: str | None = None
    """CUDA's ``9.0`` or AMD's ``gfx942``; None elsewhere."""
    multiprocessors: int | None = None
    bandwidth_bytes_per_second: float | None = None
    bf16_flops_per_second: float | None = None
    """Dense peak, fp32 accumulation."""
    fp16_flops_per_second: float | None = None
    fp32_flops_per_second: float | None = None
    """Without tensor cores."""
    fp8_flops_per_second: float | None = None
    reached_flops_per_second: float | None = None
    """In bf16, by the largest products of torch."""
    interconnect: str = ""
    interconnect_bytes_per_second: float | None = None
    """Per GPU, both directions added; None when GPUs meet over PCIe only."""
    pcie: str | None = None
    price: Price | None = None
    sources: tuple[str, ...] = TYPED_IN
    confidence: str = ""
    note: str = ""
    date: str = ""
    speeds: Speeds | None = None
    """Shares of the peaks measured on such a card; None where only published ones are known."""
    constants: Constants | None = None
    """Memory outside PyTorch measured on such a card; None where only published figures are."""

    def __hash__(self) -> int:
        """Of what tells most cards apart: rates and curves of a card are looked up by it."""
        return hash((self.key, self.budget_bytes))

    @property
    def unsupported_reason(self) -> str:
        """Why no plan can be judged against this card; empty when one can."""
        return "" if self.budget_bytes is not None else NOBODY

    def require_budget_bytes(self) -> int:
        """Usable bytes, or ``ValueError`` naming the field that supplies them."""
        if self.budget_bytes is None:
            raise ValueError(f"gpu: {self.key} is {NOBODY}; type them in as gpu_bytes.")
        return self.budget_bytes

    def with_budget(self, size_bytes: int) -> Gpu:
        """The same card with usable bytes that the user read off it."""
        return replace(self, budget_bytes=_positive(size_bytes))

    def with_speeds(self, speeds: Speeds) -> Gpu:
        """The same card with shares that a benchmark measured, in place of all others."""
        return replace(self, speeds=speeds)

    def flops_per_second(self, dtype: str) -> float | None:
        """Dense peak for ``bf16``, ``fp16``, ``fp32`` or ``fp8``; None when unknown."""
        if dtype not in DTYPES:
            raise ValueError(f"dtype: {dtype!r} has no rate; use one of {', '.join(DTYPES)}.")
        rate: float | None = getattr(self, f"{dtype}_flops_per_second")
        return rate


def _positive(size_bytes: int) -> int:
    if isinstance(size_bytes, bool) or not isinstance(size_bytes, int) or size_bytes <= 0:
        raise ValueError("gpu_bytes: a custom card needs its usable bytes, a whole number above 0.")
    return size_bytes


def _scaled(value: float | None, unit: int) -> float | None:
    return None if value is None else value * unit


def _gpu(row: GpuRow) -> Gpu:
    found = committed().get(row.key)
    tflops = row.dense_tflops.model_dump()
    rates: dict[str, Any] = {
        f"{dtype}_flops_per_second": _scaled(tflops[dtype], TERA) for dtype in DTYPES
    }
    return Gpu(
        budget_bytes=row.memory_torch_bytes,
        bandwidth_bytes_per_second=row.bandwidth_gb_per_second * GB,
        reached_flops_per_second=(
            row.reached_bf16_tflops.value * TERA if row.reached_bf16_tflops else None
        ),
        interconnect=row.interconnect.kind,
        interconnect_bytes_per_second=_scaled(row.interconnect.gb_per_second_bidirectional, GB),
        speeds=speeds_of(found) if found else None,
        constants=found.constants if found else None,
        multiprocessors=row.multiprocessors.count if row.multiprocessors else None,
        **rates,
        **{name: getattr(row, name) for name in COPIED},
    )


@cache
def _by_key() -> Mapping[str, Gpu]:
    rows = read_rows("gpus.json", GpuFile).gpus
    found = by_key("gpus.json", ((row.key, _gpu(row)) for row in rows))
    strange = committed().keys() - found.keys()
    if strange:
        raise CatalogError(f"benchmarks: {min(strange)} is no card of gpus.json.")
    return found


def gpus() -> tuple[Gpu, ...]:
    """Every card of the catalog, those without usable bytes included."""
    return tuple(_by_key().values())


def gpu(key: str) -> Gpu:
    """The card of this key; ``ValueError`` with the closest keys when there is none."""
    found = _by_key().get(key)
    if found is None:
        raise ValueError(unknown("gpu", key, _by_key()))
    return found


def custom_gpu(size_bytes: int) -> Gpu:
    """A card of which only the usable bytes are known; ``ValueError`` unless positive."""
    return Gpu(key=CUSTOM, name="custom card", budget_bytes=_positive(size_bytes))


def grouped(gpu: Gpu, dtype: str) -> bool:
    """Whether torch has one kernel for all experts of a layer; else it multiplies one by one.

    transformers 5 asks for ``grouped_mm`` unless told otherwise (modeling_utils.py,
    get_correct_experts_implementation). torch 2.13 has it in bf16 for capabilities 9 and 10, and
    takes a product for each expert elsewhere (``_grouped_mm_cuda``, GroupedMMUtils.h
    ``_grouped_mm_fallback``), as transformers does below 8.0 (integrations/moe.py). A card of
    unknown capability is taken for one that has it.
    """
    return dtype == "bf16" and (gpu.compute_capability or "9").partition(".")[0] in ("9", "10")
