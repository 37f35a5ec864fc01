"""Decoding beside a public sample of serving benchmarks, read from its wheel at run time.

``aiconfigurator-core`` 0.12.0 (NVIDIA, Apache-2.0) has 5,221 points of many engines and versions,
``systems/silicon_sample.csv``; its rows name other sources, so no row stands here: only medians,
with the wheel's hash. ``python -m accuracy.timings.serving WHEEL`` writes them.

A point is an engine that always runs ``batch_size`` requests of ``isl`` tokens, which get ``osl``
each. Time per output token has the other requests' prefills in it: while one request decodes, each
of the others starts once. Dense models only (of mixtures a precision says too little), aggregated
serving only. Cache in bf16, fp8 for TensorRT-LLM's fp8 checkpoints, as their configs have it.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import io
import json
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from accuracy.timings.engine_passes import decode_step_seconds, prefill_seconds
from planner.catalog import gpu, model

FILE = Path(__file__).parents[1] / "measured" / "serving.json"
BEFORE = FILE.with_name("timings-before.json")
MEMBER = "aiconfigurator_core/systems/silicon_sample.csv"
TARGET = 0.12
LARGE_BATCH = 128
"""Points above are reported without a target."""

MODELS = {
    "meta-llama/Llama-3.1-70B": "meta-llama/Llama-3.1-70B",
    "meta-llama/Llama-3.1-8B-Instruct": "meta-llama/Llama-3.1-8B",
    "nvidia/Llama-3.1-8B-Instruct-FP8": "meta-llama/Llama-3.1-8B",
    "Qwen/Qwen3-32B": "Qwen/Qwen3-32B",
    "nvidia/Qwen3-32B-NVFP4": "Qwen/Qwen3-32B",
}
CARDS = {
    "h100_sxm": "h100-80gb",
    "h200_sxm": "h200-141gb",
    "b200_sxm": "b200-180gb",
    "b300_sxm": "b300-288gb",
    "gb200": "gb200-186gb",
    "gb300": "gb300-288gb",
}
DTYPES = {"fp8": "fp8", "bf16": "bf16", "": "bf16"}
"""Stated precision → what is planned; points that state none are reported apart, as bf16."""


class Scored(NamedTuple):
    """A point's time per output token, published and predicted; None where it has no plan."""

    precision: str
    card: str
    engine: str
    batch: int
    published_seconds: float
    predicted_seconds: float | None


def scored(wheel: Path) -> Iterator[Scored]:
    """Every dense aggregated point of the wheel's sample."""
    with zipfile.ZipFile(wheel) as archive, archive.open(MEMBER) as raw:
        for row in csv.DictReader(io.TextIOWrapper(raw, "utf-8")):
            if row["model_path"] in MODELS and row["mode"] == "agg":
                yield Scored(
                    row["precision"],
                    CARDS[row["system"]],
                    row["backend"],
                    int(row["batch_size"]),
                    float(row["silicon_tpot_ms"]) / 1e3,
                    _predicted(row),
                )


def _predicted(row: dict[str, str]) -> float | None:
    dtype = DTYPES.get(row["precision"])
    if dtype is None:
        return None
    batch, prompt, output = (int(row[key]) for key in ("batch_size", "isl", "osl"))
    return seconds_per_token(
        MODELS[row["model_path"]],
        CARDS[row["system"]],
        dtype,
        parts=int(row["tp_size"]),
        sizes=(batch, prompt, output),
        small_cache=dtype == "fp8" and row["backend"] == "trtllm",
    )


def seconds_per_token(
    name: str,
    key: str,
    dtype: str,
    *,
    parts: int,
    sizes: tuple[int, int, int],
    small_cache: bool = False,
) -> float | None:
    """Of a model on a card, at ``sizes`` of a batch, its prompts and its outputs."""
    batch, prompt, output = sizes
    on: dict[str, Any] = {"tensor_parallel": parts, "dtype": dtype}
    arch, card = model(name).architecture, gpu(key)
    assert arch is not None
    step = decode_step_seconds(
        arch,
        card,
        sequences=batch,
        context_tokens=prompt + (output + 1) / 2,
        kv_value_bytes=1 if small_cache else 2,
        **on,
    )
    prefill = prefill_seconds(arch, card, prompts=1, prompt_tokens=prompt, **on)
    if step is None or prefill is None:
        return None
    return float(step + (batch - 1) / output * prefill)


