"""The person's own files again, with another plan's values: those lines and no others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from planner.advice.suggestion import Suggestion
from planner.importer.edited import Addition, Change, diff, edited
from planner.importer.given import Place, UnreadableError
from planner.importer.imported import Imported, imported, importer_of
from planner.importer.reading import Entry
from planner.plan import Plan
from planner.plan.chosen import differences
from planner.values.setting import Setting


@dataclass(frozen=True, slots=True, kw_only=True)
class Back:
    """Files that say another plan."""

    texts: Mapping[str, str]
    plan: Plan
    """What they say when they are imported again."""
    notes: tuple[str, ...] = ()
    """Sentences about what no line of them could be made to say."""


def rewritten(found: Imported, after: Plan) -> Back:
    """The files of an import as another plan needs them.

    Args:
        found: an import that made a plan.
        after: the plan that the files are to say.
    """
    assert found.plan is not None
    notes: list[str] = []
    changes = [*_changes(found, found.plan, after, notes)]
    try:
        texts = {**found.texts, **edited(found.texts, changes)}
    except UnreadableError as error:
        return Back(texts=found.texts, plan=found.plan, notes=(*notes, str(error)))
    again = imported(texts).plan or found.plan
    for left in differences(dict(after), dict(again)):
        notes.append(
            f"{left.field} is {left.after} in these files and {left.before} in the plan: no "
            "setting of them says it."
        )
    return Back(texts=texts, plan=again, notes=tuple(notes))


def fitting(found: Imported, way: Suggestion | None) -> Back:
    """The files with a suggestion, such as the smallest change that makes the plan fit.

    Args:
        found: an import that made a plan.
        way: what advice found; None changes nothing.
    """
    assert found.plan is not None
    if way is None:
        return Back(texts=found.texts, plan=found.plan)
    return rewritten(found, way.after.plan)


def patch(found: Imported, back: Back) -> str:
    """What differs, as a unified diff."""
    return diff(found.texts, back.texts)


def _changes(
    found: Imported, before: Plan, after: Plan, notes: list[str]
) -> Iterator[Change | Addition]:
    importer = importer_of(found.framework)
    given = {one.name: one for one in (*found.reading.understood, *found.reading.open)}
    for row in importer.rows(after):
        if row.write is None:
            continue
        old, new = _written(row, before), _written(row, after)
        if old == new:
            continue
        entry = given.get(row.name)
        if entry is not None and entry.place is None:
            notes.append(
                f"{row.name} is put together of several values, which are left as they are: make "
                f"it {new}."
            )
        elif entry is not None and new is None:
            notes.append(f"{row.name} is no longer needed: take its line out.")
        elif entry is not None:
            yield Change(_place(entry), importer.written(row, new, _place(entry)))
        elif new is not None:
            yield from importer.added(found.launch, row, new)


def _written(row: Setting, plan: Plan) -> Any:
    try:
        return row.write(plan) if row.write else None
    except ValueError:
        return None


def _place(entry: Entry) -> Place:
    assert entry.place is not None
    return replace(entry.place)
