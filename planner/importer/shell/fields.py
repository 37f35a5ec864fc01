"""Words out of what an unquoted word expands to: values are cut at blanks, or at ``IFS``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from planner.importer.given import Open, Piece, Place, Word, of_pieces
from planner.importer.shell.evaluation import Chunk
from planner.importer.shell.variables import UNSET, State


def separators(state: State) -> str:
    """Characters that cut values: those of ``IFS``."""
    found = state.variables.get("IFS", UNSET).values.get(0)
    text = found.text if found else " \t\n"
    state.effort.spend(len(text) // 16)
    return text


def fields(
    chunks: Iterable[Chunk], state: State, written: Place | None, dropped: list[Open]
) -> list[Word]:
    """Chunks cut into words where unquoted values have blanks.

    Args:
        chunks: of one written word.
        state: what a script has said, for ``IFS``.
        written: where the word stands.
        dropped: what comes to no word at all is added here.
    """
    done: list[Word] = []
    current: list[Piece] | None = None
    whole: Word | None = None
    between = separators(state)

    def cut(last: bool = False) -> None:
        nonlocal current, whole
        if current is not None:
            only = written if last and not done else None
            done.append(whole or of_pieces(current, only))
            state.effort.spend(1 + len(done[-1].text) // 8)
        current = whole = None

    def add(pieces: Iterable[Piece]) -> None:
        nonlocal current, whole
        current, whole = current or [], None
        current.extend(pieces)

    for chunk in chunks:
        if chunk is None:
            cut()
        elif isinstance(chunk[0], Word):
            alone = current is None
            add(chunk[0].pieces)
            whole = chunk[0] if alone else None
        elif not chunk[2]:
            if chunk[0].text or chunk[1]:
                add((chunk[0],))
        else:
            piece, at = chunk[0], 0
            if not piece.text:
                dropped.extend(piece.opens)
            for found in _splits(piece.text, between):
                if found.start() > at or (found[0].strip() and current is None):
                    add((piece.part(at, found.start()),))
                cut()
                at = found.end()
            if at < len(piece.text):
                add((piece.part(at, len(piece.text)),))
    cut(last=True)
    return done


def _splits(text: str, separators: str) -> Iterator[re.Match[str]]:
    """Where a value is cut: runs of blanks, or another separator with the blanks around it."""
    blank = re.escape("".join(one for one in separators if one in " \t\n"))
    other = re.escape("".join(one for one in separators if one not in " \t\n"))
    forms = []
    if other:
        forms.append(f"[{blank}]*[{other}][{blank}]*" if blank else f"[{other}]")
    if blank:
        forms.append(f"[{blank}]+")
    return re.finditer("|".join(forms), text) if forms else iter(())
