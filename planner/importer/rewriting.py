"""The person's own files again, with another plan's values: those lines and no others."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from planner.advice.suggestion import Suggestion
from planner.importer.edited import Addition, Change, diff, edited
from planner.importer.flags import OPTION
from planner.importer.given import Further, Place, UnreadableError
from planner.importer.imported import Imported, imported, importer_of
from planner.importer.reading import Entry
from planner.plan import Plan
from planner.plan.chosen import differences
from planner.plan.relevance import without_effect
from planner.units import read_listed
from planner.values.setting import Setting


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewritten:
    """Files that say another plan."""

    texts: Mapping[str, str]
    plan: Plan
    """What they say when they are imported again."""
    notes: tuple[str, ...] = ()
    """Sentences about what no line of them could be made to say."""


def rewritten(found: Imported, after: Plan) -> Rewritten:
    """The files of an import as another plan needs them.

    Args:
        found: an import that made a plan.
        after: the plan that the files are to say.
    """
    assert found.plan is not None
    if found.launch is None:  # a trial's record, which nothing makes another
        note = "None of these files starts a run, so that none of them is changed."
        return Rewritten(texts=found.texts, plan=found.plan, notes=(note,))
    writing = _Writing(found, after)
    try:
        texts = {**found.texts, **edited(found.texts, writing.changes())}
    except UnreadableError as error:
        return Rewritten(texts=found.texts, plan=found.plan, notes=(str(error),))
    again = imported(texts, found.answers)
    plan = again.plan or found.plan
    idle = without_effect(after)
    missing = [one.field for one in differences(dict(after), dict(plan)) if one.field not in idle]
    notes = [writing.said(field, after, plan) for field in missing]
    new = (one for one in again.left_out if one not in found.left_out)
    notes += [f"{name} {value}: {why}" for name, value, why in new]
    return Rewritten(texts=texts, plan=plan, notes=tuple(notes))


def suggested(found: Imported, way: Suggestion | None) -> Rewritten:
    """The files with a suggestion, such as the smallest change that makes the plan fit.

    Args:
        found: an import that made a plan.
        way: what advice found; None changes nothing.
    """
    assert found.plan is not None
    if way is None:
        return Rewritten(texts=found.texts, plan=found.plan)
    return rewritten(found, way.after.plan)


def patch(found: Imported, new: Rewritten) -> str:
    """What differs, as a unified diff."""
    return diff(found.texts, new.texts)


class _Writing:
    """The settings that another plan writes otherwise, and where each can be written."""

    def __init__(self, found: Imported, after: Plan) -> None:
        assert found.plan is not None and found.launch is not None
        self.found, self.launch = found, found.launch
        self.importer = importer_of(found.framework)
        reading = found.reading
        known = (*reading.understood, *reading.open, *reading.beyond)
        self.given = {one.name: one for one in known}
        rows = self.importer.rows(found.launch, found.files)
        self.wanted: dict[str, tuple[Setting, Any]] = {}
        self.idle: set[str] = set()
        """Settings that neither plan writes: their values do not matter."""
        for row in rows:
            old, new = _written(row, found.plan), _written(row, after)
            if new != old:
                self.wanted[row.name] = (row, new)
            elif new is None and row.write:
                self.idle.add(row.name)
        self.sharing: dict[Place, set[str]] = defaultdict(set)
        for one in (*known, *reading.no_effect, *reading.unknown):
            if one.place is not None:
                self.sharing[one.place].add(one.name)
        self.unwritten: list[tuple[Setting, Any]] = []

    def changes(self) -> Iterator[Change | Addition]:
        """A change of each literal that decides settings, and what is not there yet."""
        nested: dict[Place, dict[str, Any]] = {}
        for name, (row, new) in self.wanted.items():
            entry = self.given.get(name)
            if entry is None and new is None:
                continue
            value = row.default if new is None else new
            further = self.importer.further(row, value, self.launch, self.found.files)
            place = self._literal(entry, further)
            if entry is not None and place is not None and self._alone(place, value):
                for each in (place, *entry.copies):
                    yield Change(each, _in_form(row, value, each, further))
                continue
            end = self._end(further)
            if end is not None:
                yield Addition(end, further.words)
            elif not self._nest(nested, further, value):
                self.unwritten.append((row, value))
        for place, entries in nested.items():
            for key, value in entries.items():
                yield Addition(place, (key, value))

    def said(self, field: str, after: Plan, plan: Plan) -> str:
        """Why a field came out otherwise: the settings that no file could take."""
        left = [f"{row.name} {value}" for row, value in self.unwritten if field in row.fields]
        why = f"no file here can have {read_listed(left)}" if left else "no setting of them says it"
        return (
            f"{field} is {getattr(plan, field)} in these files and {getattr(after, field)} in the "
            f"plan: {why}."
        )

    def _literal(self, entry: Entry | None, further: Further) -> Place | None:
        """Where one value stands that can be replaced.

        None for an option without a value (``--bf16``), and in a command where the new value is
        several words: both are given again at its end, where the last word counts.
        """
        place = entry.place if entry is not None else None
        if place is None or (len(further.words) > 2 and not _structured(place)):
            return None
        written = self.found.texts.get(place.file, "")
        return None if OPTION.match(written[place.start : place.end]) else place

    def _alone(self, place: Place, value: Any) -> bool:
        """Whether no setting that rests on a literal is to have another value than this."""
        names = self.sharing[place] - self.idle
        wanted = [self.wanted.get(name) for name in names]
        same = all(one is not None and str(one[1]) == str(value) for one in wanted)
        return same or len(names) == 1

    def _end(self, further: Further) -> Place | None:
        """Where words of a command can be added; None where they can not."""
        if not further.words or not further.of_launcher:
            return self.launch.end if further.words else None
        _, options = self.launch.launchers[-1]
        first = options[0].written if options else None
        return first and Place(first.file, first.line, first.start, first.start, ("option",))

    def _nest(self, nested: dict[Place, dict[str, Any]], further: Further, value: Any) -> bool:
        """Put a setting of a file beside those of one mapping; False where no file can have it."""
        ends = self.found.ends.get(further.file, {})
        inside = max((name for name in ends if _within(further.path, name)), key=len, default=None)
        if inside is None or not further.path:
            return False
        *sections, last = further.path.removeprefix(inside).lstrip(".").split(".")
        part = nested.setdefault(ends[inside], {})
        for section in sections:
            part = part.setdefault(section, {})
        part[last] = value
        return True


def _structured(place: Place) -> bool:
    """Whether a file's format has values of more kinds than a shell's texts."""
    return bool(place.forms) and place.forms[0].startswith(("yaml", "json", "python"))


def _in_form(row: Setting, value: Any, place: Place, further: Further) -> Any:
    """A value as it is written at a place."""
    if _structured(place):
        return value
    return further.words[-1].rpartition(f"{row.name}=")[2] if further.words else str(value)


def _within(path: str, mapping: str) -> bool:
    return not mapping or path.startswith(f"{mapping}.")


def _written(row: Setting, plan: Plan) -> Any:
    try:
        return row.write(plan) if row.write else None
    except ValueError:
        return None

