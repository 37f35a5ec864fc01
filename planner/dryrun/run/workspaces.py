"""What kernels take and give back inside one operator: a table by operator and torch version.

Tensors without data show the inputs and outputs of an operator; scratch inside a CUDA kernel
stays hidden, and so does what a composite operator makes below the dispatcher. The rows of
``workspaces.json`` say how many bytes that is, from which source and how sure. Imports no torch.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from math import prod
from pathlib import Path
from types import CodeType
from typing import Any

from planner.numeric import ceil_div, round_up

Shape = tuple[int, ...]
Shapes = Sequence[tuple[Shape, int]]
Sizes = dict[str, Any]

TORCH = "2.13.0"
TABLE = Path(__file__).with_name("workspaces.json")
LARGE_SHARED_MEMORY = ("7.0", "8.0", "8.7", "9.0", "10.0", "10.1", "10.3")
"""Cards whose blocks may take more than 99 KiB of shared memory (CUDA programming guide)."""
ROWS_PER_THREAD = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Workspace:
    """One row: an expression in bytes, and where it comes from."""

    tensors: tuple[tuple[int, tuple[str, ...]], ...]
    """Position among the tensor arguments, and the names of its sizes; ``*`` is any rank."""
    scalars: Mapping[str, int]
    """Names of the plain arguments that the expression reads, and their positions."""
    needs: tuple[str, ...]
    uses: str
    code: CodeType | None
    """None when nobody has published the size."""
    high: CodeType | None
    why: str

    def sizes(self, shapes: Shapes) -> Sizes | None:
        """The named sizes of an operator's tensors; None when this row is of another rank."""
        found: Sizes = {}
        for position, names in self.tensors:
            if position >= len(shapes):
                return None
            shape, item = shapes[position]
            found.setdefault("item", item)
            if names[0].startswith("*"):
                prefix = names[0][1:]
                found[prefix + "elements"] = prod(shape)
                found[prefix + "last"] = shape[-1] if shape else 1
            elif len(names) != len(shape):
                return None
            else:
                found.update(zip(names, shape, strict=True))
        return found


def workspace_bytes(
    op: str, shapes: Shapes, values: Mapping[str, Any] | None = None
) -> int | None:
    """Bytes hidden inside one call; None when the table has no figure.

    Args:
        op: operator, such as ``aten.logsumexp`` (``aten::logsumexp.default`` is the same).
        shapes: shape and bytes per element of each tensor argument, in the order of the call.
        values: plain arguments the row names (``num_weights``), ``compute_capability`` such as
            ``9.0``, and ``torch_version``, which is 2.13.0 unless given.

    Raises:
        ValueError: a value that the row needs is missing.
    """
    found = workspace_interval_bytes(op, shapes, values)
    return None if found is None else found[0]


def workspace_interval_bytes(
    op: str, shapes: Shapes, values: Mapping[str, Any] | None = None
) -> tuple[int, int] | None:
    """Least and most bytes hidden inside one call; the same twice where the source is exact."""
    values = values or {}
    for row in rows(op, values.get("torch_version", TORCH)):
        sizes = row.sizes(shapes)
        if sizes is None:
            continue
        for name in (*row.needs, *row.scalars):
            if name not in values:
                raise ValueError(f"{name}: the scratch of {plain_name(op)} depends on it; pass it.")
            sizes[name] = values[name]
        if row.uses:
            USES[row.uses](sizes)
        if row.code is None:
            return None
        low = _evaluated(row.code, sizes)
        return low, low if row.high is None else _evaluated(row.high, sizes)
    return None


def rows(op: str, torch_version: str = TORCH) -> tuple[Workspace, ...]:
    """The table's rows of an operator at a version of torch."""
    return _rows(torch_version).get(plain_name(op), ())


def operators(torch_version: str = TORCH) -> frozenset[str]:
    """Operators that have a row."""
    return frozenset(_rows(torch_version))


