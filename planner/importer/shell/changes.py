"""``${x#…}``, ``${x/…}``, ``${x:…}``, ``${x^}``: what an operator makes of a value."""

from __future__ import annotations

from dataclasses import replace

from planner.importer.given import Piece, Word, of_pieces
from planner.importer.shell import patterns
from planner.importer.shell.evaluation import Evaluator
from planner.importer.shell.parts import BRACED, DOUBLE, Parameter


def changed(evaluator: Evaluator, part: Parameter, word: Word) -> Word:
    """A value behind ``#``, ``%``, ``/``, ``^``, ``,`` or ``:``."""
    operator, text = part.operator, word.text
    size = len(text)
    evaluator.state.effort.spend(len(word.pieces) // 16)
    if operator == ":":
        first, count = _bounds(evaluator, part)
        first = first if first >= 0 else size + first
        if not 0 <= first <= size:
            return word.part(size, size) if size else word
        last = size if count is None else first + count if count >= 0 else size + count
        return word.part(first, max(first, min(last, size)))
    if operator[0] in "^,":
        return _cased(evaluator, part, word)
    stops = frozenset("/" if operator[0] == "/" else "")
    raw = evaluator.reader.all(*part.argument, BRACED, stops)
    pattern = evaluator.pattern(raw)
    evaluator.state.effort.spend((len(pattern) + 1) * (size + 1) // 4)
    if operator[0] == "#":
        found = patterns.ends(pattern, text)
        return word.part(found[-1] if operator == "##" else found[0]) if found else word
    if operator[0] == "%":
        found = patterns.ends(pattern[::-1], text[::-1])
        taken = (found[-1] if operator == "%%" else found[0]) if found else 0
        return word.part(0, size - taken) if found else word
    instead: tuple[Piece, ...] = ()
    if raw.end < part.argument[1]:
        instead = evaluator.text(evaluator.reader.all(raw.end + 1, part.argument[1], BRACED)).pieces
    return _replaced(evaluator, part, word, pattern, instead)


def sliced(evaluator: Evaluator, part: Parameter, found: list[Word]) -> list[Word]:
    """``${@:2}`` and ``${a[@]:1:3}``."""
    first, count = _bounds(evaluator, part)
    if part.name in ("@", "*"):
        first -= 1 if first > 0 else 0
    first = first if first >= 0 else max(len(found) + first, 0)
    return found[first:] if count is None else found[first : first + max(count, 0)]


def _bounds(evaluator: Evaluator, part: Parameter) -> tuple[int, int | None]:
    start, end = part.argument
    raw = evaluator.reader.all(start, end, DOUBLE, frozenset(":"))
    first, _ = evaluator.value(evaluator.text(raw), start)
    if raw.end >= end:
        return first, None
    count, _ = evaluator.number(raw.end + 1, end)
    return first, count


def _replaced(
    evaluator: Evaluator,
    part: Parameter,
    word: Word,
    pattern: tuple[patterns.Token, ...],
    instead: tuple[Piece, ...],
) -> Word:
    operator, text = part.operator, word.text
    pieces, at, kept = list[Piece](), 0, 0
    stars = patterns.STAR in pattern
    while at <= len(text):
        # Without a star there is one way to go on from each character.
        looked = (len(pattern) + 1) * (len(text) - at + 1) if stars else len(pattern) + 1
        evaluator.state.effort.spend(looked // 4 + 1)
        if operator == "/%":
            found = [one for one in patterns.ends(pattern, text, at) if one == len(text)]
        else:
            found = patterns.ends(pattern, text, at)
        if found and (found[-1] > at or (operator in ("/#", "/%"))):
            if kept < at:
                pieces.extend(word.part(kept, at).pieces)
            pieces.extend(replace(one, opens=(*one.opens, *word.opens)) for one in instead)
            at = kept = found[-1]
            if operator != "//":
                break
            continue
        if operator == "/#":
            break
        at += 1
    if not kept and not pieces:
        return word
    if kept < len(text):
        pieces.extend(word.part(kept).pieces)
    return of_pieces(pieces or [Piece("", None, None, word.opens)])


def _cased(evaluator: Evaluator, part: Parameter, word: Word) -> Word:
    raw = evaluator.reader.all(*part.argument, BRACED)
    pattern = evaluator.pattern(raw) or (patterns.ANY,)
    act = str.upper if part.operator[0] == "^" else str.lower
    upto = len(word.text) if len(part.operator) == 2 else 1
    evaluator.state.effort.spend(len(word.text) * (len(pattern) + 1))
    text = "".join(
        act(one) if at < upto and patterns.matches(pattern, one) else one
        for at, one in enumerate(word.text)
    )
    return word if text == word.text else of_pieces([Piece(text, None, None, word.opens)])
