"""How many bytes a value of a dtype has stands in one table; nothing else decides it again."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from planner.values.dtypes import BYTES, TORCH_NAMES, WITH_FP8

PACKAGE = Path(__file__).resolve().parent.parent / "planner"
NAMES = {*WITH_FP8, *TORCH_NAMES.values()}
SIZES = {*WITH_FP8.values()}
ELSE = {
    # Precisions of a forward: autocast is one, and no dtype of a plan.
    *("formulas/activations/workload.py", "timing/passing.py"),
    *("phases/scene.py", "phases/kv_cache.py"),
    "phases/host.py",  # DeepSpeed's own copy is of fp32 whatever the plan says
    "frameworks/verl/__init__.py",  # a reward model's engine: its GPUs beside its dtype
    "phases/engine.py",  # what an engine's cache stores where the plan leaves it to the engine
    "kernels/products.py",  # what the product of fp8 operands is written in
    "formulas/logits/recording.py",  # formats on a loss's tape, those of labels and masks too
}
"""Sizes that are of something else than of a value in a plan's dtype."""


def decided(path: Path) -> Iterator[str]:
    """Sizes by a dtype's name: chosen by a condition, or in a table."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        parts = (
            (node.body, node.orelse, node.test)
            if isinstance(node, ast.IfExp)
            else (*node.keys, *node.values)
            if isinstance(node, ast.Dict)
            else ()
        )
        found = {one.value for part in parts if part for one in ast.walk(part)
                 if isinstance(one, ast.Constant) and isinstance(one.value, str | int)}  # fmt: skip
        sized = {p.value for p in parts if isinstance(p, ast.Constant)} & SIZES - {True}
        if sized and found & NAMES:
            yield f"{path.relative_to(PACKAGE).as_posix()}:{node.lineno}"


def test_bytes_of_dtypes_are_told_once() -> None:
    assert BYTES == {"bf16": 2, "fp16": 2, "fp32": 4} and WITH_FP8 == BYTES | {"fp8": 1}
    files = (path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "values" / "dtypes.py")
    found = {one for path in files for one in decided(path)}
    assert {one for one in found if one.partition(":")[0] not in ELSE} == set()


@pytest.mark.parametrize(
    "text", ['x = 2 if plan.dtype == "fp16" else 4', 'x = {"bf16": 2, "fp32": 4}']
)
def test_a_second_table_is_seen(tmp_path: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "PACKAGE", tmp_path)
    (tmp_path / "sizes.py").write_text(text)
    assert list(decided(tmp_path / "sizes.py"))
