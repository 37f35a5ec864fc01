"""Plan to link and back: what a teammate opens is what was meant, today and in years.

A complete link has ``v`` and every field. A short one has ``v``, the fields that differ and, last,
a frozen preset, so that one that was cut off lacks it and says so. ``set`` names the fields that a
person chose; the others follow when the method or the framework changes. Where a complete link has
none, all are chosen. Either may carry ``calibration`` beside them, correction factors that someone
chose to apply, and ``benchmark``, shares of the card's peaks that someone measured; they are no
part of the plan. Reading never raises for what a link holds: whatever is wrong comes back as a
:class:`~planner.problem.Problem`, and the rest is used.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import parse_qs, urlencode

from planner.frameworks import frameworks
from planner.frameworks.framework import Framework
from planner.methods import aliases, method_of
from planner.plan import FIELDS, Plan, remedy, try_plan
from planner.plan.chosen import Change, chosen_fields, completed, differences, followed
from planner.plan.factors import Factors, factors_from_text, factors_to_text
from planner.plan.fieldtext import KINDS, from_text, to_text
from planner.plan.migrations import ADDED, FIRST_VERSION, VERSION, migrate
from planner.plan.presets import nearest, presets
from planner.problem import Problem, best
from planner.speeds import Speeds, speeds_from_text, speeds_to_text

MAX_CHARACTERS = 64 * 1024
MAX_KEYS = 200
Beside = TypeVar("Beside", Factors, Speeds)
CHOSEN = "set"
"""Key of the fields that a person chose; not a field of a plan."""
CALIBRATION = "calibration"
"""Key of the correction factors; not a field of a plan."""
BENCHMARK = "benchmark"
"""Key of the shares that a benchmark measured; not a field of a plan."""
LINK = "link"
"""In place of a field, of problems that are of the link as a whole."""
PIN = "pin"
"""Key of a plan that is kept for comparing, once for each; see :mod:`planner.plan.pin`."""
WISH = "wish"
"""Key of what a search was asked for; see :mod:`planner.search.wish`."""
SHOWN = ("compare", "peak", PIN, WISH)
"""Keys of what a page shows beside its plan: none of them is the plan's, and nothing is wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Switch:
    """What followed another method or framework that a link names in place of its own.

    ``before`` is the plan without it, ``note`` says each setting, old → new.
    """

    before: Plan
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What a link, a file or an address bar turned out to say.

    ``plan`` is None only when nothing usable is left. ``problems`` are what is wrong,
    ``notes`` what a reader should know though nothing is (``told`` those of them that a page shows
    too), ``unknown`` the keys that are no field, ``preset`` the released preset it builds on (empty
    when none), ``chosen`` the fields that a person set, ``calibration`` the correction factors and
    ``benchmark`` the measured shares that travel with the plan. ``switch`` is what followed another
    method or framework; its note is among ``told``.
    """

    plan: Plan | None
    problems: tuple[Problem, ...] = ()
    notes: tuple[str, ...] = ()
    told: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    preset: str = ""
    chosen: frozenset[str] = frozenset()
    calibration: Factors | None = None
    benchmark: Speeds | None = None
    switch: Switch | None = None


def fields_of(version: int) -> tuple[str, ...]:
    """Fields that a complete link of this version has, in the order of today's."""
    return tuple(field for field in FIELDS if ADDED.get(field, FIRST_VERSION) <= version)


def to_query(
    plan: Plan,
    preset: str = "",
    chosen: Collection[str] | None = None,
    calibration: Factors | None = None,
    benchmark: Speeds | None = None,
) -> dict[str, str]:
    """Every field, in canonical text. ``preset`` only remembers where the plan came from."""
    fields = {field: to_text(getattr(plan, field)) for field in FIELDS}
    return {**_head(preset, chosen), **fields, **_tail(calibration, benchmark)}


def to_short_query(
    plan: Plan, calibration: Factors | None = None, benchmark: Speeds | None = None
) -> dict[str, str]:
    """The nearest preset and the fields that differ from it."""
    preset = nearest(plan)
    changed = differences(dict(preset.plan), dict(plan))
    fields = {change.field: to_text(change.after) for change in changed}
    tail = _tail(calibration, benchmark)
    return {**_head(), **fields, **tail, "preset": preset.key}


def to_query_string(
    plan: Plan,
    *,
    short: bool = False,
    calibration: Factors | None = None,
    benchmark: Speeds | None = None,
) -> str:
    """The link's part after the question mark."""
    if short:
        return urlencode(to_short_query(plan, calibration, benchmark))
    return urlencode(to_query(plan, calibration=calibration, benchmark=benchmark))


