"""A pinned plan: its name and a plan, as one short text of a link, and several of them as a file.

A pin is ``5~grpo-7b@1~name.More GPUs~gpus.16``: the version of links, a preset frozen for ever, and
what differs from it. A tilde of a value is written ``~.``. Anybody may have written a pin or a
file: what is wrong in any part refuses that plan whole, since a comparison with the nearest
possible plan would be one that nobody asked for.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from planner.catalog.safe_json import read_object
from planner.linktext import short
from planner.plan.chosen import differences
from planner.plan.fieldtext import KINDS, to_text
from planner.plan.link import from_query_string, from_values
from planner.plan.migrations import FIRST_VERSION, VERSION
from planner.plan.plan import Plan
from planner.plan.presets import nearest
from planner.plan.query import PIN
from planner.problem import Problem

MOST = 4
"""Plans that are compared at once."""
MOST_CHARACTERS = 3000
"""Of one pin: every field fits. A config.json or many lengths may be longer; a file takes those."""
MOST_IN_A_LINK = 4000
"""Of all pins together: beside a complete plan, what servers and mail programs still pass on."""
MOST_FILE_BYTES = 4 * 1024 * 1024
"""An answer with every term of every phase is far below."""
NAME_CHARACTERS = 40
NAME = "name"
"""The part of a pin that is no field."""
PLANS = "plans"
"""Key of a file's plans."""
SEVERAL = (PLANS, "recommendations")
"""Keys that a list of plans stands under, in a file of ours and in an answer of recommend."""
_PARTED = re.compile(r"~(?!\.)")


class Pinned(NamedTuple):
    """A plan that is kept for comparing, and what a person calls it; empty where nobody did."""

    plan: Plan
    name: str = ""


def to_pin(pinned: Pinned) -> str:
    """The text of a pinned plan."""
    preset = nearest(pinned.plan)
    changed = differences(dict(preset.plan), dict(pinned.plan))
    parts = {NAME: pinned.name} if pinned.name else {}
    parts |= {one.field: to_text(one.after) for one in changed}
    written = (f"{key}.{text.replace('~', '~.')}" for key, text in parts.items())
    return "~".join((str(VERSION), preset.key, *written))


def from_pin(text: str) -> Pinned:
    """The pinned plan of a text.

    Raises:
        ValueError: when any part of it is wrong, with the rest of a sentence that names the pin.
    """
    if len(text) > MOST_CHARACTERS:
        raise ValueError(f"has more than {MOST_CHARACTERS:,} characters")
    version, *rest = _PARTED.split(text)
    if not version.isascii() or not version.isdigit() or not rest:
        raise ValueError("does not begin with a version and a preset, such as 5~grpo-7b@1")
    preset, *parts = rest
    given: dict[str, str] = {}
    for part in parts:
        key, dot, value = part.partition(".")
        if not dot or (key not in KINDS and key != NAME):
            raise ValueError(f"has {short(key)}, which is no field of a plan")
        if key in given:
            raise ValueError(f"gives {key} twice")
        given[key] = value.replace("~.", "~")
    name = checked_name(given.pop(NAME, ""))
    return Pinned(_plan_of({"v": version, "preset": preset, **given}), name)


def from_pins(texts: Iterable[str]) -> tuple[tuple[Pinned, ...], tuple[Problem, ...]]:
    """The pins of a link that are whole, once each, and what is wrong with the others."""
    kept: list[Pinned] = []
    problems: list[Problem] = []
    for number, text in enumerate(texts, 1):
        field = f"{PIN} {number}"
        try:
            if number > MOST:
                raise ValueError(f"is one more than the {MOST} that can be compared")
            found = from_pin(text)
        except ValueError as error:
            fix = "Pin that plan again; the other plans are kept."
            problems.append(Problem(field, f"{field} {_ended(error)}", fix))
            if number > MOST:
                break
            continue
        if found.plan not in (one.plan for one in kept):
            kept.append(found)
    return tuple(kept), tuple(problems)


