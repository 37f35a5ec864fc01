"""A shell script, or a program's arguments: the commands that start a program."""

from __future__ import annotations

from collections.abc import Mapping

from planner.importer.given import Launch, Piece, Place, UnreadableError, bounded, of_pieces
from planner.importer.shell.commands import Commands
from planner.importer.shell.source import MOST_CHARACTERS, Source


def read_shell(text: str, name: str, beside: Mapping[str, str]) -> tuple[Launch, ...]:
    """The commands of a script that start a program, as bash would expand them.

    What the text leaves open is taken as unset where that decides something, and stands in
    ``opens``; what commands print is never known, and programs are taken to succeed.

    Args:
        text: the script. Where lines end as on Windows, places count such an end as one character.
        name: of the file, for places and messages.
        beside: further files by their paths, which it may source or start.

    Raises:
        UnreadableError: over a bound, where bash would not go on either, and where nothing is
            started and part of the text could not be read.
    """
    bounded(text, name, MOST_CHARACTERS)
    return _launches(Source(text.replace("\r\n", "\n"), name), beside)


def read_arguments(text: str, name: str, program: str) -> tuple[Launch, ...]:
    """The command of a program whose arguments are given by themselves, a line or more of them.

    Args:
        text: arguments; ends of lines separate them, behind a backslash or not.
        name: of the file, for places and messages.
        program: what stands before them in a shell.

    Raises:
        UnreadableError: as :func:`read_shell` does.
    """
    bounded(text, name, MOST_CHARACTERS)
    pieces, at = [Piece(f"{program} ", None)], 0
    for number, line in enumerate(text.replace("\r\n", "\n").splitlines(keepends=True), start=1):
        end = at + len(line)
        said = line.rstrip("\n").rstrip().removesuffix("\\")
        said = "" if said.lstrip().startswith("#") else said
        pieces.append(Piece(said.ljust(len(line)), Place(name, number, at, end)))
        at = end
    whole = of_pieces(pieces)
    return _launches(Source(whole.text, name, whole), {})


def _launches(source: Source, beside: Mapping[str, str]) -> tuple[Launch, ...]:
    from planner.plan.frameworks import frameworks

    name = source.name
    script = Commands(beside, frozenset(frameworks()))
    script.outer = script.header(source)
    script.followed(source)
    if not script.launches and script.unread:
        first = script.unread[0]
        raise UnreadableError(
            first.file, first.line, "this is no shell that could be read, and nothing is started."
        )
    if not script.launches and script.absent:
        raise UnreadableError(
            name, 1, f"it starts {script.absent[0]}, which is not here. Give that file as well."
        )
    return tuple(script.launches)
