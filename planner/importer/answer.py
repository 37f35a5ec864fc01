"""An import as JSON, for programs."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

from planner.importer.imported import Imported
from planner.importer.memory_errors import Message
from planner.importer.reading import Entry
from planner.plan.migrations import VERSION


def as_json(found: Imported) -> dict[str, Any]:
    """What ``planner import --json`` prints."""
    reading = found.reading
    lists = {
        name: [_entry(one) for one in getattr(reading, name)]
        for name in ("understood", "from_defaults", "no_effect", "open", "unknown", "beyond")
    }
    return {
        "v": VERSION,
        "framework": found.framework or found.trainer,
        "plan": dict(reading.plan),
        "complete": None if found.plan is None else found.plan.model_dump(),
        **lists,
        "asks": list(found.asks),
        "problems": [problem.sentence for problem in found.problems],
        "notes": list(found.notes),
        "messages": [_message(one) for one in found.errors],
        "measured": [asdict(replace(one, record="")) for one in found.logs],
    }


def _entry(one: Entry) -> dict[str, Any]:
    told: dict[str, Any] = {"name": one.name, "value": one.value, "fields": list(one.fields)}
    if one.place:
        told |= {"file": one.place.file, "line": one.place.line}
    if one.why:
        told["why"] = one.why
    if one.opens:
        told["rests_on"] = [{"name": each.name, "default": each.default} for each in one.opens]
    return told


def _message(one: Message) -> dict[str, Any]:
    return {
        "form": one.form,
        "cause": one.cause,
        "text": one.text,
        "lines": [one.first_line, one.last_line],
        "gpu": one.gpu,
        "bytes": {name: [size.low, size.high] for name, size in one.sizes.items()},
        "said": dict(one.said),
    }
