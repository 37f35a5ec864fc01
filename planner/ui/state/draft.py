"""What stands in the inputs: every field's value, whether or not they make a possible plan.

A person may type what cannot be; the draft keeps it, says why, and has no plan until it
is mended. Fields that nobody chose follow the ones that were chosen (a framework's or a
method's defaults), and the draft says which did. Imports no Streamlit.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from planner.plan import FIELDS, Plan, try_plan
from planner.plan.chosen import Change, chosen_fields, completed, differences, followed
from planner.plan.fieldtext import to_text
from planner.plan.migrations import VERSION
from planner.plan.presets import Preset, nearest, presets
from planner.plan.query import CHOSEN, to_chosen
from planner.plan.switch import LEADING
from planner.problem import Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """Every field's value, the preset it started from, and the plan they make if any.

    ``chosen`` are the fields that somebody set; the others follow them. ``edited`` are the fields
    that the last edit set, ``followed`` what changed besides, and ``before`` the draft that it
    was made on.
    """

    values: Mapping[str, Any]
    chosen: Mapping[str, Any]
    preset: str
    plan: Plan | None
    problems: tuple[Problem, ...] = ()
    edited: tuple[Change, ...] = ()
    followed: tuple[Change, ...] = ()
    before: Draft | None = None

    @property
    def base(self) -> Preset:
        """The preset that "changed" is counted from."""
        return presets()[self.preset]

    def changed(self) -> tuple[str, ...]:
        """Fields that differ from the preset, in the order of the plan."""
        return tuple(one.field for one in differences(dict(self.base.plan), self.values))


def of_plan(plan: Plan, preset: str = "", chosen: Collection[str] | None = None) -> Draft:
    """The draft of a plan; without a preset it is compared with the nearest one.

    Where nobody says which fields were ``chosen``, those are that the others do not imply.
    """
    known = preset if preset in presets() else nearest(plan).key
    values = plan.model_dump()
    kept = chosen_fields(values) if chosen is None else {name: values[name] for name in chosen}
    return Draft(values=values, chosen=kept, preset=known, plan=plan)


def arrived(
    plan: Plan, before: Plan, preset: str = "", chosen: Collection[str] | None = None
) -> Draft:
    """The draft of a link that names another method or framework than the one it was written for.

    As if that had been chosen on the page, where ``before`` was.
    """
    new, old = of_plan(plan, preset, chosen), of_plan(before, preset, chosen)
    every = differences(old.values, new.values)
    led = tuple(change for change in every if change.field in LEADING)
    besides = tuple(change for change in every if change.field not in LEADING)
    return replace(new, edited=led, followed=besides, before=old)


def unplanned(draft: Draft, given: Mapping[str, Any]) -> Draft:
    """The draft of fields that make no plan yet, the others as they imply; its preset stays."""
    return _with(replace(draft, chosen={}), completed(given), given)


def replaced(draft: Draft, changes: Mapping[str, Any]) -> Draft:
    """The draft with exactly these changes; nothing follows."""
    values = {**draft.values, **changes}
    implied = completed({**draft.chosen, **changes})
    kept = {name: values[name] for name in FIELDS if implied[name] != values[name]}
    return _with(draft, values, {**changes, **kept})


def restored(draft: Draft, field: str) -> Draft:
    """The draft with one field as its preset has it, and what follows; nobody's choice any more."""
    value = draft.base.plan.model_dump()[field]
    new = edited(draft, {field: value})
    left = {name: each for name, each in new.chosen.items() if name != field}
    return replace(new, chosen=left) if completed(left)[field] == value else new


def edited(draft: Draft, changes: Mapping[str, Any]) -> Draft:
    """The draft after a person set these fields; fields nobody set follow their defaults."""
    after = followed(draft.values, draft.chosen, changes)
    new = _with(draft, after, changes)
    every = differences(draft.values, after)
    besides = tuple(change for change in every if change.field not in changes)
    return replace(
        new,
        edited=tuple(change for change in every if change.field in changes),
        followed=besides,
        before=replace(draft, before=None),
    )


def offered(draft: Draft) -> Draft | None:
    """What the last edit of method or framework would be, if the others followed it.

    In an old link every field was chosen, so nothing follows by itself. What was chosen and is no
    more than usual would. None where nothing more would follow, or no possible plan comes of it.
    """
    before, changes = draft.before, {one.field: one.after for one in draft.edited}
    if before is None or LEADING.isdisjoint(changes):
        return None
    unusual = chosen_fields(before.values)
    kept = {name: value for name, value in before.chosen.items() if name in unusual}
    loose = replace(before, chosen=kept)
    other = edited(loose, changes)
    return other if other.plan is not None and other.values != draft.values else None


def _with(draft: Draft, values: Mapping[str, Any], chosen: Mapping[str, Any]) -> Draft:
    plan, problems = try_plan(values)
    return Draft(
        values=values,
        chosen={**draft.chosen, **chosen},
        preset=draft.preset,
        plan=plan,
        problems=problems,
    )


def query(draft: Draft) -> dict[str, str]:
    """The complete query of a draft, possible or not."""
    texts = {name: to_text(draft.values[name]) for name in FIELDS}
    head = {"v": str(VERSION), "preset": draft.preset, CHOSEN: to_chosen(draft.chosen)}
    return {**head, **texts}
