"""Which fields somebody chose, and how the others follow them.

A plan says every field; a person set a few. The rest are what the method, the framework and the
number of GPUs make usual, and follow when those change. Where nobody knows what was chosen,
:func:`chosen_fields` takes the fewest that give all the values again.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from planner.plan.defaults import fill
from planner.plan.plan import FIELDS, Plan

DEFAULTS: Mapping[str, Any] = {name: info.default for name, info in Plan.model_fields.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A field that went from one value to another."""

    field: str
    before: Any
    after: Any


def completed(chosen: Mapping[str, Any]) -> dict[str, Any]:
    """Every field: the chosen ones, and what they make usual."""
    return {**DEFAULTS, **fill(chosen)}


def chosen_fields(values: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that the others do not imply: as few as give all the values again.

    A field is taken out whenever the rest still implies the same values, so a value equal
    to its usual one counts as nobody's choice and may follow the next edit.
    """
    chosen = dict(values)
    for name in FIELDS:
        without = {key: value for key, value in chosen.items() if key != name}
        if completed(without) == values:
            chosen = without
    return chosen


def followed(
    values: Mapping[str, Any], chosen: Collection[str], changes: Mapping[str, Any]
) -> dict[str, Any]:
    """Every field after these changes: what nobody chose goes along where its usual value does.

    Only a usual value that the changes move is followed, so a plan that was made under other
    defaults keeps what the changes do not touch.
    """
    if "framework" in changes:
        # A version of one framework is none of another's.
        chosen = [name for name in chosen if name != "framework_version"]
    kept = {name: values[name] for name in chosen if name not in changes}
    before = completed(kept | {name: values[name] for name in changes})
    after = completed(kept | dict(changes))
    moved = {
        name: after[name]
        for name in FIELDS
        if name not in chosen and name not in changes and after[name] != before[name]
    }
    return {**values, **moved, **changes}


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[Change, ...]:
    """What differs, in the order of the plan's fields."""
    return tuple(
        Change(field=name, before=before[name], after=after[name])
        for name in FIELDS
        if before[name] != after[name]
    )
