"""What a link says, today and in years; how it is written stands in :mod:`planner.plan.query`.

Reading never raises for what a link holds: whatever is wrong comes back as a
:class:`~planner.problem.Problem`, and the rest is used.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import parse_qs

from planner.plan import FIELDS, Plan, remedy, try_plan
from planner.plan.factors import Factors, factors_from_text
from planner.plan.fieldtext import KINDS, from_text
from planner.plan.methods import expanded, spelt
from planner.plan.migrations import FIRST_VERSION, VERSION, migrate
from planner.plan.presets import presets
from planner.plan.query import BENCHMARK, CALIBRATION, CHOSEN, LINK, SHOWN, fields_of
from planner.plan.switch import Switch, best_plan, switch_of, switched
from planner.problem import MEANT, Problem, meant
from planner.speeds import Speeds, speeds_from_text

MAX_CHARACTERS = 64 * 1024
MAX_KEYS = 200
Beside = TypeVar("Beside", Factors, Speeds)
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
    left_out: tuple[tuple[str, str], ...] = ()
    """What was asked for and is not in ``plan``: each field, and its value as it was written."""
    moves: tuple[tuple[str, str], ...] = ()
    """Which way each of those moves the figures, where it is no field of a plan."""
    of: str = "link"
    """What said it, in a word."""


def from_query_string(text: str, *, unnamed: int = FIRST_VERSION) -> Reading:
    """Reads a query string or a whole link; never raises for what it holds.

    ``unnamed`` is the version of one that names none: of fields that a person types, today's.
    """
    query = text.strip().partition("#")[0]
    if "?" in query:
        query = query.partition("?")[2]
    if len(query) > MAX_CHARACTERS or query.count("&") >= MAX_KEYS:
        return _refused(_too_large())
    return from_query(parse_qs(query, keep_blank_values=True), ignore=SHOWN, unnamed=unnamed)


def from_query(
    query: Mapping[str, str | Sequence[str]],
    *,
    ignore: Collection[str] = (),
    unnamed: int = FIRST_VERSION,
) -> Reading:
    """Reads a query's keys and values; those in ``ignore`` belong to somebody else."""
    single, doubled, (size, count) = once_each(query, ignore)
    if size > MAX_CHARACTERS or count > MAX_KEYS:
        return _refused(_too_large())
    return from_values(single, problems=tuple(doubled), unnamed=unnamed)


def once_each(
    query: Mapping[str, str | Sequence[str]], ignore: Collection[str]
) -> tuple[dict[str, str], list[Problem], tuple[int, int]]:
    """A query's last value of each key, what to say of keys given twice, and how large it is.

    In characters, and in values. Keys in ``ignore`` belong to somebody else.
    """
    single: dict[str, str] = {}
    doubled: list[Problem] = []
    kept = {key: value for key, value in query.items() if key not in ignore}
    texts = {key: [value] if isinstance(value, str) else list(value) for key, value in kept.items()}
    size = sum(len(key) + sum(map(len, values)) + len(values) for key, values in texts.items())
    count = sum(map(len, texts.values()))
    for key, values in texts.items():
        if len(values) > 1 and not values[-1]:
            values.pop()  # a link that was cut off in a name that begins like this one
        if len(values) > 1:
            said = f"{_name(key)} is given {len(values)} times; the last one is used."
            doubled.append(Problem(_name(key), said, "Give it once."))
        if values:
            single[key] = values[-1]
    return single, doubled, (size, count)


def from_values(
    given: Mapping[str, Any],
    *,
    problems: tuple[Problem, ...] = (),
    unnamed: int = FIRST_VERSION,
) -> Reading:
    """Reads fields given as their own types or as text.

    ``v``, ``preset``, ``calibration`` and ``benchmark`` may be among them.
    """
    found = list(problems)
    beside = ("v", "preset", CHOSEN, CALIBRATION, BENCHMARK)
    fields = {key: value for key, value in given.items() if key not in beside}
    if isinstance(fields.get("method"), str):
        fields["method"] = spelt(fields["method"])
    try:
        version = _version(given.get("v", unnamed))
        fields = expanded(migrate(fields, version))
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
        gone = {*halves, *((CHOSEN,) if tuple(given)[-1] == CHOSEN else ())}
        found = [*cut, *(problem for problem in found if problem.field not in gone)]
    written = {**base, **values} if "v" in given else values
    run, before, refused = switched(
        values, written, chosen if CHOSEN in given else None, fields_of(version)
    )
    found.extend(refused)
    plan, dropped, alone = best_plan(run, base)
    found.extend(dropped)
    switch = switch_of(plan, alone if before is None else try_plan(before)[0])
    calibration, bad = _beside(given, CALIBRATION, factors_from_text, "nothing is corrected")
    found.extend(bad)
    benchmark, bad = _beside(given, BENCHMARK, speeds_from_text, "nothing of it is used")
    found.extend(bad)
    following = () if switch is None else (switch.note,)
    told = (*_renamed(given.get("method"), plan, version), *following)
    left_out = () if cut or plan is None else _left_out(known, version)
    copied = "v" in given and not preset_problems
    lost = [problem for problem in found if problem not in problems]
    return Reading(
        plan=plan,
        problems=tuple(found),
        notes=(*told, *_filled(left_out)),
        told=(*told, *_lacking(left_out, version)) if copied else told,
        unknown=tuple(map(_short, unknown)),
        preset=preset,
        chosen=chosen,
        calibration=calibration,
        benchmark=benchmark,
        switch=switch,
        left_out=() if plan is None else _lost(lost, {**given, **fields}),
    )