def summary(points: Sequence[Scored]) -> list[dict[str, Any]]:
    """Medians by precision, by precision and card, and of the large batches."""
    groups: list[tuple[str, Iterable[Scored]]] = []
    usual = [one for one in points if one.batch <= LARGE_BATCH]
    groups.append(("precision stated", [one for one in usual if one.precision]))
    for precision in sorted({one.precision for one in usual}):
        own = [one for one in usual if one.precision == precision]
        name = precision or "none stated, as bf16"
        groups.append((name, own))
        for key in ("card", "engine"):
            values = sorted({getattr(one, key) for one in own})
            groups += [
                (f"{name}, {value}", [one for one in own if getattr(one, key) == value])
                for value in values
                if len(values) > 1
            ]
    groups.append((f"batches above {LARGE_BATCH}", [o for o in points if o.batch > LARGE_BATCH]))
    return [_line(name, list(group)) for name, group in groups]


def _line(name: str, group: Sequence[Scored]) -> dict[str, Any]:
    errors = [
        one.predicted_seconds / one.published_seconds - 1
        for one in group
        if one.predicted_seconds is not None
    ]
    known: dict[str, Any] = {"points": name, "count": len(group), "planned": len(errors)}
    if errors:
        low, middle, high = np.percentile(errors, [10, 50, 90])
        known |= {
            "median_of_sizes": round(float(np.median(np.abs(errors))), 4),
            "signed_median": round(float(middle), 4),
            "p10": round(float(low), 4),
            "p90": round(float(high), 4),
        }
    return known


def predictions() -> dict[str, float | None]:
    """Points of our own, no row of the sample: by them a change of the model is noticed."""
    found = {}
    for name in sorted(set(MODELS.values())):
        for key in CARDS.values():
            for dtype, small_cache in (("bf16", False), ("fp8", False), ("fp8", True)):
                for parts in (1, 4):
                    for sizes in ((1, 500, 300), (24, 1_500, 700), (100, 6_000, 900)):
                        point = f"{name} {key} {dtype} {parts} {sizes} {small_cache:d}"
                        found[point] = seconds_per_token(
                            name, key, dtype, parts=parts, sizes=sizes, small_cache=small_cache
                        )
    return found


def write(wheel: Path) -> list[dict[str, Any]]:
    """Score the wheel's sample and write the medians with the wheel's hash."""
    found = summary(tuple(scored(wheel)))
    told = {
        "wheel": "aiconfigurator-core 0.12.0",
        "sha256": hashlib.sha256(wheel.read_bytes()).hexdigest(),
        "seconds_per_output_token": found,
        "predictions": predictions(),
    }
    FILE.write_text(json.dumps(told, indent=1) + "\n", "utf-8")
    return found


def text() -> str:
    """The section's table, from the medians that were written."""
    told = json.loads(FILE.read_text("utf-8"))
    before = json.loads(BEFORE.read_text("utf-8"))["seconds_per_output_token"]
    lines = [
        f"Time per output token of dense models, beside {told['wheel']} (SHA-256 "
        f"{told['sha256'][:12]}…); the target is {TARGET:.0%} at stated precision. No plan has fp4 "
        "weights.",
        "",
        "| points | count | planned | median of sizes | signed median | p10 | p90 |",
        "|---|---:|---:|---:|---:|---:|---:|",
        *map(_row, told["seconds_per_output_token"]),
        *(_row(one | {"points": f"before: {one['points']}"}) for one in before),
    ]
    return "\n".join(lines)


def _row(line: dict[str, Any]) -> str:
    signs = {"median_of_sizes": "", "signed_median": "+", "p10": "+", "p90": "+"}
    cells = [f"{100 * line[key]:{sign}.1f} %" if key in line else "" for key, sign in signs.items()]
    return f"| {line['points']} | {line['count']} | {line['planned']} | {' | '.join(cells)} |"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Score a wheel's public serving sample.")
    parser.add_argument("wheel", type=Path)
    write(parser.parse_args().wheel)
    print(text())