def doubt(op: str, torch_version: str = TORCH) -> str:
    """What is not known about an operator's scratch, as a sentence; empty when all is."""
    for row in rows(op, torch_version):
        if row.code is None or row.high is not None:
            return f"Scratch of {plain_name(op)} is not fully known: {row.why}"
    return ""


@cache
def plain_name(op: str) -> str:
    """``aten::sort.stable`` and ``aten.sort.stable`` are both ``aten.sort``."""
    return ".".join(op.replace("::", ".").split(".")[:2])


def _evaluated(code: CodeType, sizes: Sizes) -> int:
    return int(eval(code, {"__builtins__": {}, "round_up": round_up, "max": max}, sizes))


@cache
def _rows(torch_version: str) -> dict[str, tuple[Workspace, ...]]:
    """Rows by operator. The expressions are constants of this package."""
    version = _version(torch_version)
    table: dict[str, tuple[Workspace, ...]] = {}
    for row in json.loads(TABLE.read_text())["rows"]:
        first, last = map(_version, row["torch"])
        if first <= version <= last:
            table[row["op"]] = (*table.get(row["op"], ()), _row(row))
    return table


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split("+")[0].split(".")[:2])


def _row(row: dict[str, Any]) -> Workspace:
    code, high = (
        compile(row[key], f"<workspace of {row['op']}>", "eval") if row.get(key) else None
        for key in ("bytes", "high_bytes")
    )
    return Workspace(
        tensors=tuple((int(at), tuple(names.split())) for at, names in row["tensors"].items()),
        scalars=row.get("scalars", {}),
        needs=tuple(row.get("needs", ())),
        uses=row.get("uses", ""),
        code=code,
        high=high,
        why=row["why"],
    )


def _efficient_backward(sizes: Sizes) -> None:
    """Tiles that cutlassB runs with, and the workspace they need, as in the row's source.

    Of the kernels compiled for a card the smallest head size that holds the head wins, then the
    largest tile of queries whose shared memory fits.
    """
    capability = sizes["compute_capability"]
    major = int(capability.split(".")[0])
    head = max(sizes["head_dim"], sizes["value_dim"])
    half, large = sizes["item"] == 2, capability in LARGE_SHARED_MEMORY
    if half and 64 < head <= 96 and capability in ("8.6", "8.9"):
        limit, queries = 96, 128
    else:
        limit = next(size for size in (32, 64, 128, 1 << 16) if head <= size)
        queries = 128 if limit > 64 and large and (half or major >= 8) else 64
    in_registers = half and limit <= queries
    keys = 128 if in_registers and limit == 128 and major >= 8 else 64
    pairs = sizes["sequences"] * sizes["heads"]
    splits = ceil_div(sizes["key_tokens"], keys)
    if pairs >= 256 and sizes["key_tokens"] <= 2 * keys:
        splits = 1
    staged = half and not in_registers
    if staged:
        splits = min(splits, 200 // pairs)
    splits = max(splits, 1)
    tiles = ceil_div(sizes["tokens"], queries) * ceil_div(sizes["head_dim"], keys)
    elements = tiles * (queries * keys + 4)  # a lock and a counter lead every tile
    if staged:
        widths = round_up(sizes["head_dim"], queries) + round_up(sizes["value_dim"], queries)
        elements += splits * keys * widths
    sizes["workspace"] = 4 * pairs * round_up(elements, 4)


def _embedding(sizes: Sizes) -> None:
    tokens = sizes["idselements"]
    sizes["tokens"], sizes["hidden"] = tokens, sizes["gradlast"]
    sizes["segments"] = min(tokens, sizes["num_weights"])
    sizes["partial_segments"] = tokens // ROWS_PER_THREAD + sizes["segments"]


USES: dict[str, Callable[[Sizes], None]] = {
    "efficient backward tiles": _efficient_backward,
    "embedding rows": _embedding,
}
"""Rules too long for an expression."""
