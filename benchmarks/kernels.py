"""CPU time of one look-up of a kernel's seconds: a number, a new shape, an array, an open mesh.

Run: python -m benchmarks.kernels [calls]. Prints one line a kernel, then one JSON line.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import numpy as np

from planner import kernels
from planner.catalog.gpu_catalog import gpu

CARD = gpu("h100-80gb")
HEADS = {"heads": 32, "kv_heads": 8, "head_dim": 128, "dtype": "bf16"}
MIXTURE = {"expert_intermediate": 768, "experts": 128, "experts_per_token": 8, "dtype": "bf16"}
LOOKS: dict[str, tuple[Callable[..., Any], dict[str, Any], str, str]] = {
    "products": (kernels.products_seconds, {"inner": 4096, "dtype": "bf16"}, "rows", "outer"),
    "prefill": (kernels.prefill_attention_seconds, HEADS, "tokens", "sequences"),
    "decode": (
        kernels.decode_attention_seconds,
        {**HEADS, "kv_value_bytes": 2},
        "sequences",
        "context_tokens",
    ),
    "experts": (kernels.experts_seconds, MIXTURE, "tokens", "hidden"),
    "reduce": (kernels.reduce_seconds, {"ranks": 8}, "size_bytes", ""),
}


def seconds(look: Callable[..., Any], calls: int, **sizes: Any) -> float:
    """CPU seconds of one call, after one that warms; an iterator gives every call its size."""
    each = {name: size for name, size in sizes.items() if isinstance(size, Iterator)}
    look(CARD, **sizes | {name: next(size) for name, size in each.items()})
    start = time.process_time()
    for _ in range(calls):
        look(CARD, **sizes | {name: next(size) for name, size in each.items()})
    return (time.process_time() - start) / calls


def main(calls: int = 3000) -> None:
    """Time every look-up."""
    start = time.perf_counter()
    kernels.products_seconds(CARD, rows=16, inner=4096, outer=4096, dtype="bf16")
    print(f"first look-up, its tables read: {1e3 * (time.perf_counter() - start):.1f} ms")
    line = np.arange(1, 100_001)
    report = {}
    for name, (look, fixed, along, across) in LOOKS.items():
        whole = {**fixed, across: 4096} if across else fixed
        found = {
            "number, µs": 1e6 * seconds(look, calls, **whole, **{along: 777}),
            "element, ns": 1e9 * seconds(look, 10, **whole, **{along: line}) / len(line),
        }
        if across:
            shapes = {along: 777, across: count(1000)}
            found["new shape, µs"] = 1e6 * seconds(look, calls // 10, **fixed, **shapes)
        if across and name != "experts":
            mesh = {along: line[:400], across: line[:400, None]}
            found["element of a mesh, ns"] = 1e9 * seconds(look, 10, **fixed, **mesh) / 160_000
        report[name] = {key: round(value, 1) for key, value in found.items()}
        print(f"{name:9}", ", ".join(f"{key} {value:.1f}" for key, value in found.items()))
    print(json.dumps(report))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