def _lost(
    problems: Sequence[Problem], asked: Mapping[str, Any]
) -> tuple[tuple[str, str], ...]:
    """What of a plan that was asked for these problems have left out; keys of others are none."""
    of_plan = (*FIELDS, "preset", LINK)
    left = [one.field for one in problems if one.field in of_plan or one.fix.startswith(MEANT)]
    return tuple((name, str(asked.get(name, ""))) for name in dict.fromkeys(left))


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
        fix = f"Copy the link again, or leave {key} out."
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
    lost = f"{len(missing)} of its {len(every)} fields, from {missing[0]} to {missing[-1]},"
    if len(missing) == len(every):
        lost = "all of its fields"
    sentence = f"The link was cut off: {lost} are missing and take their defaults."
    return (Problem(LINK, sentence, "Copy the whole link again."),)


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
        fix = f"Copy the link again, or leave {CHOSEN} out."
        return frozenset(given), [Problem(CHOSEN, sentence, fix)]
    return frozenset(name for name in names if name), []


def _base(key: Any) -> tuple[str, Mapping[str, Any], list[Problem]]:
    if key == "":
        return "", {}, []
    preset = presets().get(key) if isinstance(key, str) else None
    if preset is None:
        fix = meant(str(key), presets(), f"Known: {', '.join(presets())}.")
        return "", {}, [Problem("preset", f"There is no preset {_short(key)}.", fix)]
    return preset.key, preset.plan.model_dump(), []


def _renamed(written: Any, plan: Plan | None, version: int) -> tuple[str, ...]:
    """What to say of a method that is planned as another."""
    if plan is None or not isinstance(written, str):
        return ()
    name = spelt(written)
    meant = migrate({"method": name}, version)["method"]
    if meant == name:
        return ()
    shown = written if name == written.strip().lower() else name
    planned = f"{_short(shown)} is planned as {plan.method}, whose memory it needs."
    newer = range(version, VERSION + 1)
    own = next(each for each in newer if migrate({"method": name}, each)["method"] == name)
    itself = f"It meant that in links before version {own}; v={own} plans {name} itself."
    return (planned, itself)


def _left_out(known: Mapping[str, Any], version: int) -> tuple[str, ...]:
    """Fields that the link left to today's defaults."""
    return tuple(field for field in fields_of(version) if field not in known)


def _filled(fields: Sequence[str]) -> tuple[str, ...]:
    """What to say of such fields: all of them, for whoever writes a plan by hand."""
    if not fields:
        return ()
    return (
        f"{len(fields)} fields were not given and take today's defaults: "
        f"{', '.join(fields)}.",
    )


def _lacking(fields: Sequence[str], version: int) -> tuple[str, ...]:
    """The same in short: who gives a version copied a link, and may have lost its end."""
    if not fields:
        return ()
    every = len(fields_of(version))
    return (
        f"The link gives {every - len(fields)} of {every} fields and no preset; the others take "
        "their defaults. It may have been cut off when it was copied.",
    )


def _version(value: Any) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 10:
        return int(value)
    raise ValueError(f"v is {_short(value)!r}, not the number of a link version.")


def _unknown_problem(key: str) -> Problem:
    fix = meant(key, FIELDS, "This field is ignored; leave it out.")
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
        f"A link has at most {MAX_KEYS} keys and {MAX_CHARACTERS} characters; this link has more.",
        "Copy it again from the page that made it.",
    )


def _refused(*problems: Problem) -> Reading:
    return Reading(plan=None, problems=problems)
