"""The coefficients that ship: of every catalog model that no family derives.

``python -m planner.dryrun.run.coefficients`` measures them as any decoder is measured on the spot
(:mod:`planner.dryrun.run.spot`) and writes ``planner/catalog/coefficients.json``.
"""

from __future__ import annotations

import gc
import json
import sys
import time
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import torch

from planner import catalog
from planner.catalog import spot
from planner.dryrun.ask.request import versions
from planner.dryrun.run.spot import measure
from planner.dryrun.run.spot.polynomials import CARD

ATTENTIONS = ("sdpa", "eager", "flash")
SHAPES = ("full", "padded", "packed")
PRECISIONS = ("bf16", "autocast-bf16")

FILE = Path(__file__).resolve().parents[2] / "catalog" / "coefficients.json"


def settings_of(name: str) -> list[str]:
    """The settings of a catalog model that ship; others are measured on the spot.

    Of mixtures those in bf16: the shape rule of ``grouped_mm`` knows no other format.
    """
    architecture = catalog.model(name).architecture
    mixture = architecture is None or architecture.experts
    shipped = product(ATTENTIONS, SHAPES, PRECISIONS[:1] if mixture else PRECISIONS)
    # No plan packs rows for eager attention, which cannot keep them apart.
    return ["/".join(each) for each in shipped if each[:2] != ("eager", "packed")]


def missing() -> list[str]:
    """Ids of the catalog's models that no family derives."""
    return [
        model.id
        for model in catalog.models()
        if model.architecture is None or model.architecture.measured
    ]


KEYS = ("layers", "fallback", "supposed", "refused", "settings", "weights")


def text_of(models: Mapping[str, Any], libraries: Mapping[str, str]) -> str:
    """The file's text: a line for each setting and each weight, so that changes can be read."""
    ordered = {name: {key: entry[key] for key in KEYS} for name, entry in models.items()}
    return _text({"versions": dict(libraries), "card": CARD, "models": ordered}) + "\n"


def _text(value: Any, key: str = "", depth: int = 0) -> str:
    """The top, the models, each of them, and their settings and weights have a line a row."""
    if depth not in (0, 2) and key not in ("models", "settings", "weights"):
        return json.dumps(value, separators=None if depth == 1 else (",", ":"))
    if isinstance(value, dict):
        rows = [f'"{name}": {_text(each, name, depth + 1)}' for name, each in value.items()]
    else:
        rows = [json.dumps(each, separators=(",", ":")) for each in value]
    ends = "{}" if isinstance(value, dict) else "[]"
    inner = ",\n".join(" " * (depth + 1) + row for row in rows)
    return f"{ends[0]}\n{inner}\n{' ' * depth}{ends[1]}"


def main(ids: Sequence[str]) -> None:
    """Measure every model that is missing, or those named."""
    torch.set_num_threads(1)
    gc.freeze()  # what libraries made at import is not looked through again
    for name in ids or missing():
        start = time.perf_counter()
        found = measure(spot.canonical(catalog.model(name).config), settings_of(name))
        _write(name, found)
        seconds = time.perf_counter() - start
        print(f"{name}: {len(found['settings'])} settings, {seconds:.0f} s", flush=True)


def _write(name: str, found: Mapping[str, Any]) -> None:
    """Put a model into the file; the others stay."""
    libraries = {
        library: versions()[library].partition("+")[0] for library in ("torch", "transformers")
    }
    models = json.loads(FILE.read_text("utf-8"))["models"] if FILE.exists() else {}
    models[name] = found
    ordered = {each: models[each] for each in missing() if each in models}
    FILE.write_text(text_of(ordered, libraries), "utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
