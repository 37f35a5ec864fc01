"""Variables of the shell that a plan has, below ``environment.``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from planner.launch.huggingface.resolved import Values
from planner.launch.huggingface.table import row
from planner.values.setting import Setting

SOURCE = "torch 2.13.0, docs: CUDA semantics, memory management"


def _allocator(value: str, values: Values) -> Mapping[str, Any]:
    """``expandable_segments:True``, alone or not at all."""
    said = dict(part.partition(":")[::2] for part in str(value).lower().split(",") if part)
    expands = said.pop("expandable_segments", "false") == "true"
    if said:
        raise ValueError(f"No plan has the allocator's {', '.join(said)}.")
    return {"expandable_segments": expands} if value else {}


def variable(name: str, source: str, *fields: str, read: Any = None) -> Setting:
    """A row of a variable, which moves memory."""
    return row(source, f"environment.{name}", "", *fields, moves="memory", read=read)


ALLOCATOR: tuple[Setting, ...] = tuple(
    variable(name, SOURCE, "expandable_segments", read=_allocator)
    for name in ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF")
)
"""The caching allocator's, by either of its names."""
