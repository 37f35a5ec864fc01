"""``{a,b}`` and ``{1..8}``: several words out of one, before anything in it is expanded."""

from __future__ import annotations

import re
from collections.abc import Sequence

from planner.importer.shell.parts import Literal, Part
from planner.importer.shell.source import Source

MOST_WORDS = 2_000
SEQUENCE = re.compile(r"(?:(-?\d+)\.\.(-?\d+)|([a-zA-Z])\.\.([a-zA-Z]))(?:\.\.(-?\d+))?")


def alternatives(parts: tuple[Part, ...], source: Source) -> list[tuple[Part, ...]]:
    """The words that a word with braces stands for, each as its parts."""
    if not any(isinstance(p, Literal) and not p.quoted and "{" in p.text for p in parts):
        return [parts]
    atoms: list[Part] = []
    for part in parts:
        if isinstance(part, Literal) and not part.quoted:
            for at, one in enumerate(part.text, part.start):
                atoms.append(Literal(at, at + 1, one, part.form, False))
        else:
            atoms.append(part)
    if len(atoms) > MOST_WORDS:
        return [parts]
    return [_merged(word) for word in _expanded(atoms, source, 0)]


def _sign(part: Part) -> str:
    return part.text if isinstance(part, Literal) and not part.quoted else ""


def _expanded(atoms: Sequence[Part], source: Source, depth: int) -> list[list[Part]]:
    for first, atom in enumerate(atoms):
        if _sign(atom) != "{":
            continue
        close, commas = _closing(atoms, first)
        if close is None:
            continue
        cuts = [first, *commas, close]
        inside = "".join(map(_sign, atoms[first + 1 : close]))
        if commas:
            items = [
                one
                for a, b in zip(cuts, cuts[1:], strict=False)
                for one in _expanded(atoms[a + 1 : b], source, depth + 1)
            ]
        elif all(map(_sign, atoms[first + 1 : close])) and (run := SEQUENCE.fullmatch(inside)):
            items = [
                [Literal(atom.start, atoms[close].end, text, "", False)]
                for text in _sequence(run, source, atom.start)
            ]
        else:
            continue
        rest = _expanded(atoms[close + 1 :], source, depth + 1)
        if len(items) * len(rest) > MOST_WORDS or depth > 30:
            raise source.error(atom.start, "braces stand for more words than are read.")
        return [[*atoms[:first], *item, *tail] for item in items for tail in rest]
    return [list(atoms)]


def _closing(atoms: Sequence[Part], first: int) -> tuple[int | None, list[int]]:
    depth, commas = 0, list[int]()
    for at in range(first, len(atoms)):
        sign = _sign(atoms[at])
        depth += {"{": 1, "}": -1}.get(sign, 0)
        if depth == 0:
            return at, commas
        if sign == "," and depth == 1:
            commas.append(at)
    return None, []


def _sequence(run: re.Match[str], source: Source, at: int) -> list[str]:
    letters = run[3] is not None
    first, last = (ord(run[3]), ord(run[4])) if letters else (int(run[1]), int(run[2]))
    step = abs(int(run[5] or 1)) or 1
    if abs(last - first) // step > MOST_WORDS:
        raise source.error(at, "braces stand for more words than are read.")
    numbers = range(first, last + (1 if last >= first else -1), step if last >= first else -step)
    if letters:
        return [chr(one) for one in numbers]
    padded = [one for one in (run[1], run[2]) if re.fullmatch(r"-?0\d+", one)]
    width = max(len(run[1]), len(run[2])) if padded else 0
    return [f"{one:0{width}d}" for one in numbers]


def _merged(word: Sequence[Part]) -> tuple[Part, ...]:
    """Neighbouring characters as one literal again."""
    found: list[Part] = []
    for part in word:
        last = found[-1] if found else None
        if (
            isinstance(part, Literal)
            and isinstance(last, Literal)
            and last.end == part.start
            and part.form == last.form != ""
            and not (part.quoted or last.quoted)
        ):
            found[-1] = Literal(last.start, part.end, last.text + part.text, part.form, False)
        else:
            found.append(part)
    return tuple(found)
