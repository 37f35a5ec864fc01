"""Start-up logs of vLLM engines, from rows.json: figures and settings, no text.

Each log says, on one GPU of the engine: weights, memory outside PyTorch, the activation peak of the
profile run, the KV cache that the share leaves beside those, and what capturing graphs took.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("rows.json")


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One engine's log; sizes in GiB, as it prints them to two digits."""

    id: str
    log: str
    commit: str
    model: str
    dtype: str
    tp: int
    pp: int
    gpu_memory_utilization: float
    max_model_len: int
    max_num_batched_tokens: int
    weights_gib: float
    non_torch_gib: float
    activation_peak_gib: float
    kv_gib: float
    graphs_gib: float
    confidence: str
    card_gib: float


@cache
def file() -> Mapping[str, Any]:
    """The whole file: repository, folder, licence, engine, card, rows."""
    found: Mapping[str, Any] = json.loads(FILE.read_text("utf-8"))
    return found


@cache
def rows() -> tuple[Row, ...]:
    """Every log, in the file's order."""
    names = {each.name for each in fields(Row)}
    assert all(row.keys() == names for row in file()["rows"])
    return tuple(Row(**row) for row in file()["rows"])
