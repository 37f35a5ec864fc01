"""Measured kernel tables of the catalog, from the parquet files of ``aiconfigurator-core`` 0.12.0.

Called by ``scripts/distill_kernels``. What is kept, and how rows fold onto grids, stands at each
function below and in ``NOTICE``, which ships beside the tables.
"""

from __future__ import annotations

import hashlib
import io
import json
import sys
import zipfile
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pandas as pd

ROOT = Path(__file__).resolve().parents[2]
OUT = ROOT / "planner" / "catalog" / "kernels"
DATA = "aiconfigurator_core/systems/data"
WHEELS = {
    "aiconfigurator_core-0.12.0-cp311-abi3-manylinux_2_28_x86_64.whl": (
        "aadc4aad0a00bf8a61c477c62bef43de479849c3aa0b1c3078068e08309eccc4"
    ),
    "aiconfigurator-0.12.0-py3-none-any.whl": (
        "95ef03bfdf2560072e5c47404cbec2fcdd73b8dcdfba72951322e7f1c03de3a9"
    ),
}
"""SHA-256 of the wheels with the tables and with the licence."""
CARDS = {
    "h100-80gb": ("h100_sxm", "0.24.0"),
    "h200-141gb": ("h200_sxm", "0.24.0"),
    "b200-180gb": ("b200_sxm", "0.24.0"),
    "b300-288gb": ("b300_sxm", "0.24.0"),
    "gb200-186gb": ("gb200", "0.24.0"),
    "gb300-288gb": ("gb300", "0.24.0"),
    "l40s": ("l40s", "0.24.0"),
    "rtx-pro-6000-blackwell": ("rtx_pro_6000_server", "0.24.0"),
    "a100-80gb": ("a100_sxm", "0.14.0"),
}
"""Key of the catalog: the wheel's name of the card, and the version of vLLM that was measured."""
REDUCE_VERSION = {"l40s": "0.22.0"}
"""Where all-reduce was last measured under another version."""
NCCL_VERSION = {"l40s": "2.27.3", "a100-80gb": "2.27.3"}
COLLECTIVES = ("all_gather", "reduce_scatter", "all_reduce", "alltoall")
DTYPES = {"bf16": "bfloat16", "fp8": "fp8"}
EXPERT_DTYPES = {"bf16": ("bfloat16",), "fp8": ("fp8_block", "fp8")}
"""Of experts, by preference: fp8 by blocks of 128 x 128, which verl asks vLLM for (``quantization:
fp8`` becomes ``weight_block_size``), where the card was measured with it; else one scale a tensor.
On Hopper the latter is a kernel of its own (ModelOpt's checkpoints) at twice to thrice the time of
bf16. Products keep one scale a tensor: those by blocks were measured with the host's launches,
none under 55 microseconds."""
ROUTING = "power_law_1.2"
SPREAD = (2, 4, 8)
"""GPUs over which experts are spread in the tables: those of one node."""
TWO_PRODUCTS = {"0.24.0": {(2688, 1856), (2048, 5120)}}
"""Hidden and inner size of experts without a gate (Nemotron 3), measured as the two products they
are since that version: no table of gated experts."""
DECODE_GROUPS = (1, 2, 3, 4, 5, 6, 8, 12, 16, 32, 64)
PREFILL_GROUPS = (1, 2, 4, 8, 16, 32, 64)
HEAD_DIMS = (64, 128, 192, 256, 512)


class Wheel:
    """Parquet files of one card out of the wheel."""

    def __init__(self, path: Path, card: str, version: str) -> None:
        self.archive = zipfile.ZipFile(path)
        self.card, self.version = card, version
        self.used: list[str] = []
        self.expert_dtypes: list[str] = []

    def table(
        self, kind: str, name: str, version: str = "", engine: str = "vllm"
    ) -> pd.DataFrame:
        """One table of an engine's kernels."""
        path = f"{DATA}/{self.card}/{kind}/{engine}/{version or self.version}/{name}.parquet"
        self.used.append(path.removeprefix("aiconfigurator_core/systems/"))
        return pd.read_parquet(io.BytesIO(self.archive.read(path)))


def gridded(
    rows: pd.DataFrame, columns: Iterable[str], axes: Iterable[Iterable[int]]
) -> np.ndarray:
    """Natural logarithm of the median milliseconds on a grid; NaN where nothing was measured."""
    columns, axes = list(columns), [list(axis) for axis in axes]
    for column, axis in zip(columns, axes, strict=True):
        rows = rows[rows[column].isin(axis)]
    middle = np.log(rows.groupby(columns)["latency"].median())
    grid = np.full([len(axis) for axis in axes], np.nan, np.float32)
    codes = [
        np.searchsorted(axis, middle.index.get_level_values(column))
        for column, axis in zip(columns, axes, strict=True)
    ]
    grid[tuple(codes)] = middle.to_numpy()
    return grid.astype(np.float16)