def _head(preset: str = "", chosen: Collection[str] | None = None) -> dict[str, str]:
    named = {} if chosen is None else {CHOSEN: to_chosen(chosen)}
    return {"v": str(VERSION), **({"preset": preset} if preset else {}), **named}


def to_chosen(chosen: Collection[str]) -> str:
    """The names of chosen fields as a link has them."""
    return ",".join(field for field in FIELDS if field in chosen)


def _tail(calibration: Factors | None, benchmark: Speeds | None) -> dict[str, str]:
    found: dict[str, str] = {}
    if calibration is not None:
        found[CALIBRATION] = factors_to_text(calibration)
    if benchmark is not None:
        found[BENCHMARK] = speeds_to_text(benchmark)
    return found


def from_query_string(text: str) -> Reading:
    """Reads a query string or a whole link; never raises for what it holds."""
    query = text.strip().partition("#")[0]
    if "?" in query:
        query = query.partition("?")[2]
    if len(query) > MAX_CHARACTERS or query.count("&") >= MAX_KEYS:
        return _refused(_too_large())
    return from_query(parse_qs(query, keep_blank_values=True), ignore=SHOWN)


def from_query(
    query: Mapping[str, str | Sequence[str]], *, ignore: Collection[str] = ()
) -> Reading:
    """Reads a query's keys and values; those in ``ignore`` belong to somebody else."""
    single: dict[str, Any] = {}
    doubled: list[Problem] = []
    kept = {key: value for key, value in query.items() if key not in ignore}
    texts = {key: [value] if isinstance(value, str) else list(value) for key, value in kept.items()}
    size = sum(len(key) + sum(map(len, values)) + len(values) for key, values in texts.items())
    if size > MAX_CHARACTERS or sum(map(len, texts.values())) > MAX_KEYS:
        return _refused(_too_large())
    for key, values in texts.items():
        if len(values) > 1 and not values[-1]:
            values.pop()  # a link that was cut off in a name that begins like this one
        if not values:
            continue
        if len(values) > 1:
            doubled.append(
                Problem(
                    _name(key),
                    f"{_name(key)} is given {len(values)} times; the last one is used.",
                    "Give it once.",
                )
            )
        single[key] = values[-1]
    return from_values(single, problems=tuple(doubled))


def from_values(given: Mapping[str, Any], *, problems: tuple[Problem, ...] = ()) -> Reading:
    """Reads fields given as their own types or as text.

    ``v``, ``preset``, ``calibration`` and ``benchmark`` may be among them.
    """
    found = list(problems)
    beside = ("v", "preset", CHOSEN, CALIBRATION, BENCHMARK)
    fields = {key: value for key, value in given.items() if key not in beside}
    try:
        version = _version(given.get("v", FIRST_VERSION))
        fields = migrate(fields, version)
    except ValueError as error:
        fix = "Copy the link again, or open it with a newer Headroom."
        return _refused(*found, Problem("v", str(error), fix))
    unknown = tuple(key for key in fields if key not in KINDS)
    found.extend(_unknown_problem(key) for key in unknown)
    values: dict[str, Any] = {}
    for field in FIELDS:
        if field not in fields:
            continue
        try:
            value = fields[field]
            values[field] = from_text(field, value) if isinstance(value, str) else value
        except ValueError as error:
            found.append(_bad_text(field, fields[field], error))
    preset, base, preset_problems = _base(given.get("preset", ""))
    found.extend(preset_problems)
    known = {**base, **values}
    chosen, bad = _chosen(given.get(CHOSEN), known, values)
    found.extend(bad)
    cut = _cut_off(values, version, named={"v", CHOSEN} <= given.keys())
    if cut:
        # The last key may be the half of a field's name.
        halves = [key for key in unknown if any(field.startswith(key) for field in FIELDS)]
        found = [*cut, *(problem for problem in found if problem.field not in halves)]
    written = {**base, **values} if "v" in given else values
    run, before, refused = _switched(
        values, written, chosen if CHOSEN in given else None, fields_of(version)
    )
    found.extend(refused)
    plan, dropped, alone = _best_plan(run, base)
    found.extend(dropped)
    switch = _switch(plan, alone if before is None else try_plan(before)[0])
    calibration, bad = _beside(given, CALIBRATION, factors_from_text, "nothing is corrected")
    found.extend(bad)
    benchmark, bad = _beside(given, BENCHMARK, speeds_from_text, "nothing of it is used")
    found.extend(bad)
    switched = () if switch is None else (switch.note,)
    told = (*_renamed(given.get("method"), plan, version), *switched)
    left_out = () if cut or plan is None else _left_out(known, version)
    return Reading(
        plan=plan,
        problems=tuple(found),
        notes=(*told, *_filled(left_out)),
        told=(*told, *_lacking(left_out, version)) if "v" in given else told,
        unknown=tuple(map(_short, unknown)),
        preset=preset,
        chosen=chosen,
        calibration=calibration,
        benchmark=benchmark,
        switch=switch,
    )


