"""Benchmarks for the tests: shares as a link has them, and a whole result as JSON."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from planner.catalog import card_benchmark, gpu_catalog
from planner.plan import facts
from planner.speeds import Speed, Speeds

H100 = Speeds(
    gpu="h100-80gb",
    torch="2.13.0+cu130",
    driver="580.95.05",
    date="2026-11-22",
    speeds=(
        Speed("training-compute", 0.2, 0.3, 0.4),
        Speed("forward-compute", 0.25, 0.29, 0.5),
        Speed("decode-bandwidth", 0.3, 0.4, 0.7),
        Speed("optimizer-bandwidth", 0.5, 0.5, 0.9),
        Speed("host-copy-bandwidth", 0.35, 0.4, 0.45),
        Speed("hf-step-seconds-per-layer", 0.0004, 0.00044, 0.0005),
    ),
)
"""Each typical value differs from the published one."""

ROW = {
    "part": "layers",
    "name": "layers training",
    "model": "Qwen/Qwen2.5-7B",
    "sizes": {"tokens": 8192, "layers": 2},
    "dtype": "bf16",
    "seconds": 0.02,
    "low_seconds": 0.019,
    "high_seconds": 0.03,
    "samples": 5,
    "flops": 1e13,
    "moved_bytes": None,
    "share": 0.5,
    "of": "dense peak",
}
CONSTANTS = {
    "total_bytes": 85_000_000_000,
    "others_bytes": 0,
    "context_bytes": 500_000_000,
    "loaded_bytes": 700_000_000,
    "cublas_forward_bytes": 33_554_432,
    "cublas_backward_bytes": 33_554_432,
    "cudnn_bytes": 1_000_000,
    "nccl_bytes": 400_000_000,
}


def benchmark(**changes: Any) -> dict[str, Any]:
    """The JSON of a benchmark of an H100, with other fields where a test says so."""
    whole = {
        "v": 1,
        "source": "benchmark",
        "id": "20261122-120000-abcdef",
        "created": "2026-11-22T12:00:00Z",
        "budget_seconds": 20.0,
        "seconds": 31.5,
        "device": {"kind": "cuda", "name": "NVIDIA H100 80GB HBM3", "gpu": H100.gpu},
        "versions": {"torch": H100.torch, "python": "3.12.3"},
        "driver": H100.driver,
        "peaks": {
            "bf16_flops_per_second": 989.4e12,
            "fp32_flops_per_second": 66.9e12,
            "bandwidth_bytes_per_second": 3.35e12,
            "slot_bytes_per_second": 63e9,
        },
        "measured": [dict(ROW)],
        "derived": [
            {"key": s.key, "low": s.low, "typical": s.typical, "high": s.high, "rests_on": "rows"}
            for s in H100.speeds
        ],
        "constants": dict(CONSTANTS),
        "notes": [],
    }
    return {**whole, **changes}


def commit(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the catalog read its benchmarks from a folder; undone with ``monkeypatch``."""
    monkeypatch.setattr(card_benchmark, "FOLDER", folder)
    forget()


def forget() -> None:
    """Let the catalog read its benchmarks again."""
    card_benchmark.committed.cache_clear()
    gpu_catalog._by_key.cache_clear()
    facts._facts.cache_clear()