def products(wheel: Wheel) -> dict[str, np.ndarray]:
    """Matrix products: every (n, k), and rows without those one above a tile's edge."""
    rows = wheel.table("gemm", "gemm_perf")
    sizes = [int(m) for m in sorted(rows.m.unique()) if m == 1 or m % 2 == 0]
    wide = sorted(int(n) for n in rows.n.unique())
    found: dict[str, np.ndarray] = {
        "products_rows": np.array(sizes, np.int32),
        "products_outer": np.array(wide, np.int32),
        "products_inner": np.array(sorted(int(k) for k in rows.k.unique()), np.int32),
    }
    for dtype, name in DTYPES.items():
        part = rows[rows.gemm_dtype == name]
        if len(part):
            axes = [found[f"products_{axis}"] for axis in ("rows", "outer", "inner")]
            found[f"products_{dtype}"] = gridded(part, "mnk", axes)
    return found


def attention(wheel: Wheel) -> dict[str, np.ndarray]:
    """Attention; rows that do the same work on other heads fold together by their median."""
    found: dict[str, np.ndarray] = {}
    for kind, name, groups in (
        ("prefill", "context_attention_perf", PREFILL_GROUPS),
        ("decode", "generation_attention_perf", DECODE_GROUPS),
    ):
        rows = wheel.table("attention", name)
        if "window_size" not in rows:
            rows = rows.assign(window_size=0)
        rows = rows[rows.num_heads % rows.num_key_value_heads == 0]
        heads = rows.num_heads if kind == "prefill" else rows.num_key_value_heads
        rows = rows.assign(
            group=rows.num_heads // rows.num_key_value_heads,
            lanes=rows.batch_size * heads,
            length=rows.isl + rows.step,
        )
        columns = ("head_dim", "group", "lanes", "length")
        axes = (
            [dim for dim in HEAD_DIMS if dim in set(rows.head_dim)],
            groups,
            [2**power for power in range(15) if 2**power <= rows.lanes.max()],
            sorted(int(length) for length in rows.length.unique()),
        )
        for axis, values in zip(columns, axes, strict=True):
            found[f"{kind}_{axis}"] = np.array(values, np.int32)
        # Prefill runs on bf16 whatever the cache holds.
        for dtype in DTYPES if kind == "decode" else ("bf16",):
            part = rows[rows.kv_cache_dtype == DTYPES[dtype]]
            if not len(part):
                continue
            whole = part[part.window_size == 0]
            found[f"{kind}_{dtype}"] = gridded(whole, columns, axes)
            widths = sorted(int(width) for width in part.window_size.unique() if width)
            cut = [gridded(part[part.window_size == width], columns, axes) for width in widths]
            kept = [at for at, grid in enumerate(cut) if not np.isnan(grid).all()]
            if kept:
                found[f"{kind}_{dtype}_window"] = np.stack([cut[at] for at in kept])
                found[f"{kind}_{dtype}_widths"] = np.array([widths[at] for at in kept], np.int32)
    return found


