"""The table of trials: a result in parts, and columns taken from it that a search can use.

Each part is JSON as :func:`planner.trial.ask.result.result_json` writes it, so that a row gives
back the result it was made of. Columns besides the parts are copies and are never read back.
"""

from __future__ import annotations

import json
from typing import Any

from sqlalchemy import Boolean, Column, Double, Index, MetaData, String, Table, Text

from planner.plan.pin import NAME_CHARACTERS
from planner.trial.ask.result import TrialResult, now, read_result, result_json

VERSION_TABLE = "headroom_schema"
REVISIONS = ("1", "2", "3")
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
SEARCHED = {
    **{"created": 20, "status": 40, "method": 40, "model": 300},
    **{"device_kind": 20, "device_name": 500, "gpu": 64},
    **{"torch_version": 500, "transformers_version": 500},
}
"""Columns of text that a search uses, each with an index, and their longest text."""
trials = Table(
    "headroom_trials",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("added", String(20), nullable=False),
    *(Column(name, String(length), nullable=False) for name, length in SEARCHED.items()),
    Column("censored", Boolean, nullable=False),
    Column("seconds", Double, nullable=False),
    *(Column(name, Text, nullable=False) for name in (*PARTS, "rest")),
)
plans = Table(
    "headroom_plans",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("created", String(20), nullable=False),
    Column("name", String(NAME_CHARACTERS), nullable=False),
    Column("link", Text, nullable=False),
)
"""Plans that somebody named and kept, each as its complete link."""
for _name in SEARCHED:
    Index(f"headroom_trials_{_name}", trials.c[_name])


def summary_of(result: TrialResult) -> dict[str, Any]:
    """A trial's line in a list: what a search can use, and how long it took."""
    plan = result.planned()
    return {
        "id": result.id,
        "created": result.created,
        "status": result.status,
        "method": plan.method,
        "model": plan.model,
        "device_kind": result.device.kind,
        "device_name": result.device.name,
        "gpu": result.device.gpu,
        "torch_version": result.versions.get("torch", ""),
        "transformers_version": result.versions.get("transformers", ""),
        "censored": result.censored,
        "seconds": result.seconds,
    }


def row_of(result: TrialResult) -> dict[str, Any]:
    """The row that a result becomes."""
    data = json.loads(result_json(result))
    parts = {column: _text(data.pop(field)) for column, field in PARTS.items()}
    own = {"added": now(), "plan": result.plan, "rest": _text(data)}
    return {**summary_of(result), **parts, **own}


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
