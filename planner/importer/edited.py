"""A person's files with changed values: those lines alone, in the file's own way of writing."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import unified_diff
from typing import Any

from planner.importer.given import Place, UnreadableError

Edit = tuple[int, int, str]
ENTRY = "yaml entry at "
"""Way of writing of a further line of a YAML mapping, with its column."""


@dataclass(frozen=True, slots=True)
class Change:
    """A value instead of what stands at a place."""

    place: Place
    value: Any


@dataclass(frozen=True, slots=True)
class Addition:
    """Something more at the end of a command, a mapping or a call.

    ``given`` are the words of an argument (``("a.b=1",)``, ``("--a", "1")``), else a name and its
    value. Options of a launcher go before those that it has.
    """

    end: Place
    given: tuple[Any, ...]


def edited(files: Mapping[str, str], changes: Iterable[Change | Addition]) -> dict[str, str]:
    """The files with these changes; comments, order, quotes and line ends stay as they were.

    Raises:
        UnreadableError: two changes of one place that differ, or one of a file that is not here.
    """
    by_file: dict[str, list[Edit]] = {}
    texts = {name: text.replace("\r\n", "\n") for name, text in files.items()}
    for change in changes:
        place = change.place if isinstance(change, Change) else change.end
        if place.file not in texts:
            raise UnreadableError(place.file, place.line, "this file is not among those to change.")
        text = texts[place.file]
        edits = by_file.setdefault(place.file, [])
        if isinstance(change, Change):
            edits.append((place.start, place.end, rendered(change.value, place.forms)))
        else:
            edits.extend(_added(text, change))
    for name, edits in by_file.items():
        text = texts[name]
        at = len(text) + 1
        for start, end, written in _once(edits, name, text):
            if end > at:
                raise UnreadableError(
                    name, text.count("\n", 0, start) + 1, "two changes overlap here. Choose one."
                )
            text, at = text[:start] + written + text[end:], start
        texts[name] = text
    return {
        name: text.replace("\n", "\r\n") if "\r\n" in files[name] else text
        for name, text in texts.items()
    }


def _once(edits: list[Edit], name: str, text: str) -> list[Edit]:
    """From the last place to the first; the same change twice is one, additions are joined."""
    found: dict[tuple[int, int], str] = {}
    for start, end, written in edits:
        if start == end:
            found[start, end] = found.get((start, end), "") + written
        elif found.setdefault((start, end), written) != written:
            line = text.count("\n", 0, start) + 1
            raise UnreadableError(name, line, "two different values are given here. Choose one.")
    return [(*span, written) for span, written in sorted(found.items(), reverse=True)]


def diff(before: Mapping[str, str], after: Mapping[str, str]) -> str:
    """What differs, as a unified diff."""
    lines: list[str] = []
    for name, text in before.items():
        old, new = text.splitlines(keepends=True), after[name].splitlines(keepends=True)
        for line in unified_diff(old, new, name, name):
            lines.append(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n")
    return "".join(lines)


PLAIN_YAML = re.compile(r"[A-Za-z_./][\w./@+-]*( [\w./@+-]+)*|/?[\w.-]+(/[\w.-]+)+")
NO_TEXT = re.compile(
    r"(?i)(y|n|yes|no|true|false|on|off|null|~|[-+]?[.\d][\d_.,:eE+-]*|[-+]?0[xob]\w+|\.(inf|nan))"
)


def _yaml(value: Any, quote: str) -> str:
    if isinstance(value, str):
        if not quote and PLAIN_YAML.fullmatch(value) and not NO_TEXT.fullmatch(value):
            return value
        # Between single quotes nothing can be escaped.
        single = quote == "'" and value.isprintable()
        return "'" + value.replace("'", "''") + "'" if single else _double(value)
    if isinstance(value, list | tuple):
        return f"[{', '.join(_yaml(one, '') for one in value)}]"
    if isinstance(value, Mapping):
        inside = (f"{_yaml(key, '')}: {_yaml(one, '')}" for key, one in value.items())
        return f"{{{', '.join(inside)}}}"
    if isinstance(value, float):
        return _number(value)
    if isinstance(value, bool):
        return str(value).lower()
    return "null" if value is None else str(value)


def _double(text: str) -> str:
    """Between double quotes; what YAML takes for a line's end or does not take is escaped."""
    return UNPRINTED.sub(lambda found: f"\\u{ord(found[0]):04x}", _json(text))