def _beside(
    given: Mapping[str, Any], key: str, read: Callable[[str], Beside], then: str
) -> tuple[Beside | None, list[Problem]]:
    """What travels beside the plan; nothing in its place where the text is wrong in any part."""
    value = given.get(key, "")
    if value == "":
        return None, []
    try:
        if not isinstance(value, str):
            raise ValueError("is no text")
        return read(value), []
    except ValueError as error:
        fix = "Copy the link again, or leave it out."
        return None, [Problem(key, f"{key} {error}; {then}.", fix)]


PREFIX = 3
"""So many of the first fields in a row, and no more, are nobody's own words."""


def _cut_off(values: Mapping[str, Any], version: int, *, named: bool) -> tuple[Problem, ...]:
    """A problem where a complete link has lost its end, and so what it says of the last fields.

    Only a complete link says which fields were chosen (``named``), or gives the first ones in a
    row.
    """
    every = fields_of(version)
    missing = [field for field in every if field not in values]
    first = len(values) >= PREFIX and tuple(values) == every[: len(values)]
    if not missing or not (named or first):
        return ()
    sentence = (
        f"The link was cut off: {len(missing)} of its {len(every)} fields are missing, from "
        f"{missing[0]} to {missing[-1]}, and are as usual here."
    )
    return (Problem(LINK, sentence, "Copy it again, to its end."),)


def _switched(
    values: Mapping[str, Any],
    written: Mapping[str, Any],
    chosen: Collection[str] | None,
    every: Collection[str],
) -> tuple[Mapping[str, Any], Mapping[str, Any] | None, tuple[Problem, ...]]:
    """A copied link in which somebody wrote another framework only, as if chosen on the page.

    What was ``written`` has ``every`` field of its version, and the version of the framework that
    it was written for. What nobody chose follows; the values before it come second, where they are
    others. Where that is no plan they stay.
    """
    new = frameworks().get(str(values.get("framework")))
    version = values.get("framework_version")
    owners = [each for each in frameworks().values() if version in each.versions]
    if new is None or new in owners or not owners or not written.keys() >= set(every):
        return values, None, ()
    before = completed({**written, "framework": owners[0].name})
    kept = chosen_fields(before) if chosen is None else chosen
    after = followed(before, kept, {"framework": new.name})
    plan, problems = try_plan(after)
    return (before, None, problems) if plan is None else (after, before, ())


def _switch(plan: Plan | None, before: Plan | None) -> Switch | None:
    """What followed, where there are plans on both sides of another method or framework."""
    if plan is None or before is None or plan == before:
        return None
    changes = differences(dict(before), dict(plan))
    named = [getattr(of(plan), words) for of, words in NAMES if of(plan) != of(before)]
    instead = [getattr(of(before), words) for of, words in NAMES if of(plan) != of(before)]
    listed = ", ".join(f"{c.field} {c.before} → {c.after}" for c in changes if _follows(c))
    follow = f": what nobody chose follows it ({listed})" if listed else ""
    led = f"The link names {' and '.join(named)} in place of {' and '.join(instead)}"
    return Switch(before=before, note=f"{led}{follow}.") if named else None


def _follows(change: Change) -> bool:
    return change.field not in (*LEADING, "framework_version")  # of another one never news


def _framework_of(plan: Plan) -> Framework:
    return frameworks()[plan.framework]


NAMES = ((method_of, "title"), (_framework_of, "label"))
"""What leads, and its attribute that people call it by."""


