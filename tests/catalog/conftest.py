"""What transformers and peft build, in a process of its own or as it is committed."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from catalog.variants import VARIANTS
from evidence import ROOT, Evidence

REBUILD = Path(__file__).parent / "rebuild.py"
ROWS = json.loads((ROOT / "planner" / "catalog" / "models.json").read_text("utf-8"))["models"]
CASES: dict[str, dict[str, Any]] = {
    **{f"rows/{row['id']}": row["config"] for row in ROWS},
    **{f"variants/{name}": config for name, config in VARIANTS.items()},
    **{f"lora/{name}": config for name, config in VARIANTS.items()},
}
"""Configs to build models of, by part and name."""
EVIDENCE = Evidence(
    "rebuilt",
    of=("catalog.rebuild",),
    kinds={case: config["model_type"] for case, config in CASES.items()},
)


@pytest.fixture(scope="session")
def rebuilt() -> dict[str, Any]:
    """What transformers and peft say of every catalog row and every variant."""
    kept = {case: EVIDENCE.kept(case, config) for case, config in CASES.items()}
    live = {case: CASES[case] for case, figures in kept.items() if figures is None}
    done = subprocess.run(
        [sys.executable, str(REBUILD)],
        input=json.dumps(live),
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    answer = json.loads(done.stdout)
    found: dict[str, Any] = {"rows": {}, "variants": {}, "lora": {}}
    found["defaults"] = answer["defaults"]
    for case, config in CASES.items():
        if case in live:
            figures = answer["built"][case]
            EVIDENCE.add(case, config, folded(figures))
        else:
            figures = unfolded(kept[case])
        part, _, name = case.partition("/")
        found[part][name] = figures
    return found


def folded(figures: dict[str, Any]) -> dict[str, Any]:
    """With the tensors of equal layers in one line: name, sizes, and the layers of each."""
    if "tensors" not in figures:
        return figures
    lines: dict[str, dict[str, list[int]]] = {}
    for name, size in figures["tensors"].items():
        template, layer = re.subn(r"\.\d+\.", ".{}.", name, count=1)
        number = int(re.search(r"\.(\d+)\.", name)[1]) if layer else -1  # type: ignore[index]
        lines.setdefault(template, {}).setdefault(str(size), []).append(number)
    runs = {
        template: {size: _runs(layers) for size, layers in sizes.items()}
        for template, sizes in lines.items()
    }
    return {**figures, "tensors": runs}


def unfolded(figures: dict[str, Any]) -> dict[str, Any]:
    """The opposite of :func:`folded`."""
    if "tensors" not in figures:
        return figures
    tensors = {
        template.replace("{}", str(layer)): int(size)
        for template, sizes in figures["tensors"].items()
        for size, runs in sizes.items()
        for first, last in runs
        for layer in range(first, last + 1)
    }
    return {**figures, "tensors": tensors}


def _runs(layers: list[int]) -> list[list[int]]:
    """First and last of numbers that follow each other."""
    found: list[list[int]] = []
    for layer in sorted(layers):
        if found and found[-1][1] == layer - 1:
            found[-1][1] = layer
        else:
            found.append([layer, layer])
    return found