UNPRINTED = re.compile("[\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]")


def _number(value: float) -> str:
    """As YAML 1.1 reads it as a number: ``1e-06`` would be a text there."""
    text = repr(value)
    if "e" in text and "." not in text:
        mantissa, _, exponent = text.partition("e")
        return f"{mantissa}.0e{exponent}"
    return text


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _python(value: Any, quote: str = '"') -> str:
    if isinstance(value, str) and quote == '"':
        return _json(value) if value.isprintable() else repr(value)
    return repr(value)


def _escaped(characters: str) -> Callable[[str], str]:
    pattern = re.compile(f"[{re.escape(characters)}]")
    return lambda text: pattern.sub(lambda found: f"\\{found[0]}", text)


FORMS: Mapping[str, Callable[[Any], str]] = {
    "word": lambda value: shlex.quote(str(value)),
    "argument": lambda value: shlex.quote(str(value)),
    "'": lambda value: str(value).replace("'", "'\\''"),
    '"': lambda value: _escaped('\\"$`')(str(value)),
    "{": lambda value: shlex.quote(str(value)),
    '"{': lambda value: _escaped('\\"$`}')(str(value)).replace("'", "\"'\""),
    "<<": lambda value: _escaped("\\$`")(str(value)),
    "yaml": lambda value: _yaml(value, ""),
    "yaml nothing": lambda value: f" {_yaml(value, '')}",
    "yaml'": lambda value: _yaml(value, "'"),
    'yaml"': lambda value: _yaml(value, '"'),
    "json": _json,
    "python": _python,
    "python'": lambda value: _python(value, "'"),
}
"""How a value is written in each way; ``Place.forms`` names them, innermost first."""


def rendered(value: Any, forms: Iterable[str]) -> str:
    """A value as it is written in these ways, one inside the other."""
    for form in forms:
        value = FORMS[form](value)
    return str(value)


def _added(text: str, addition: Addition) -> Iterator[Edit]:
    """What is written behind what is there, in its layout."""
    place, given = addition.end, addition.given
    at, (kind, *outer) = place.start, place.forms
    line = text[text.rfind("\n", 0, at) + 1 : at]
    margin = line[: len(line) - len(line.lstrip())]
    if kind == "option":
        yield at, at, "".join(f"{shlex.quote(one)} " for one in given)
        return
    if kind == "argument":
        words = " ".join(rendered(one, place.forms) for one in given)
        continues = text[: at - len(line)].endswith("\\\n")
        yield at, at, f" \\\n{margin}{words}" if continues else f" {words}"
        return
    name, value = given
    if kind.startswith(ENTRY):
        margin = " " * int(kind.removeprefix(ENTRY))
        yield at, at, rendered(f"\n{margin}{_yaml(name, '')}: {_yaml(value, '')}", outer)
        return
    written = rendered(
        {
            "yaml flow": lambda: f"{_yaml(name, '')}: {_yaml(value, '')}",
            "json entry": lambda: f"{_json(name)}: {_json(value)}",
            "python argument": lambda: f"{name}={_python(value)}",
            "python entry": lambda: f"{_python(name)}: {_python(value)}",
        }[kind](),
        outer,
    )
    if text[:at].rstrip().endswith(("{", "(")):
        yield at, at, written
        return
    behind = re.compile(r"[ \t]*(,?)[ \t]*(?:#[^\n]*)?(?=\n)").match(text, at)
    if behind is None:
        yield at, at, f", {written}"
        return
    comma = behind[1]
    if not comma:
        yield at, at, ","
    yield behind.end(), behind.end(), f"\n{margin}{written}{comma}"