def _best_plan(
    values: Mapping[str, Any], base: Mapping[str, Any]
) -> tuple[Plan | None, list[Problem], Plan | None]:
    """The plan of these values over the base; values that break it are dropped and reported.

    Third, where what nobody chose followed another method or framework: the plan without it.
    """
    if not base or LEADING.isdisjoint(values):
        return *best(values, lambda left: try_plan({**base, **left})), None
    plan, _ = try_plan({**base, **values})
    if plan is not None:
        return plan, [], None
    # What nobody chose in the preset follows another method or framework.
    chosen = chosen_fields(base)
    plan, dropped = best(values, lambda left: try_plan(followed(base, chosen, left)))
    kept = {name: value for name, value in values.items() if name not in LEADING}
    return plan, dropped, try_plan({**base, **kept})[0]


LEADING = frozenset(("method", "framework"))
"""Fields that decide what is usual for most others."""


def _chosen(
    text: Any, known: Mapping[str, Any], given: Mapping[str, Any]
) -> tuple[frozenset[str], list[Problem]]:
    """The fields that a person chose: those that a link names, else those that it gives."""
    if text is None:
        return frozenset(given), []
    names = [name.strip() for name in text.split(",")] if isinstance(text, str) else []
    strange = [name for name in names if name and name not in known]
    if strange or not isinstance(text, str):
        named = _short(", ".join(strange)) or _short(text)
        sentence = f"{CHOSEN} names {named}, which the link does not give."
        fix = "Copy the link again, or leave it out."
        return frozenset(given), [Problem(CHOSEN, sentence, fix)]
    return frozenset(name for name in names if name), []


def _base(key: Any) -> tuple[str, Mapping[str, Any], list[Problem]]:
    if key == "":
        return "", {}, []
    preset = presets().get(key) if isinstance(key, str) else None
    if preset is None:
        known = ", ".join(presets())
        return (
            "",
            {},
            [Problem("preset", f"There is no preset {_short(key)}.", f"Known: {known}.")],
        )
    return preset.key, preset.plan.model_dump(), []


def _renamed(written: Any, plan: Plan | None, version: int) -> tuple[str, ...]:
    """What to say of a method that is planned as another."""
    if plan is None or not isinstance(written, str):
        return ()
    name = written.strip().lower()
    meant = migrate({"method": name}, version)["method"]
    if meant == name and (name not in aliases() or name in method_of(plan).spellings):
        return ()
    planned = f"{_short(written)} needs the memory of {plan.method} and is planned as it."
    if meant == name:
        return (planned,)
    newer = range(version, VERSION + 1)
    own = next(each for each in newer if migrate({"method": name}, each)["method"] == name)
    itself = f"Links before version {own} mean that by {name}; v={own} plans {name} itself."
    return (planned, itself)


def _left_out(known: Mapping[str, Any], version: int) -> tuple[str, ...]:
    """Fields that the link left to today's defaults."""
    return tuple(field for field in fields_of(version) if field not in known)


def _filled(fields: Sequence[str]) -> tuple[str, ...]:
    """What to say of such fields: all of them, for whoever writes a plan by hand."""
    if not fields:
        return ()
    return (
        f"{len(fields)} fields were not given and are filled by today's defaults: "
        f"{', '.join(fields)}.",
    )


def _lacking(fields: Sequence[str], version: int) -> tuple[str, ...]:
    """The same in short: who gives a version copied a link, and may have lost its end."""
    if not fields:
        return ()
    every = len(fields_of(version))
    return (
        f"The link names no preset and {every - len(fields)} of {every} fields; the others are as "
        "usual here. One that was cut off as it was copied looks so.",
    )


def _version(value: Any) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 10:
        return int(value)
    raise ValueError(f"v is {_short(value)!r}, not the number of a link version.")


def _unknown_problem(key: str) -> Problem:
    close = difflib.get_close_matches(key[:64], FIELDS, n=1)
    fix = f"Did you mean {close[0]}?" if close else "It is ignored; leave it out."
    name = _name(key)
    return Problem(name, f"{name} is not a field of a plan.", fix)


def _bad_text(field: str, value: str, error: ValueError) -> Problem:
    return Problem(field, f"{field} {error}: {_short(value)!r}; it is left out.", remedy(field))


def _name(key: str) -> str:
    return _short(key) or "(no name)"


def _short(value: Any) -> str:
    text = str(value)
    printable = "".join(character if character.isprintable() else "?" for character in text[:60])
    return printable + ("…" if len(text) > 60 else "")


def _too_large() -> Problem:
    return Problem(
        LINK,
        f"A link has at most {MAX_KEYS} keys and {MAX_CHARACTERS} characters; this has more.",
        "Copy it again from the page that made it.",
    )


def _refused(*problems: Problem) -> Reading:
    return Reading(plan=None, problems=problems)