def experts(wheel: Wheel) -> dict[str, np.ndarray]:
    """Mixtures on one GPU, and with their experts spread over some.

    A slice of tensor parallelism is a narrower expert. Spread, it is the GPU with the most tokens.
    """
    rows = wheel.table("moe", "moe_perf")
    rows = rows[rows.distribution == ROUTING]
    wheel.expert_dtypes = [name for dtype in EXPERT_DTYPES if (name := stored(rows, dtype))]
    if wheel.version in TWO_PRODUCTS:
        known = zip(rows.hidden_size, rows.inter_size, strict=True)
        rows = rows[[pair not in TWO_PRODUCTS[wheel.version] for pair in known]]
    rows = rows.assign(inter_size=rows.inter_size // rows.moe_tp_size)
    shape = ["hidden_size", "inter_size", "num_experts", "topk"]
    spread = rows[(rows.moe_tp_size == 1) & rows.moe_ep_size.isin(SPREAD)]
    return _mixtures("experts", rows[rows.moe_ep_size == 1], shape) | _mixtures(
        "spread", spread, [*shape, "moe_ep_size"]
    )


def stored(rows: pd.DataFrame, dtype: str) -> str:
    """The wheel's name of experts in a dtype: the first that a card has; empty for none."""
    known = set(rows.moe_dtype)
    return next((name for name in EXPERT_DTYPES[dtype] if name in known), "")


def _mixtures(kind: str, rows: pd.DataFrame, shape: list[str]) -> dict[str, np.ndarray]:
    found = {}
    for dtype in EXPERT_DTYPES:
        part = rows[rows.moe_dtype == stored(rows, dtype)]
        if not len(part):
            continue
        tokens = sorted(int(count) for count in part.num_tokens.unique())
        shapes = part[shape].drop_duplicates().sort_values(shape).reset_index(drop=True)
        part = part.merge(shapes.assign(row=shapes.index), on=shape)
        found[f"{kind}_{dtype}_shapes"] = shapes.to_numpy(np.int32)
        found[f"{kind}_{dtype}_tokens"] = np.array(tokens, np.int32)
        found[f"{kind}_{dtype}"] = gridded(part, ("row", "num_tokens"), (shapes.index, tokens))
    return found


def reduce(wheel: Wheel, version: str) -> dict[str, np.ndarray]:
    """All-reduce inside a node as vLLM does it in CUDA graphs; sizes in bytes."""
    rows = wheel.table("comm", "custom_allreduce_perf", version)
    rows = rows[rows.kernel_source == "vLLM_custom_graph"]
    rows = rows.assign(size=rows.message_size * 2)
    ranks, sizes = (sorted(int(value) for value in rows[c].unique()) for c in ("num_gpus", "size"))
    return {
        "reduce_ranks": np.array(ranks, np.int32),
        "reduce_bytes": np.array(sizes, np.int64),
        "reduce": gridded(rows, ("num_gpus", "size"), (ranks, sizes)),
    }


def collectives(wheel: Wheel, version: str) -> dict[str, np.ndarray]:
    """NCCL inside a node (nccl-tests on fp16); sizes in bytes, of a gather what it gathers."""
    rows = wheel.table("comm", "nccl_perf", version, "nccl")
    rows = rows[rows.nccl_dtype == "half"]
    rows = rows.assign(size=rows.message_size * 2)
    ranks, sizes = (sorted(int(value) for value in rows[c].unique()) for c in ("num_gpus", "size"))
    found = {"nccl_ranks": np.array(ranks, np.int32), "nccl_bytes": np.array(sizes, np.int64)}
    for kind in COLLECTIVES:
        part = rows[rows.op_name == kind]
        found[f"nccl_{kind}"] = gridded(part, ("num_gpus", "size"), (ranks, sizes))
    return found


def digest(tables: dict[str, np.ndarray]) -> str:
    """Hash of what the tables hold, whatever compressed them."""
    found = hashlib.sha256()
    for name in sorted(tables):
        found.update(f"{name} {tables[name].dtype.str} {tables[name].shape}\n".encode())
        found.update(np.ascontiguousarray(tables[name]).tobytes())
    return found.hexdigest()


NOTICE = """# Measured kernel tables

Copyright (c) 2025-2026 NVIDIA CORPORATION & AFFILIATES. Licensed under the Apache License 2.0
(`LICENSE` in this folder, as it ships in the wheel `aiconfigurator` 0.12.0).

The `.npz` files are derived from parquet files of the wheel `aiconfigurator-core` 0.12.0
(`aiconfigurator_core/systems/data`, https://github.com/ai-dynamo/aiconfigurator); `index.json`
names the files each was made of. Changes made here, all by `scripts/distill_kernels`:

- Latencies became natural logarithms of milliseconds in half precision on dense grids, NaN where
  nothing was measured; repeats became their median.
- Matrix products: bf16 and fp8 (per tensor) only; odd row counts other than 1 were left out.
- Attention: rows with the same head size, group (query heads a key/value head), lanes (sequences
  times query heads in prefill, times key/value heads in decode) and length became one, by their
  median; groups and lanes beyond the grids were left out; prefill only with a bf16 cache.
- Mixtures: bf16 and fp8 (by blocks of 128 x 128; per tensor on the card without those,
  `expert_dtypes` in `index.json`), one GPU, a slice of tensor parallelism, or experts spread over
  2, 4 and 8 GPUs; routing by a power law of exponent 1.2; experts without a gate were left out.
- All-reduce of vLLM in CUDA graphs, and NCCL's collectives in fp16; message sizes became bytes.
- All other tables, data types, engines and versions were left out.
"""


def main(folder: Path) -> None:
    """Write every card's tables, the index, the notice and the licence."""
    core, whole = (folder / name for name in WHEELS)
    for wheel, expected in zip((core, whole), WHEELS.values(), strict=True):
        if hashlib.sha256(wheel.read_bytes()).hexdigest() != expected:
            raise SystemExit(f"{wheel.name}: these are not the bytes that were published.")
    OUT.mkdir(exist_ok=True)
    index = {}
    for key, (card, version) in CARDS.items():
        source = Wheel(core, card, version)
        tables = products(source) | attention(source) | experts(source)
        tables |= reduce(source, REDUCE_VERSION.get(key, version))
        tables |= collectives(source, NCCL_VERSION.get(key, "2.29.2"))
        np.savez_compressed(OUT / f"{key}.npz", **tables)
        index[key] = {
            "version": f"vLLM {version}",
            "files": source.used,
            "expert_dtypes": source.expert_dtypes,
            "tables": sorted(name for name, table in tables.items() if table.dtype == np.float16),
            "sha256": digest(tables),
        }
        print(key, (OUT / f"{key}.npz").stat().st_size, "bytes")
    (OUT / "index.json").write_text(json.dumps(index, indent=1) + "\n")
    licence = zipfile.ZipFile(whole).read("aiconfigurator-0.12.0.dist-info/licenses/LICENSE")
    (OUT / "LICENSE").write_bytes(licence)
    (OUT / "NOTICE.md").write_text(NOTICE)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
