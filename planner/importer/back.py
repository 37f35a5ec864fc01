"""The person's own files again, with another plan's values: those lines and no others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from planner.advice.suggestion import Suggestion
from planner.importer.edited import Addition, Change, diff, edited
from planner.importer.given import Place, UnreadableError
from planner.importer.imported import Imported, Importer, imported, importer_of
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
    again = imported(texts, found.answers).plan or found.plan
    for left in differences(dict(after), dict(again)):
        notes.append(
            f"{left.field} is {left.after} in these files and {left.before} in the plan: no "
            "setting of them says it."
        )
    return Back(texts=texts, plan=again, notes=tuple(notes))


def suggested(found: Imported, way: Suggestion | None) -> Back:
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
    assert found.launch is not None
    importer = importer_of(found.framework)
    given = {one.name: one for one in (*found.reading.understood, *found.reading.open)}
    for row in importer.rows(found.launch, found.files):
        old, new = _written(row, before), _written(row, after)
        if old == new:
            continue
        entry = given.get(row.name)
        if entry is not None and entry.place is None:
            notes.append(
                f"{row.name} is put together of several values, and none of them was changed: make "
                f"it {new}."
            )
        elif entry is not None and new is None:
            notes.append(f"{row.name} is no longer needed: take it out.")
        elif entry is not None:
            assert entry.place is not None
            yield Change(entry.place, _in_form(new, entry.place))
        elif new is not None:
            further = _further(found, importer, row, new)
            if further is None:
                notes.append(f"{row.name} has to be {new}, and none of these files can say it.")
            else:
                yield further


def _written(row: Setting, plan: Plan) -> Any:
    try:
        return row.write(plan) if row.write else None
    except ValueError:
        return None


STRUCTURED = ("yaml", "json", "python")


def _in_form(value: Any, place: Place) -> Any:
    """A value as its file's format has it; a shell has texts alone."""
    return value if place.forms and place.forms[0].startswith(STRUCTURED) else str(value)


def _further(found: Imported, importer: Importer, row: Setting, value: Any) -> Addition | None:
    """A setting that the files do not have yet: of a call, as an argument, in a configuration.

    A script's call takes it before the command does, whose words it may not read.
    """
    assert found.launch is not None
    program = found.launch.program
    there = {one.name for one in found.files.get(program, ())}
    for call, end in found.ends.get(program, {}).items():
        given = importer.words(row, value, call)
        if given and f"{call}.{given[0]}" not in there:
            return Addition(end, given)
    words = importer.words(row, value)
    calls = [*found.ends.get(program, ())]
    parsed = not calls or any(call.endswith("Parser") for call in calls)
    if words and parsed and found.launch.end is not None:
        return Addition(found.launch.end, words)
    ends = [ends[""] for ends in found.ends.values() if "" in ends]
    if found.launch.end is None and len(ends) == 1:
        return Addition(ends[0], (row.name, value))
    return None
