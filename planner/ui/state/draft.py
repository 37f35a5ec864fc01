"""What stands in the inputs: every field's value, whether or not they make a possible plan.

A person may type what cannot be; the draft keeps it, says why, and has no plan until it
is mended. Fields that nobody chose follow the ones that were chosen (a framework's or a
method's defaults), and the draft says which did. Imports no Streamlit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from planner.plan import FIELDS, Plan, try_plan
from planner.plan.defaults import fill
from planner.plan.fieldtext import to_text
from planner.plan.migrations import VERSION
from planner.plan.presets import Preset, nearest, presets
from planner.problem import Problem

DEFAULTS: Mapping[str, Any] = {name: info.default for name, info in Plan.model_fields.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A field that went from one value to another."""

    field: str
    before: Any
    after: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """Every field's value, the preset it started from, and the plan they make if any.

    ``chosen`` are the fields that somebody set; the others follow them. ``followed`` are
    fields that the last edit changed besides the edited one.
    """

    values: Mapping[str, Any]
    chosen: Mapping[str, Any]
    preset: str
    plan: Plan | None
    problems: tuple[Problem, ...] = ()
    followed: tuple[Change, ...] = ()

    @property
    def base(self) -> Preset:
        """The preset that "changed" is counted from."""
        return presets()[self.preset]

    def changed(self) -> tuple[str, ...]:
        """Fields that differ from the preset, in the order of the plan."""
        base = self.base.plan
        return tuple(name for name in FIELDS if self.values[name] != getattr(base, name))


def of_plan(plan: Plan, preset: str = "") -> Draft:
    """The draft of a plan; without a preset it is compared with the nearest one."""
    known = preset if preset in presets() else nearest(plan).key
    values = plan.model_dump()
    return Draft(values=values, chosen=chosen_fields(values), preset=known, plan=plan)


def replaced(draft: Draft, changes: Mapping[str, Any]) -> Draft:
    """The draft with exactly these changes; nothing follows."""
    values = {**draft.values, **changes}
    implied = completed({**draft.chosen, **changes})
    kept = {name: values[name] for name in FIELDS if implied[name] != values[name]}
    return _with(draft, values, {**changes, **kept})


def edited(draft: Draft, changes: Mapping[str, Any]) -> Draft:
    """The draft after a person set these fields; fields nobody set follow their defaults."""
    after = completed({**draft.chosen, **changes})
    followed = tuple(
        Change(field=name, before=draft.values[name], after=after[name])
        for name in FIELDS
        if name not in changes and after[name] != draft.values[name]
    )
    return _with(draft, after, changes, followed)


def _with(
    draft: Draft,
    values: Mapping[str, Any],
    chosen: Mapping[str, Any],
    followed: tuple[Change, ...] = (),
) -> Draft:
    plan, problems = try_plan(values)
    return Draft(
        values=values,
        chosen={**draft.chosen, **chosen},
        preset=draft.preset,
        plan=plan,
        problems=problems,
        followed=followed,
    )


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


def query(draft: Draft) -> dict[str, str]:
    """The complete query of a draft, possible or not."""
    texts = {name: to_text(draft.values[name]) for name in FIELDS}
    return {"v": str(VERSION), "preset": draft.preset, **texts}