def to_file(pinned: Sequence[Pinned]) -> str:
    """Pinned plans as JSON: every field of each, so that it means the same for ever."""
    plans = [{NAME: one.name, "plan": one.plan.model_dump()} for one in pinned]
    return json.dumps({"v": VERSION, PLANS: plans}, indent=1)


def from_file(content: str | bytes) -> tuple[tuple[Pinned, ...], tuple[Problem, ...]]:
    """The plans of a file that are whole, and what is wrong with the others or the file.

    The file holds several plans (``plans`` as this writes them, or the ``recommendations`` of an
    answer), one answer, or one plan's fields.
    """
    try:
        given = read_object(content, "file", "plan file", most_bytes=MOST_FILE_BYTES)
        rows = tuple(entries(given))
    except ValueError as error:
        return (), (Problem("file", str(error).removeprefix("file: "), "Give plans as JSON."),)
    kept: list[Pinned] = []
    problems: list[Problem] = []
    for number, (name, fields) in enumerate(rows, 1):
        try:
            kept.append(Pinned(_plan_of(fields), checked_name(name)))
        except ValueError as error:
            field = f"plan {number}"
            problems.append(Problem(field, f"{field} {_ended(error)}", "The others are kept."))
    return tuple(kept), tuple(problems)


def holds_several(content: bytes) -> bool:
    """Whether a file is one of several plans, right or wrong in other ways."""
    try:
        given = json.loads(content)
    except (ValueError, RecursionError):
        return False
    return isinstance(given, dict) and any(isinstance(given.get(key), list) for key in SEVERAL)


def entries(given: Mapping[str, Any]) -> Iterator[tuple[Any, dict[str, Any]]]:
    """Name and fields of each plan in a file's JSON object.

    Raises:
        ValueError: when a list of plans holds something else, or more than can be compared.
    """
    version = given.get("v", FIRST_VERSION)
    for key in SEVERAL:
        if isinstance(found := given.get(key), list):
            if not 1 <= len(found) <= MOST:
                raise ValueError(f"file: it holds {len(found)} plans; give 1 to {MOST}.")
            for row in found:
                fields = row.get("plan") if isinstance(row, dict) else None
                if not isinstance(fields, dict):
                    raise ValueError(f"file: {key} holds something that is no plan.")
                # Of a recommendation the answer beside it says which version its fields are of.
                beside = row.get("footprint")
                own = beside.get("v", version) if isinstance(beside, dict) else version
                yield row.get(NAME, ""), {"v": own, **fields}
            return
    fields = given.get("plan")
    yield "", {"v": version, **(fields if isinstance(fields, dict) else given)}


def from_link(text: str) -> Plan:
    """The plan of a whole link or query.

    Raises:
        ValueError: when anything of it is wrong.
    """
    reading = from_query_string(text)
    return _whole(reading.plan, reading.problems)


def checked_name(name: Any) -> str:
    """A plan's name without spaces around it.

    Raises:
        ValueError: when it is no line of a few words.
    """
    if not isinstance(name, str) or not name.isprintable():
        raise ValueError("has a name with characters that cannot be printed")
    if len(name) > NAME_CHARACTERS:
        raise ValueError(f"has a name of more than {NAME_CHARACTERS} characters")
    return name.strip()


def _plan_of(fields: Mapping[str, Any]) -> Plan:
    reading = from_values(fields)
    return _whole(reading.plan, reading.problems)


def _whole(plan: Plan | None, problems: Sequence[Problem]) -> Plan:
    if problems:
        # A link leaves out what is wrong with it; here that is the whole plan.
        said = problems[0].message.removesuffix("; it is left out.")
        raise ValueError(f"cannot be used: {said}")
    if plan is None:
        raise ValueError("holds no plan")
    return plan


def _ended(error: ValueError) -> str:
    return f"{str(error).strip().rstrip('.')}."
