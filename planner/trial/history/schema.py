"""The table of trials: a result in parts, and columns taken from it that a search can use.

Each part is JSON as :func:`planner.trial.ask.result.result_json` writes it, so that a row gives
back the result it was made of. Columns besides the parts are copies and are never read back.
"""

from __future__ import annotations

import json
from typing import Any

from sqlalchemy import Boolean, Column, Double, Index, MetaData, String, Table, Text

from planner.trial.ask.result import TrialResult, now, read_result, result_json

VERSION_TABLE = "headroom_schema"
REVISIONS = ("1", "2")
"""Versions of the schema, oldest first; the last is this release's."""

PARTS = {
    "plan": "plan",
    "prediction": "predicted",
    "estimate": "estimated",
    "measurement": "measured",
    "environment": "environment",
}
"""Columns that hold a part of a result, and the field it is; ``rest`` holds all others."""

metadata = MetaData()
trials = Table(
    "headroom_trials",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("created", String(20), nullable=False),
    Column("added", String(20), nullable=False),
    Column("status", String(40), nullable=False),
    Column("method", String(40), nullable=False),
    Column("model", String(300), nullable=False),
    Column("device_kind", String(20), nullable=False),
    Column("device_name", String(500), nullable=False),
    Column("gpu", String(64), nullable=False),
    Column("torch_version", String(500), nullable=False),
    Column("transformers_version", String(500), nullable=False),
    Column("censored", Boolean, nullable=False),
    Column("seconds", Double, nullable=False),
    Column("plan", Text, nullable=False),
    Column("prediction", Text, nullable=False),
    Column("estimate", Text, nullable=False),
    Column("measurement", Text, nullable=False),
    Column("environment", Text, nullable=False),
    Column("rest", Text, nullable=False),
)
SEARCHED = (
    *("created", "status", "method", "model", "device_kind", "device_name", "gpu"),
    *("torch_version", "transformers_version"),
)
for _name in SEARCHED:
    Index(f"headroom_trials_{_name}", trials.c[_name])


def row_of(result: TrialResult) -> dict[str, Any]:
    """The row that a result becomes."""
    data = json.loads(result_json(result))
    parts = {column: data.pop(field) for column, field in PARTS.items()}
    plan = result.planned()
    return {
        "id": result.id,
        "created": result.created,
        "added": now(),
        "status": result.status,
        "method": plan.method,
        "model": plan.model,
        "device_kind": result.device.kind,
        "device_name": result.device.name,
        "gpu": result.device.gpu,
        **versions_of(parts["environment"]),
        "censored": result.censored,
        "seconds": result.seconds,
        "plan": parts.pop("plan"),
        **{column: _text(value) for column, value in parts.items()},
        "rest": _text(data),
    }


def versions_of(environment: Any) -> dict[str, str]:
    """Columns of library versions; empty where a trial ended before it knew them."""
    found = (environment or {}).get("versions", {})
    return {f"{name}_version": str(found.get(name, "")) for name in ("torch", "transformers")}


def result_of(row: Any) -> TrialResult:
    """The result that a row was made of.

    Raises:
        ValueError: when somebody has written something else into the row, naming the field.
    """
    rest = json.loads(row.rest)
    if not isinstance(rest, dict):
        raise ValueError("rest: it is no JSON object.")
    data = {**rest, "plan": row.plan}
    for column, field in PARTS.items():
        if column != "plan":
            data[field] = json.loads(getattr(row, column))
    return read_result(json.dumps(data))


def _text(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), allow_nan=False)
