"""What a file of :mod:`accuracy.kernel_runs` says of the tables and of what estimates suppose.

Committed files are ``accuracy/measured/kernels-*.json`` and ``benchmark-*.json``. No torch.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from planner import catalog
from planner.catalog import Gpu
from planner.catalog.card_benchmark import read_benchmark
from planner.catalog.efficiencies import efficiencies
from planner.kernels import experts_seconds, prefill_attention_seconds, products_seconds

FOLDER = Path(__file__).parent / "measured"
Row = Mapping[str, Any]
TERA = 1e12


def text(folder: Path = FOLDER) -> str:
    """The section of docs/accuracy.md."""
    found = [json.loads(path.read_text("utf-8")) for path in sorted(folder.glob("kernels-*.json"))]
    parts = [_of_file(file) for file in found]
    parts += [_benchmark(path) for path in sorted(folder.glob("benchmark-*.json"))]
    return "\n\n".join(parts)


def _of_file(file: Mapping[str, Any]) -> str:
    gpu = catalog.gpu(file["gpu"])
    rows = [row for row in file["rows"] if "seconds" in row]
    versions = file["environment"]["versions"]
    return "\n\n".join(
        (
            f"### {gpu.key}",
            f"{len(rows)} kernels, torch {versions['torch']}, driver "
            f"{file['environment']['driver']}; back to back, medians of samples of 20 ms.",
            *(section(gpu, own) for part, section in SECTIONS.items() if (own := _of(rows, part))),
            _lasting(file["sustained"]),
        )
    )


def _of(rows: Sequence[Row], part: str) -> list[Row]:
    return [row for row in rows if row["part"] == part]


def _products(gpu: Gpu, rows: Sequence[Row]) -> str:
    seconds = {(row["name"], *row["sizes"].values()): row["seconds"] for row in rows}
    lines = [
        "GEMMs: the table's time for the forward's shape, and for the shape that estimates use for "
        "a gradient, over the measured time; and a gradient's time over its forward's time.",
        "| product | shapes | table by measured: median | p5 | p95 "
        "| by forward: median | p5 | p95 |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for name in dict.fromkeys(row["name"] for row in rows):
        errors, quotients = [], []
        for (kind, tokens, inner, outer), took in seconds.items():
            if kind == name:
                shape = _as_forward(name, tokens, inner, outer)
                errors.append(_known(products_seconds(gpu, dtype="bf16", **shape)) / took - 1)
                quotients.append(took / seconds["forward", tokens, inner, outer])
        by_forward = " | ".join(f"{value:.2f}" for value in _percentiles(quotients))
        lines.append(f"| {name} | {len(errors)} | {_signed(errors)} | {by_forward} |")
    return "\n".join((lines[0], "", *lines[1:]))


def _as_forward(name: str, tokens: int, inner: int, outer: int) -> dict[str, Any]:
    if name == "input gradient":
        return {"rows": tokens, "inner": outer, "outer": inner}
    if name == "weight gradient":
        return {"rows": outer, "inner": tokens, "outer": inner}
    return {"rows": tokens, "inner": inner, "outer": outer}


def _attention(gpu: Gpu, rows: Sequence[Row]) -> str:
    """Rates of the pairs that each kernel computes: all of the square under a mask."""
    found: dict[tuple[int, int, int, str], dict[str, float]] = {}
    for row in rows:
        sizes, (kernel, name) = row["sizes"], row["name"].split()
        key = sizes["head_dim"], sizes["rows"], sizes["tokens"], kernel
        found.setdefault(key, {})[name] = row["flops"] / row["seconds"] / TERA
    lines = [
        "Causal attention of 32 heads: measured TFLOP/s over the pairs that the kernel computes "
        "(all pairs if it is given a mask), and the table's TFLOP/s for the forward.",
        "",
        "| head size | tokens | kernel | forward | backward | backward by forward | table |",
        "|---:|---:|---|---:|---:|---:|---:|",
    ]
    for (dim, sequences, tokens, kernel), rates in found.items():
        heads: dict[str, Any] = {"heads": 32, "kv_heads": 32, "head_dim": dim}
        took = prefill_attention_seconds(
            gpu, sequences=sequences, tokens=tokens, **heads, dtype="bf16"
        )
        table = 2.0 * sequences * 32 * dim * tokens * (tokens + 1) / _known(took) / TERA
        forward, backward = rates["forward"], rates["backward"]
        lines.append(
            f"| {dim} | {tokens:,} | {kernel} | {forward:.0f} | {backward:.0f} "
            f"| {backward / forward:.2f} | {table:.0f} |"
        )
    return "\n".join(lines)


def _prefixes(gpu: Gpu, rows: Sequence[Row]) -> str:
    rates = {
        (row["sizes"]["tokens"], row["sizes"]["prefix"]): row["flops"] / row["seconds"]
        for row in rows
    }
    lines = [
        "A chunk that attends to a prefix, with FlashAttention-2: its rate over the rate of one "
        "prefill as long as prefix and chunk together. Estimates assume equal rates.",
        "",
        "| chunk | prefix | TFLOP/s | by a prefill as long |",
        "|---:|---:|---:|---:|",
    ]
    for (tokens, prefix), rate in rates.items():
        if prefix:
            whole = rates[tokens + prefix, 0]
            lines.append(f"| {tokens:,} | {prefix:,} | {rate / TERA:.0f} | {rate / whole:.2f} |")
    return "\n".join(lines)


def _experts(gpu: Gpu, rows: Sequence[Row]) -> str:
    lines = [
        "A layer's experts run by torch's grouped GEMMs, with tokens spread by the tables' power "
        "law; a backward is compared with twice the table's forward.",
        "",
        "| pass | shapes | table by measured: median | p5 | p95 |",
        "|---|---:|---:|---:|---:|",
    ]
    for name, times in (("forward", 1), ("backward", 2)):
        errors = [
            times * _known(experts_seconds(gpu, dtype="bf16", **row["sizes"])) / row["seconds"] - 1
            for row in rows
            if row["name"] == name
        ]
        lines.append(f"| {name} | {len(errors)} | {_signed(errors)} |")
    return "\n".join(lines)


SECTIONS = {
    "products": _products,
    "attention": _attention,
    "prefix": _prefixes,
    "experts": _experts,
}


def _lasting(held: Mapping[str, Any]) -> str:
    tokens, inner, outer = held["shape"]
    rates = 2.0 * tokens * inner * outer / np.asarray(held["seconds"]) / TERA
    few = max(len(rates) // 10, 1)
    return (
        f"A GEMM of {tokens:,} by {inner:,} by {outer:,}, {len(rates)} samples of 50 ms without "
        f"a pause: {np.median(rates[:few]):.0f} TFLOP/s in the first tenth, "
        f"{np.median(rates[-few:]):.0f} in the last."
    )


def _benchmark(path: Path) -> str:
    """A card's own benchmark beside the published intervals, of which it replaces none."""
    found = read_benchmark(path.read_bytes())
    lines = [
        f"`planner benchmark` of {found.device.gpu} beside the published shares. No estimate uses "
        "this benchmark: one share for all shapes says less than the rates of kernels by shape.",
        "",
        "| efficiency | measured | its range | published | its range |",
        "|---|---:|---:|---:|---:|",
    ]
    gpu = catalog.gpu(found.device.gpu)
    for own in found.derived:
        known = efficiencies()[own.key]
        told = known.published_for(gpu)
        lines.append(
            f"| {own.key} | {own.typical:.3g} | {own.low:.3g} to {own.high:.3g} "
            f"| {told.typical:.3g} | {told.low:.3g} to {told.high:.3g} |"
        )
    return "\n".join(lines)


def _known(seconds: Any) -> float:
    assert seconds is not None
    return float(seconds)


def _percentiles(values: Sequence[float]) -> Iterator[float]:
    yield from map(float, np.percentile(np.asarray(values), [50, 5, 95]))


def _signed(errors: Sequence[float]) -> str:
    return " | ".join(f"{100 * value:+.1f} %" for value in _percentiles(errors))
